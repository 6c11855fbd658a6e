"""A container runtime that is another one, and tells a recorder of every call.

It is put around the client by who assembles the process. What is kept is the request and the answer as they were
passed, in the bytes that they have on the wire, for as objects they are several times as large, and a list of the same
pods only once; their text is made, and secrets are taken out of it, only when a trace is written: environment and
arguments that came from secrets, and the credentials of pulls.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import msgspec
from google.protobuf.message import Message

from beehive.causes import current
from beehive.trace.format import CriCall
from edged.cri.contract import ContainerRuntime, ExecResult, Streams
from edged.cri.recording_events import StreamEar, StreamEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from beehive.clock import Clock
    from beehive.trace.redact import Redactor
    from protos.cri.v1 import api_pb2 as pb

_CREDENTIALS: Final = "auth"
"""Name of the argument of `pull_image` that holds them."""

_KEYS: Final = frozenset({"exec_url", "attach_url", "port_forward_url"})
"""Calls whose answer is a key: who has it may use a container."""

_NOT_SHOWN: Final = "not shown"

_OUTPUT_BYTES: Final = 64 * 1024
"""Bytes of a command's output that are recorded."""


class CriEntry(msgspec.Struct, frozen=True, gc=False):
    """A call that has ended (`beehive.trace.entries.Entry`)."""

    time: float
    span: int
    cause: int
    trace: int
    sender: str
    method: str
    arguments: dict[str, Any]
    answer: Any
    error: Exception | None
    seconds: float
    again: bool = False
    """Whether the entry before it that is like it keeps this very answer."""

    @property
    def size(self) -> int:
        """Bytes of memory that it keeps, roughly."""
        return 1000 + sum(map(_bytes_in, self.arguments.values())) + (0 if self.again else _bytes_in(self.answer))

    def record(self, time: float, redactor: Redactor) -> CriCall:
        """As it is written."""
        request = {name: _argument(name, value, redactor) for name, value in self.arguments.items()}
        shown = _NOT_SHOWN if self.method in _KEYS else _plain(self.answer)
        answer = b"" if self.error is not None else redactor.json(msgspec.json.encode(shown))
        return CriCall(
            time, self.span, self.cause, self.trace, self.sender, self.method,
            redactor.json(msgspec.json.encode(request)), answer,
            "" if self.error is None else type(self.error).__name__,
            "" if self.error is None else redactor.text(str(self.error)), self.seconds,
        )  # fmt: skip


def recording(
    runtime: ContainerRuntime, clock: Clock, next_span: Callable[[], int], add: Callable[[CriEntry | StreamEntry], None]
) -> ContainerRuntime:
    """`runtime`, recorded.

    Args:
        runtime: that is called.
        clock: that times are taken from.
        next_span: numbers the calls, see `beehive.causes`.
        add: takes the entry of each call that has ended; on the caller's thread.
    """
    return cast("ContainerRuntime", RecordingRuntime(runtime, clock, next_span, add))


class _Packed(msgspec.Struct, frozen=True, gc=False):
    """Messages of one kind, in bytes; a list of them, or only one."""

    kind: type[Message]
    parts: tuple[bytes, ...]
    alone: bool

    def messages(self) -> list[Message]:
        """Them again."""
        return [self.kind.FromString(part) for part in self.parts]


def packed(value: Any) -> Any:
    """What a call was given or gave, as it is kept."""
    if isinstance(value, Message):
        return _Packed(type(value), (value.SerializeToString(deterministic=True),), alone=True)
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return value
    if value and isinstance(value[0], Message):
        parts = tuple(item.SerializeToString(deterministic=True) for item in value)
        return _Packed(type(value[0]), parts, alone=False)
    return value if value else ()  # an empty list of protobuf's holds the whole answer that it is from


def _bytes_in(value: object) -> int:
    """Bytes of what is kept of it."""
    if isinstance(value, _Packed):
        return sum(50 + len(part) for part in value.parts)
    if isinstance(value, (str, bytes)):
        return 50 + len(value)
    return sum(map(_bytes_in, value)) if isinstance(value, Sequence) else 0


