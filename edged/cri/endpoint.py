"""A gRPC connection to a container runtime's socket, in the version of CRI that the runtime knows.

CRI is served as `runtime.v1`, and by older runtimes (containerd before 1.6, CRI-O before 1.23) only as
`runtime.v1alpha2`: the same messages under other method paths. The version is probed on the first call, not at
construction, so that edged can start before its runtime; and again when the runtime behind the socket was replaced by
one without that version.

Calls block the calling thread, which waits for its own answer inside gRPC: no thread is spent per call or channel.
Deadlines are gRPC's own; this is the one place in edged where waiting is not on the hive's clock, because another
process is waited for. gRPC's library is loaded with the first call that needs it; a runtime in this process answers
most of them without.
"""

from __future__ import annotations

import re
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeVar

from edged.cri.errors import ConnectionClosedError, CriError, UnavailableError, UnimplementedError, error_of
from protos.cri.v1 import api_pb2
from protos.status import CallError, StatusCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from google.protobuf.message import Message

    from edged.cri.channel import Channel

API_VERSIONS: Final = ("runtime.v1", "runtime.v1alpha2")
"""Supported packages of CRI, the preferred one first."""

FINISH_SECONDS: Final = 10.0
"""How long `close` waits for calls that must not be broken off."""

_FINISHED: Final = frozenset({"StartContainer"})
"""Operations that `close` lets finish. If the client leaves during a start, containerd makes a container that has ended
(StartError): the pod of a job would fail because the agent was stopped at that moment.
"""

