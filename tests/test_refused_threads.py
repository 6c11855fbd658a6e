"""Clocks, watchers and servers whose start fails at any call of the kernel, or gets no thread: nothing is left."""

import ssl
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest

from beehive import RealClock
from beehive.sockets.activation.selector_thread import SelectorThread as ActivationThread
from modules.cloud.client.http.selector_thread import SelectorThread
from modules.cloud.cloudhub.certificates.https import HttpsServer
from modules.cloud.websocket.server import WebsocketServer, WebsocketSettings
from modules.edge.edgemesh.dns.server import NameServer
from modules.processes.edgecore.loopback import LoopbackWatch
from tests.support.failing import Attempt, Failing, PlannedError, fail_at_each_call
from tests.support.patience import PATIENCE

Start = Callable[[], object]
Stop = Callable[[], object]


def clock() -> tuple[Start, Stop]:
    """A clock, whose thread starts with its first timer."""
    made = RealClock()

    def start() -> None:
        fired = threading.Event()
        made.after(0.0, fired.set)
        assert fired.wait(PATIENCE)

    return start, made.close


def thread_of_a_client() -> tuple[Start, Stop]:
    """A client's thread, which starts with its first call."""
    user: Any = SimpleNamespace(end_turn=lambda: None, end_all=lambda: None)
    made = SelectorThread[str]("test", user)
    taken, called = list[bool](), list[bool]()

    def stop() -> None:
        made.close()
        assert called == taken

    return lambda: taken.append(made.post(lambda: called.append(True))), stop


def thread_of_activated_servers() -> tuple[Start, Stop]:
    """A thread that ends with its last user."""
    made = ActivationThread()
    return made.begin, lambda: made.end() if made._users else None


def https_server() -> tuple[Start, Stop]:
    """A server of certificates."""
    never: Any = None
    made = HttpsServer("127.0.0.1", 0, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), never, CLOCK)
    return made.start, made.stop


def websocket_server() -> tuple[Start, Stop]:
    """A server of nodes' connections."""
    made = WebsocketServer(SETTINGS, lambda _: None, CLOCK)
    return made.start, made.stop


def name_server() -> tuple[Start, Stop]:
    """A server of names, which cannot listen."""

    def no_socket() -> Any:
        raise OSError("as in this test")

    nothing: Any = None
    made = NameServer(nothing, no_socket, nothing, CLOCK, nothing)
    return made.start, made.stop


def loopback_watch() -> tuple[Start, Stop]:
    """A watch of the rule for 127.0.0.1."""
    made = LoopbackWatch(CLOCK)
    made.reconcile = lambda: None  # type: ignore[method-assign]
    return made._begin, made.close


CLOCK: Final = RealClock()
SETTINGS: Final = WebsocketSettings(address="127.0.0.1", port=0, node_limit=1, max_frame_bytes=1, write_timeout=1.0)
MAKERS: Final = {
    made.__name__: made
    for made in (
        clock, thread_of_a_client, thread_of_activated_servers, https_server, websocket_server, name_server,
        loopback_watch,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_a_start_that_fails_leaves_nothing(name: str) -> None:
    def make(failing: Failing) -> Attempt:
        stops: list[Stop] = []

        def run() -> None:
            with failing.kernel_calls():
                start, stop = MAKERS[name]()
                try:
                    start()
                except BaseException:
                    stop()  # as its owner does
                    raise
            stops.append(stop)

        return Attempt(run, undo=lambda: [stop() for stop in stops])

    error = PlannedError() if name == "websocket_server" else None  # `socket.create_server` closes after no other one
    assert fail_at_each_call(make, error) >= 1


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("has_started", [False, True])
def test_a_thread_that_was_refused_is_started_by_the_next_attempt(
    monkeypatch: pytest.MonkeyPatch, name: str, has_started: bool
) -> None:
    start, stop = MAKERS[name]()
    failing = Failing(0, RuntimeError("can't start new thread"))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", failing.call(threading.Thread.start))
        with pytest.raises(RuntimeError, match="new thread"):
            start()
    if has_started:
        start()
    stop()
