"""Records the calls to a container runtime for a trace.

A call is kept with its request and answer in the bytes of the wire, because objects are several times as large, and a
repeated list of pods only once. Only when a trace is written, the text is made and secrets are removed: environment and
arguments that came from secrets, and the credentials of pulls.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import msgspec
from google.protobuf.message import Message

from beehive.trace.format import CriCall
from beehive.trace_context import current_context
from edged.cri.contract import ContainerRuntime, ExecResult, Streams
from edged.cri.recording_events import StreamRecorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from beehive.trace.entries import EntrySink
    from beehive.trace.redact import Redactor
    from protos.cri.v1 import api_pb2 as pb

_CREDENTIALS: Final = "auth"
"""Name of the argument of `pull_image` with the credentials."""

_KEYS: Final = frozenset({"exec_url", "attach_url", "port_forward_url"})
"""Calls whose answer is a secret: its holder may use a container."""

_NOT_SHOWN: Final = "not shown"

_OUTPUT_BYTES: Final = 64 * 1024
"""Recorded bytes of a command's output."""


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
    """Whether an earlier, equal entry already keeps this very answer."""

    @property
    def size(self) -> int:
        """Approximate bytes of memory."""
        return 1000 + _bytes_in((*self.arguments.values(), None if self.again else self.answer))

    def record(self, time: float, redactor: Redactor) -> CriCall:
        """Return the entry in the form of a trace, without secrets."""
        request = {name: _argument(name, value, redactor) for name, value in self.arguments.items()}
        shown = _NOT_SHOWN if self.method in _KEYS else _plain(self.answer)
        answer = b"" if self.error is not None else redactor.json(msgspec.json.encode(shown))
        return CriCall(
            time, self.span, self.cause, self.trace, self.sender, self.method,
            redactor.json(msgspec.json.encode(request)), answer,
            "" if self.error is None else type(self.error).__name__,
            "" if self.error is None else redactor.text(str(self.error)), self.seconds,
        )  # fmt: skip


def recording(runtime: ContainerRuntime, sink: EntrySink) -> ContainerRuntime:
    """Return `runtime` with all its calls recorded: a `CriEntry` for each call that has ended, a `StreamEntry` for each
    event.
    """
    return cast("ContainerRuntime", RecordingRuntime(runtime, sink))


class _Packed(msgspec.Struct, frozen=True, gc=False):
    """Messages of one kind, in bytes; a list, or a single one."""

    kind: type[Message]
    parts: tuple[bytes, ...]
    alone: bool

    def messages(self) -> list[Message]:
        """Return the messages, decoded."""
        return [self.kind.FromString(part) for part in self.parts]


def packed(value: Any) -> Any:
    """Return the stored form of an argument or an answer."""
    if isinstance(value, Message):
        return _Packed(type(value), (value.SerializeToString(deterministic=True),), alone=True)
    if isinstance(value, (str, bytes, int, NoneType)) or not isinstance(value, Sequence):
        return value
    if value and isinstance(value[0], Message):
        parts = tuple(item.SerializeToString(deterministic=True) for item in value)
        return _Packed(type(value[0]), parts, alone=False)
    return value if value else ()  # an empty list of protobuf's would keep its whole answer alive


def _bytes_in(values: Sequence[object]) -> int:
    """Return the approximate bytes of stored values."""
    size = 0
    for value in values:
        if isinstance(value, _Packed):
            size += 50 * len(value.parts) + sum(map(len, value.parts))
        elif isinstance(value, (str, bytes)):
            size += 50 + len(value)
        elif isinstance(value, (tuple, list)):
            size += _bytes_in(value)
    return size


class RecordingRuntime:
    """A ContainerRuntime that passes every call on to another one and records it.

    The assembly of the process puts it around the client. It has the methods of `ContainerRuntime`, generated from
    `_METHODS`.
    """

    def __init__(self, runtime: ContainerRuntime, sink: EntrySink) -> None:
        self._runtime = runtime
        self._sink = sink
        self._monotonic = sink.monotonic
        self._next_span = sink.next_span
        self._add = sink.add
        self._lists: dict[str, _Packed] = {}

    def close(self) -> None:
        """Close the runtime; not recorded, because it is no call."""
        self._runtime.close()

    def container_events(
        self, opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]
    ) -> NoReturn:
        """Record event by event: the call itself ends only with its client."""
        recorder = StreamRecorder(self._sink)
        recorder.listening()
        try:
            self._runtime.container_events(recorder.opened(opened), recorder.happened(happened))
        except Exception as error:
            recorder.ended(error)
            raise

    def _call(self, method: str, names: tuple[str, ...], positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        arguments = {**dict(zip(names, positional, strict=False)), **named}
        context, span, begin = current_context(), self._next_span(), self._monotonic()
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
            self._add(CriEntry(
                now, span, context.span, context.trace or span, context.actor,
                method, given, kept, error, now - begin, again,
            ))  # fmt: skip
        return answer

    def _kept(self, method: str, arguments: dict[str, Any], answer: Any) -> tuple[Any, bool]:
        """Return the answer, or the equal answer of the last such call; and whether it is the last one's."""
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
"""The unary methods of the contract, with the names of their arguments."""


def _recorded(method: str, names: tuple[str, ...]) -> Callable[..., Any]:
    def call(self: RecordingRuntime, *positional: Any, **named: Any) -> Any:
        return self._call(method, names, positional, named)

    call.__name__, call.__qualname__ = method, f"RecordingRuntime.{method}"
    return call


for _name, _names in _METHODS.items():
    setattr(RecordingRuntime, _name, _recorded(_name, _names))


def _argument(name: str, value: Any, redactor: Redactor) -> Any:
    """Return an argument without secrets. Values of variables, which are bytes in CRI, become text: in base64, JSON's
    form of bytes, they would be unreadable, and a secret inside one could not be found.
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
    """Return a value that JSON can hold; messages in protobuf's JSON form, with CRI's field names."""
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