_ENDPOINT = re.compile(r"(?:unix:(?://)?)?(?P<path>/[\w.@+=,~-][\w./@+=,~-]*)", re.ASCII)
_SUN_PATH_MAX = 107
_METHODS: Final = {
    method.input_type.full_name: (service.name, method.name)
    for service in api_pb2.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""Service and method by the type of the request: in CRI each request belongs to one method."""

Answer = TypeVar("Answer", bound="Message")


class VersionProbe(Protocol):
    """A harmless call in one version of CRI, which shows whether the runtime knows that version."""

    def __call__(self, endpoint: Endpoint, api_version: str) -> object:
        """Raise UnimplementedError when the runtime does not know the version."""


class EndpointError(ValueError):
    """The configured endpoint cannot be connected to; the text names the allowed forms."""


def socket_path(endpoint: str) -> Path:
    """Return the path in `unix:///path`, `unix:/path` or a bare absolute path, as kubelet accepts them.

    Raises EndpointError.
    """
    match = _ENDPOINT.fullmatch(endpoint)
    if match is None:
        raise EndpointError(
            f"container runtime endpoint {endpoint!r}: want unix:///absolute/path/of/a.sock of letters, "
            "digits and _./@+=,~- (gRPC reads others as a URL; TCP is refused: CRI has no authentication)"
        )
    raw = match["path"]
    if len(raw.encode()) > _SUN_PATH_MAX:
        raise EndpointError(
            f"container runtime endpoint {endpoint!r}: the path has {len(raw.encode())} bytes, "
            f"a unix socket's can have {_SUN_PATH_MAX}"
        )
    return Path(raw)


class Endpoint:
    """A runtime's socket. Thread-safe; `close` ends the calls under way, starts of containers last."""

    def __init__(self, address: str, probe: VersionProbe, local: Mapping[str, Callable[..., Any]]) -> None:
        """Connect on the first call.

        Args:
            address: as `socket_path` takes it.
            probe: shows whether the runtime knows a version.
            local: calls that a runtime in this process answers without the socket, by gRPC's paths.
        """
        self._socket = socket_path(address)
        self._channel: Channel | None = None
        self._probe = probe
        self._local = local
        self._calls: dict[str, Callable[..., Any]] = {}
        self._api_version: str | None = None
        self._closed = False
        self._under_way = 0
        """Calls that `close` waits for."""
        self._endings: set[Callable[[], None]] = set()
        """End the streams of a runtime in this process."""
        self._leaving: set[Callable[[], None]] = set()
        """Leave the calls to a runtime in this process."""
        self._left = False
        self._lock = threading.RLock()
        self._ended = threading.Condition(self._lock)

    def call(
        self,
        request: Message,
        answer: type[Answer],
        timeout: float | None,
        *,
        subject: str = "",
        secrets: Sequence[str] = (),
    ) -> Answer:
        """Make the call of this request's type, in the version of CRI that the runtime knows.

        Args:
            request: CRI's message; its type determines the method.
            answer: type of the answer.
            timeout: seconds; None for no deadline.
            subject: id or name in errors.
            secrets: texts that no error may contain.

        Raises CriError.
        """
        version = self._api_version or self._known_version()
        try:
            return self.call_version(version, request, answer, timeout, subject=subject, secrets=secrets)
        except UnimplementedError as error:
            self._doubt_version(error)
            raise

    def stream(
        self, request: Message, answer: type[Answer], opened: Callable[[], None], each: Callable[[Answer], None]
    ) -> NoReturn:
        """Make the call of this request's type, which answers with a stream; block until the stream ends.

        `opened` is called when the runtime has accepted the call, `each` with every answer. Raises CriError.
        """
        service, operation = _METHODS[request.DESCRIPTOR.full_name]
        try:
            path = f"/{self._known_version()}.{service}/{operation}"
            if path in self._local:
                self._read_local(path, request, opened, each)
            else:
                self._read(path, request, answer, opened, each)
        except CallError as failure:
            error = self._error_of(failure, operation, "", ())
            if isinstance(error, UnimplementedError):
                self._doubt_version(error)
            raise error from None
        raise UnavailableError(operation, "", StatusCode.UNAVAILABLE, "the runtime ended the stream")

    def call_version(
        self,
        api_version: str,
        request: Message,
        answer: type[Answer],
        timeout: float | None,
        *,
        subject: str = "",
        secrets: Sequence[str] = (),
    ) -> Answer:
        """Make a call as `call` does, in a given version of CRI."""
        service, operation = _METHODS[request.DESCRIPTOR.full_name]
        try:
            path = f"/{api_version}.{service}/{operation}"
            make = self._call_local if path in self._local else self._call_remote
            if operation in _FINISHED:
                with self._finished(operation, subject):
                    return make(path, request, answer, timeout)
            if self._closed:
                raise _closed_error(operation, subject)
            return make(path, request, answer, timeout)
        except CallError as failure:
            # without its cause, whose text was not redacted
            raise self._error_of(failure, operation, subject, secrets) from None
        except ValueError:
            if not self._closed:
                raise
            raise _closed_error(operation, subject) from None

    def close(self) -> None:
        """Close the connection, as soon as no container is being started or `FINISH_SECONDS` have passed. Later calls
        raise ConnectionClosedError, also while this waits. May be called twice.
        """
        with self._ended:
            self._closed = True
            for ending in self._endings:
                ending()
            self._ended.wait_for(lambda: not self._under_way, FINISH_SECONDS)
            self._left = True
            for leave in self._leaving:
                leave()
        if self._channel is not None:
            self._channel.close()

    @contextmanager
    def _finished(self, operation: str, subject: str) -> Iterator[None]:
        """Enter a call that `close` waits for. Raises ConnectionClosedError."""
        with self._lock:
            if self._closed:
                raise _closed_error(operation, subject)
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                self._ended.notify_all()

    def _read(
        self,
        path: str,
        request: Message,
        answer: type[Answer],
        opened: Callable[[], None],
        each: Callable[[Answer], None],
    ) -> None:
        try:
            channel = self._connected(path)
            call = channel.stream(path, request, answer)
        except ValueError:
            if not self._closed:
                raise
            raise _closed_error(path.rpartition("/")[2], "") from None
        channel.read(call, opened, each)

    def _read_local(self, path: str, request: Message, opened: Callable[[], None], each: Callable[[Any], None]) -> None:
        """Read a stream of a runtime in this process. Raises ConnectionClosedError when `close` has ended it."""
        endings: list[Callable[[], None]] = []
        with self._lock:
            if self._closed:
                raise _closed_error(path.rpartition("/")[2], "")
            messages = self._local[path](request, endings.append)
            self._endings.update(endings)
        try:
            with closing(messages):
                opened()
                for message in messages:
                    each(message)
        finally:
            with self._lock:
                self._endings.difference_update(endings)
        if self._closed:
            raise _closed_error(path.rpartition("/")[2], "")

    def _known_version(self) -> str:
        if self._api_version is None:
            self._api_version = self._first_known_version()
        return self._api_version

    def _doubt_version(self, error: UnimplementedError) -> None:
        if "unknown service" in error.details:
            self._api_version = None

    def _first_known_version(self) -> str:
        # concurrent threads each probe: probing twice is cheaper than waiting for a probe that hangs
        preferred, older = API_VERSIONS
        try:
            self._probe(self, preferred)
        except UnimplementedError as unknown:
            try:
                self._probe(self, older)
            except UnimplementedError:
                raise unknown from None
            return older
        return preferred

    def _call_remote(self, path: str, request: Message, answer: type[Answer], timeout: float | None) -> Answer:
        make = self._calls.get(path)
        if make is None:
            make = self._calls[path] = self._connected(path).unary(path, answer)
        response: Answer = make(request, timeout=timeout)
        return response

    def _call_local(self, path: str, request: Message, _: type[Answer], timeout: float | None) -> Answer:
        """Call a runtime in this process. `close` ends the call as it ends one over the socket."""
        registered: list[Callable[[], None]] = []

        def on_leave(leave: Callable[[], None]) -> None:
            with self._lock:
                registered.append(leave)
                self._leaving.add(leave)
                if self._left:
                    leave()

        try:
            response: Answer = self._local[path](request, timeout=timeout, on_leave=on_leave)
        finally:
            if registered:
                with self._lock:
                    self._leaving.difference_update(registered)
        return response

    def _connected(self, path: str) -> Channel:
        """Return the channel, which is made for the first call. Raises ConnectionClosedError after `close`."""
        from edged.cri.channel import Channel  # noqa: PLC0415 - 21 MB, see the module's text

        with self._lock:
            if self._channel is None:
                if self._closed:
                    raise _closed_error(path.rpartition("/")[2], "")
                self._channel = Channel(self._socket)
            return self._channel

    def _error_of(self, failure: CallError, operation: str, subject: str, secrets: Sequence[str]) -> CriError:
        code, details = failure.code(), failure.details()
        if self._closed and code is StatusCode.CANCELLED:
            return _closed_error(operation, subject)
        return error_of(operation, subject, code, details, secrets)


def _closed_error(operation: str, subject: str) -> CriError:
    return ConnectionClosedError(operation, subject, StatusCode.CANCELLED, "the connection was closed")