class RecordingRuntime:
    """See the module's docstring. It has the methods of `ContainerRuntime`, all of them made of `_METHODS`."""

    def __init__(
        self,
        runtime: ContainerRuntime,
        clock: Clock,
        next_span: Callable[[], int],
        add: Callable[[CriEntry | StreamEntry], None],
    ) -> None:
        self._runtime = runtime
        self._monotonic = clock.monotonic
        self._next_span = next_span
        self._add = add
        self._lists: dict[str, _Packed] = {}

    def close(self) -> None:
        """Let go of the connection; not recorded, for nothing is asked."""
        self._runtime.close()

    def container_events(
        self, opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]
    ) -> NoReturn:
        """Recorded event by event: the call itself ends only with its client."""
        ear = StreamEar(self._monotonic, self._next_span, self._add)
        ear.listening()
        try:
            self._runtime.container_events(ear.opened(opened), ear.happened(happened))
        except Exception as error:
            ear.ended(error)
            raise

    def _call(self, method: str, names: tuple[str, ...], positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        arguments = {**dict(zip(names, positional, strict=False)), **named}
        turn, span, begin = current(), self._next_span(), self._monotonic()
        answer, error = None, None
        try:
            answer = getattr(self._runtime, method)(*positional, **named)
        except Exception as raised:
            error = raised
            raise
        finally:
            now = self._monotonic()
            given = {name: packed(value) for name, value in arguments.items()}
            kept, again = self._kept(method, given, packed(answer))
            self._add(
                CriEntry(
                    now, span, turn.span, turn.trace or span, turn.actor, method, given, kept, error, now - begin, again
                )
            )
        return answer

    def _kept(self, method: str, arguments: dict[str, Any], answer: Any) -> tuple[Any, bool]:
        """The answer, or that of the last such call when it is the same; and whether it is."""
        if not isinstance(answer, _Packed) or answer.alone or any(arguments.values()):
            return answer, False
        last = self._lists.get(method)
        if last == answer:
            return last, True
        self._lists[method] = answer
        return answer, False


_METHODS: Final[dict[str, tuple[str, ...]]] = {
    name: function.__code__.co_varnames[1 : function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    for name, function in vars(ContainerRuntime).items()
    if not name.startswith("_") and name not in ("close", "container_events") and hasattr(function, "__code__")
}
"""The methods of the contract that answer once, with the names of their arguments."""


def _recorded(method: str, names: tuple[str, ...]) -> Callable[..., Any]:
    def call(self: RecordingRuntime, *positional: Any, **named: Any) -> Any:
        return self._call(method, names, positional, named)

    call.__name__, call.__qualname__ = method, f"RecordingRuntime.{method}"
    return call


for _name, _names in _METHODS.items():
    setattr(RecordingRuntime, _name, _recorded(_name, _names))


def _argument(name: str, value: Any, redactor: Redactor) -> Any:
    """An argument without secrets. Values of variables, which are bytes in CRI, are text: in base64, the form that JSON
    has for bytes, nobody could read them, nor could a secret in the middle of one be found.
    """
    plain = _plain(value)
    if name == _CREDENTIALS and plain:
        return redactor.credentials(plain)
    if isinstance(plain, dict) and "envs" in plain:
        for variable in plain["envs"]:
            value = base64.b64decode(variable.get("value", ""))
            variable["value"] = redactor.value(value.decode("utf-8", "replace"))
    return plain


def _plain(value: Any) -> Any:
    """A value that JSON can hold; messages in protobuf's JSON form with the names that CRI gives its fields."""
    if isinstance(value, Message):
        return _plain(packed(value))
    if isinstance(value, _Packed):
        from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - only when a trace is written

        plain = [MessageToDict(message, preserving_proto_field_name=True) for message in value.messages()]
        return plain[0] if value.alone else plain
    if isinstance(value, Streams):
        return value._asdict()
    if isinstance(value, ExecResult):
        return {"stdout": _text(value.stdout), "stderr": _text(value.stderr), "exit_code": value.exit_code}
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return [_plain(item) for item in value]


def _text(output: bytes) -> str:
    return output[:_OUTPUT_BYTES].decode("utf-8", "replace")
