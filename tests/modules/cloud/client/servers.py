"""A server on loopback that does what a test says, and what a client's listener has heard."""

from __future__ import annotations

import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import h11

from beehive.clock import Timer
from beehive.runtime import Threads
from beehive.simulation import VirtualClock
from modules.cloud.client.http.factory import http_transport
from modules.cloud.client.http.transport import HttpTransport
from modules.cloud.client.kubeconfig.model import ClusterEntry, Selected, UserEntry
from modules.cloud.client.transport import ApiRequest, ResponseHead
from modules.cloud.client.transport_errors import KubeTransportError
from tests.support.patience import PATIENCE


class ManualClock(VirtualClock):
    """A clock that goes only when the test says so, for several threads."""

    def __init__(self) -> None:
        super().__init__(1)
        self._changed = threading.Condition()

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        with self._changed:
            timer = super().after(seconds, function)
            self._changed.notify_all()
            return timer

    def withdraw(self, alarm: Any) -> bool:
        with self._changed:
            return super().withdraw(alarm)

    def close(self) -> None:
        with self._changed:
            super().close()

    def wait_for_timer(self, seconds: float) -> None:
        """Wait until a timer is set that is due after some seconds from now, or sooner."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._due() <= self.monotonic() + seconds, PATIENCE), (
                "no timer was set"
            )

    @property
    def is_idle(self) -> bool:
        """Whether no timer is set."""
        with self._changed:
            return self._due() == float("inf")

    def go(self, seconds: float) -> None:
        """Let time pass."""
        until = self.monotonic() + seconds
        while True:
            with self._changed:
                due = self._due()
                function = self._alarms.pop() if due <= until else None
                self._elapsed = max(self._elapsed, min(due, until))
            if due > until:
                return
            if function is not None:
                function()

    def _due(self) -> float:
        due = self._alarms.first_due()
        return float("inf") if due is None else due


class Heard:
    """A listener that remembers what it hears, for the test's thread."""

    def __init__(self) -> None:
        self._events: queue.Queue[Any] = queue.Queue()
        self.head: ResponseHead | None = None
        self.body = b""

    def on_head(self, head: ResponseHead) -> None:
        self._events.put(head)

    def on_data(self, data: bytes) -> None:
        self._events.put(data)

    def on_end(self) -> None:
        self._events.put("end")

    def on_error(self, error: Exception) -> None:
        self._events.put(error)

    def next(self) -> Any:
        """The next event."""
        return self._events.get(timeout=PATIENCE)

    def response(self) -> tuple[int, bytes]:
        """The status and body of a complete response."""
        head, body = self.next(), b""
        assert isinstance(head, ResponseHead), head
        while (event := self.next()) != "end":
            assert isinstance(event, bytes), event
            body += event
        return head.status, body

    def error(self) -> KubeTransportError:
        """The error; what came before it is skipped."""
        while not isinstance(event := self.next(), KubeTransportError):
            assert event != "end"
        return event

    @property
    def is_silent(self) -> bool:
        """Whether nothing was heard that was not read by the test."""
        return self._events.empty()


class Peer:
    """The server's end of one connection."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self._protocol = h11.Connection(h11.SERVER, 1024 * 1024)

    def request(self) -> tuple[h11.Request, bytes]:
        """The next request and its body.

        Raises:
            EOFError: the client has closed the connection.
        """
        if self._protocol.our_state is h11.DONE:
            self._protocol.start_next_cycle()
        head, body = None, bytearray()
        while True:
            event = self._protocol.next_event()
            if event is h11.NEED_DATA:
                self._protocol.receive_data(self.socket.recv(65536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                return head, bytes(body)
            else:
                raise EOFError

    def answer(self, status: int = 200, body: bytes = b"{}", headers: tuple[tuple[str, str], ...] = ()) -> None:
        """Send a whole response."""
        length = ("Content-Length", str(len(body)))
        response = h11.Response(status_code=status, headers=[length, *headers], reason=b"")
        parts = [response, h11.Data(data=body), h11.EndOfMessage()]
        self.socket.sendall(b"".join(self._protocol.send(part) or b"" for part in parts))

    def raw(self, data: bytes) -> None:
        """Send bytes."""
        self.socket.sendall(data)

    def closed(self) -> bool:
        """Wait until the client closes, or resets, the connection."""
        with suppress(ConnectionError):
            while self.socket.recv(65536):
                pass
        return True

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


Script = Callable[[Peer], None]


class ScriptedServer:
    """Runs one script for each connection, the last one again for further connections.

    Args:
        scripts: what is done with the first connection, the second …; then the connection is closed.
        context: TLS.
        host: where it listens.
    """

    def __init__(self, *scripts: Script, context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, 0), family=family)
        self.port = int(self._listening.getsockname()[1])
        self._scripts = scripts
        self._context = context
        self.connections = 0
        self.failures: list[BaseException] = []
        self._open: set[Peer] = set()
        self._threads: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._accept, name="scripted server")
        self._thread.start()

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._listening.close()
        for peer in list(self._open):
            with suppress(OSError):
                peer.socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
        assert not self.failures, self.failures

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listening.accept()
            except OSError:
                return
            script = self._scripts[min(self.connections, len(self._scripts) - 1)]
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(accepted, script), name="scripted connection")
            self._threads.append(thread)
            thread.start()

    def _serve(self, accepted: socket.socket, script: Script) -> None:
        accepted.settimeout(PATIENCE)
        try:
            secured = self._context.wrap_socket(accepted, server_side=True) if self._context else accepted
        except OSError:
            accepted.close()
            return
        peer = Peer(secured)
        self._open.add(peer)
        try:
            script(peer)
        except (EOFError, ConnectionError, ssl.SSLError):
            pass
        except BaseException as error:  # noqa: BLE001 - of a thread, for the test
            self.failures.append(error)
        finally:
            self._open.discard(peer)
            peer.close()


def answering(status: int = 200, body: bytes = b"{}") -> Script:
    """A script that answers each request alike."""

    def script(peer: Peer) -> None:
        while True:
            peer.request()
            peer.answer(status, body)

    return script


class Client:
    """A transport and the means to use it."""

    def __init__(self, transport: HttpTransport, clock: ManualClock) -> None:
        self.transport = transport
        self.clock = clock

    def start(self, path: str = "/", method: str = "GET", **fields: Any) -> Heard:
        """Start a request; what its listener hears."""
        heard = Heard()
        self.transport.start(ApiRequest(method=method, path=path, **fields), heard)
        return heard

    def ask(self, path: str = "/", method: str = "GET", **fields: Any) -> tuple[int, bytes]:
        """The status and body of a response."""
        return self.start(path, method, **fields).response()


@contextmanager
def client(server: str, user: UserEntry | None = None, **cluster: Any) -> Iterator[Client]:
    """A transport to a server; its time stands still."""
    clock = ManualClock()
    runtime = Threads(clock)
    entry = ClusterEntry(server=server, **cluster)
    selected = Selected(where="test", cluster=entry, user=user or UserEntry())
    transport = http_transport(selected, runtime, "cloudcore/1")
    try:
        yield Client(transport, clock)
    finally:
        transport.close()
        assert clock.is_idle
        runtime.close()
