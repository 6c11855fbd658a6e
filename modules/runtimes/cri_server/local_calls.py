"""Calls to a runtime by clients in the same process, without the socket.

A call through gRPC wakes five threads, which wait for each other and for the interpreter's lock. That takes half of the
processor time of a pod's start. A local call gets a copy of the request and returns a new answer, so that the client
and the runtime share no object, and it fails with the status that gRPC would report.

Calls that only read the runtime's records run on the client's thread. Calls that may wait for something else (a CNI
plug-in, the OCI runtime, a container, a registry) run on another thread, and the client leaves at its deadline. The
command of an ExecSync and the download of a PullImage end then, as over gRPC. So a node needs gRPC's library for
clients from outside only.
"""

import logging
import threading
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any, Final

from modules.runtimes.cri_server.call_threads import CallLeftError, CallThreads, OnLeave, TooManyCallsError
from modules.runtimes.cri_server.methods import CriMethods
from modules.runtimes.engine.driver import Method, OnEnd
from modules.runtimes.engine.errors import RequestRefusedError
from protos.cri.v1 import api_pb2 as cri
from protos.status import CallError, StatusCode

_log = logging.getLogger(__name__)

REQUEST_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a request."""

_QUICK: Final = frozenset({
    "Version", "RuntimeConfig", "UpdateRuntimeConfig",
    "PodSandboxStatus", "ListPodSandbox", "ContainerStatus", "ListContainers",
})  # fmt: skip
"""Methods that wait for nothing."""

LocalCall = Callable[..., Any]
"""Takes the request, a timeout in seconds, and a function that registers how the client leaves earlier. A stream takes
the request and a function that registers how the client ends it.
"""


class LocalCallError(CallError):
    """A local call failed; it has the status and the text of a failure over gRPC."""


def local_calls(methods: CriMethods, threads: CallThreads) -> dict[str, LocalCall]:
    """Return the calls by gRPC's paths. `threads` run the slow ones."""
    service = cri.DESCRIPTOR.services_by_name["RuntimeService"].full_name
    images = cri.DESCRIPTOR.services_by_name["ImageService"].full_name
    events = partial(methods.events, takes_containers=False)  # edged reads its pods itself
    calls: dict[str, LocalCall] = {f"/{service}/GetContainerEvents": _local_stream(events)}
    for each in cri.DESCRIPTOR.services_by_name["RuntimeService"].methods:
        calls.setdefault(f"/{service}/{each.name}", _not_implemented)
    for name, method in methods.table().items():
        calls[f"/{service}/{name}"] = _quick_call(method) if name in _QUICK else _slow_call(method, threads)
    calls |= {f"/{service}/{name}": _ending_call(method, threads) for name, method in methods.watching().items()}
    calls |= {f"/{images}/{name}": _ending_call(method, threads) for name, method in methods.images().items()}
    return calls


def failure_of(error: Exception) -> tuple[StatusCode, str]:
    """Return the status and the text that a client gets for an error."""
    if isinstance(error, RequestRefusedError):
        return error.status, str(error)
    if isinstance(error, OSError):
        _log.error("the machine refused something to the container runtime", exc_info=error)
        return StatusCode.INTERNAL, str(error)
    _log.error("a call to the container runtime failed", exc_info=error)
    return StatusCode.UNKNOWN, str(error)


def _never_left(_: Callable[[], None]) -> None:
    """Register nothing: the client leaves at its deadline only."""


def _not_implemented(request: Any, timeout: float | None = None, on_leave: OnLeave = _never_left) -> Any:  # noqa: ARG001
    """Refuse a call that this runtime does not have: over the socket it would load gRPC's library to be refused."""
    raise LocalCallError(StatusCode.UNIMPLEMENTED, "this runtime does not have it")


def _quick_call(method: Method) -> LocalCall:
    def call(request: Any, timeout: float | None = None, on_leave: OnLeave = _never_left) -> Any:  # noqa: ARG001
        return _answer(method, _copied(request))

    return call


def _slow_call(method: Method, threads: CallThreads) -> LocalCall:
    def call(request: Any, timeout: float | None = None, on_leave: OnLeave = _never_left) -> Any:
        try:
            return threads.run(partial(_answer, method, _copied(request)), timeout, on_leave)
        except TimeoutError:
            raise LocalCallError(StatusCode.DEADLINE_EXCEEDED, f"no answer within {timeout:g} s") from None
        except CallLeftError:
            raise LocalCallError(StatusCode.CANCELLED, "the client or the runtime was closed") from None
        except TooManyCallsError:
            text = "too many calls are under way; most of them hang"
            raise LocalCallError(StatusCode.RESOURCE_EXHAUSTED, text) from None

    return call


def _ending_call(method: Callable[[Any, OnEnd], Any], threads: CallThreads) -> LocalCall:
    def call(request: Any, timeout: float | None = None, on_leave: OnLeave = _never_left) -> Any:
        end = _End()
        try:
            return _slow_call(lambda taken: method(taken, end.on_end), threads)(request, timeout, on_leave)
        finally:
            end.come()

    return call


class _End:
    """The end of a call, for methods that must notice that their client has disconnected. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._has_come = False
        self._callbacks: list[Callable[[], None]] = []

    def on_end(self, callback: Callable[[], None]) -> bool:
        """Register a callback; return False if the end has come already, as gRPC's `add_callback`."""
        with self._lock:
            if not self._has_come:
                self._callbacks.append(callback)
            return not self._has_come

    def come(self) -> None:
        """Call the callbacks."""
        with self._lock:
            self._has_come = True
        for callback in self._callbacks:
            callback()


def _copied(request: Any) -> Any:
    """Return the runtime's copy of a request. Raises LocalCallError for a large one."""
    if request.ByteSize() > REQUEST_LIMIT:
        text = f"the request has more than {REQUEST_LIMIT} bytes"
        raise LocalCallError(StatusCode.RESOURCE_EXHAUSTED, text)
    return _copy(request)


def _answer(method: Method, request: Any) -> Any:
    try:
        return method(request)
    except Exception as error:  # noqa: BLE001 - as gRPC's server
        raise LocalCallError(*failure_of(error)) from None


def _local_stream(method: Callable[[OnEnd], Iterator[Any]]) -> LocalCall:
    def stream(_: Any, on_end: OnEnd) -> Iterator[Any]:
        try:
            return _copies(iter(method(on_end)))
        except Exception as error:  # noqa: BLE001 - as gRPC's server
            raise LocalCallError(*failure_of(error)) from None

    return stream


def _copies(messages: Iterator[Any]) -> Generator[Any, None, None]:
    """Yield copies of a stream's messages; other readers get the same messages."""
    try:
        for message in messages:
            yield _copy(message)
    except RequestRefusedError as error:
        raise LocalCallError(*failure_of(error)) from None


def _copy(message: Any) -> Any:
    copied = type(message)()
    copied.CopyFrom(message)
    return copied
