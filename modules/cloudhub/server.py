"""The websocket server: connections of nodes become links, their frames become messages.

One thread serves all connections; with one or two for each, a thousand nodes made three thousand threads that waited
for one another. It is outside the actor model because waiting for many sockets has no other form; all that it does with
what it reads is to hand it to `deliver`, which does not block.

Nodes take turns (`incoming`): of what one has sent, little is read, a message is decoded when it is the node's turn,
and cloudhub has few of them at a time; TCP holds back who sends more. When cloudhub or edgecontroller is behind
(`is_crowded`), fewer are handed on.

With TLS (`wire`), a node is who its certificate says; KubeEdge looks at that only where authorization is on.
"""

import errno
import logging
import selectors
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from beehive.codec import decode
from beehive.errors import FrameError
from modules.cloudhub.admission import Refusal, node_of, refusal_of
from modules.cloudhub.connection import Connection, WebsocketLink
from modules.cloudhub.incoming import Incoming
from modules.cloudhub.link import FrameCame, LinkClosed, LinkEvent, LinkOpened
from modules.cloudhub.wire import PlainWire, TlsWire

if TYPE_CHECKING:
    import ssl

    from websockets.http11 import Request

    from beehive.clock import Clock

Deliver = Callable[[LinkEvent], None]

_log = logging.getLogger(__name__)
_LOOK_EVERY = 0.5
"""Seconds between looks at what is overdue."""
_BACKLOG = 1024
_CROWDED_LOOK = 0.005


class WebsocketServer:
    """See the module's docstring.

    Args:
        address: to listen on.
        port: to listen on; 0 takes a free one.
        deliver: takes what happens on the links, on the server's thread; must not block.
        clock: for deadlines.
        node_limit: most nodes connected at a time; more are refused with 503.
        max_frame_bytes: a longer message ends its connection (close code 1009).
        write_timeout: seconds for which a node may take nothing of what it is sent.
        ssl_context: for TLS, which must demand client certificates; None for plain TCP.
        is_crowded: whether those who take what happens are behind.

    Raises:
        OSError: the address cannot be listened on.
    """

    def __init__(
        self,
        address: str,
        port: int,
        deliver: Deliver,
        *,
        clock: "Clock",
        node_limit: int,
        max_frame_bytes: int,
        write_timeout: float,
        ssl_context: "ssl.SSLContext | None" = None,
        is_crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._deliver = deliver
        self._is_crowded = is_crowded
        self._clock = clock
        self._node_limit = node_limit
        self._max_frame_bytes = max_frame_bytes
        self._write_timeout = write_timeout
        self._context = ssl_context
        self.rejected: Counter[str] = Counter()
        """Frames that were not messages, by reason."""
        self._listening = socket.create_server((address, port), backlog=_BACKLOG)
        self._listening.settimeout(0.0)
        host, bound_port = self._listening.getsockname()[:2]
        self._address = (str(host), int(bound_port))
        self._connections: dict[WebsocketLink, Connection] = {}
        self._nodes: Counter[str] = Counter()
        """How many connections each node has: a new one stands beside the old until cloudhub ends that."""
        self._incoming = Incoming(self._came, is_crowded)
        self._to_do: deque[WebsocketLink] = deque()
        self._waker, self._woken = socket.socketpair()
        self._is_woken = False
        self._stopping = False
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, name="cloudhub/links", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are really listened on; also after `stop`."""
        return self._address

    def start(self) -> None:
        """Begins to accept connections."""
        self._thread.start()

    def stop(self) -> None:
        """Ends all connections and the thread; what that means for their nodes is delivered before it returns."""
        self._stopping = True
        self._wake()
        self._thread.join()

    def _later(self, link: WebsocketLink) -> None:
        """From any thread: there is something to do for a link."""
        self._to_do.append(link)
        self._wake()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            with suppress(BlockingIOError, OSError):
                self._waker.send(b"!")

    def _run(self) -> None:
        for own in (self._waker, self._woken):
            own.settimeout(0.0)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._selector.register(self._listening, selectors.EVENT_READ)
        try:
            look_at = 0.0
            while not self._stopping:
                self._round()
                now = self._clock.monotonic()
                if now >= look_at:
                    look_at = now + _LOOK_EVERY
                    self._drop_overdue(now)
        finally:
            self._end()

    def _round(self) -> None:
        """Waits for what happens next, does what it asks for, and hands on what has come."""
        wait = _LOOK_EVERY
        if self._incoming:
            wait = _CROWDED_LOOK if self._is_crowded() else 0.0
        for key, happened in self._selector.select(wait):
            if key.fileobj is self._woken:
                self._take_woken()
            elif key.fileobj is self._listening:
                self._accept()
            else:
                self._serve(key.data, happened)
        self._do_waiting()
        self._incoming.hand_on(self._clock.monotonic(), self._look_at)

    def _look_at(self, connection: Connection) -> None:
        """Sees what a connection waits for now: its turn, its socket."""
        if connection.link not in self._connections:
            return
        wanted = selectors.EVENT_READ if self._incoming.look_at(connection) else 0
        wanted |= selectors.EVENT_WRITE if connection.has_to_write else 0
        self._watch(connection, wanted)

    def _watch(self, connection: Connection, wanted: int) -> None:
        key = self._selector.get_map().get(connection.socket)
        if key is None:
            if wanted:
                self._selector.register(connection.socket, wanted, connection)
        elif not wanted:
            self._selector.unregister(connection.socket)
        elif key.events != wanted:
            self._selector.modify(connection.socket, wanted, connection)

    def _take_woken(self) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(4096)
        self._is_woken = False

    def _accept(self) -> None:
        while True:
            try:
                accepted, address = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                _log.warning("a connection could not be accepted: %s", error)
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._selector.unregister(self._listening)  # until something is overdue or half a second is over
                return
            wire = PlainWire() if self._context is None else TlsWire(self._context)
            link = WebsocketLink(self._later)
            connection = Connection(
                accepted, str(address[0]), wire, link, self._refusal, self._opened,
                max_frame_bytes=self._max_frame_bytes, now=self._clock.monotonic(),
            )  # fmt: skip
            self._connections[link] = connection
            self._selector.register(accepted, selectors.EVENT_READ, connection)

    def _serve(self, connection: Connection, happened: int) -> None:
        if connection.link in self._connections:
            self._attempt(connection, happened)

    def _attempt(self, connection: Connection, happened: int) -> None:
        """Reads or writes; whatever goes wrong ends the connection."""
        try:
            now = self._clock.monotonic()
            if happened & selectors.EVENT_READ:
                for frame in connection.read(now):
                    self._incoming.keep(connection, frame, now)
            if happened & selectors.EVENT_WRITE:
                connection.write(now)
        except OSError as error:
            self._drop(connection, str(error))
            return
        except Exception:  # noqa: BLE001 - one connection must not end those of all other nodes
            _log.exception("node %s: its connection failed", connection.node or connection.peer)
            self._drop(connection, "it failed")
            return
        self._look_at(connection)

    def _do_waiting(self) -> None:
        links = dict.fromkeys(self._to_do.popleft() for _ in range(len(self._to_do)))
        for link in links:
            connection = self._connections.get(link)
            if connection is None:
                continue
            if link.is_closed:
                self._drop(connection, "ended by the cloud")
            elif connection.has_to_write:
                self._look_at(connection)
            else:
                self._attempt(connection, selectors.EVENT_WRITE)

    def _refusal(self, connection: Connection, request: "Request") -> Refusal | None:
        """Why it is refused; who is not, is one of the nodes from now on."""
        refusal = refusal_of(
            request, connection.wire.certificate(), self._nodes, self._node_limit, tls=self._context is not None
        )
        if refusal is None:
            connection.node = node_of(request)
            self._nodes[connection.node] += 1
        return refusal

    def _opened(self, connection: Connection) -> None:
        self._deliver(LinkOpened(connection.node, connection.link))

    def _came(self, connection: Connection, frame: bytes) -> None:
        """Hands a message to cloudhub."""
        try:
            message = decode(frame)
        except FrameError as error:
            self.rejected[error.reason] += 1
            _log.warning("node %s: a frame of %d bytes was rejected: %s", connection.node, len(frame), error)
            connection.link.handled(len(frame))
            return
        except Exception:  # noqa: BLE001 - one node's message must not end the connections of all others
            _log.exception("node %s: a message could not be read", connection.node)
            connection.link.close()
            return
        self._deliver(FrameCame(connection.node, connection.link, message, len(frame)))

    def _drop(self, connection: Connection, reason: str) -> None:
        self._incoming.end(connection)
        del self._connections[connection.link]
        self._watch(connection, 0)
        connection.close()
        node = connection.node
        if not node:
            return
        _log.info("node %s: connection closed: %s", node, reason)
        self._nodes[node] -= 1
        if not self._nodes[node]:
            del self._nodes[node]
        if connection.is_open:
            self._deliver(LinkClosed(node, connection.link))

    def _drop_overdue(self, now: float) -> None:
        for connection in [one for one in self._connections.values() if one.is_overdue(now, self._write_timeout)]:
            self._drop(connection, "it was too slow")
        registered: Any = self._selector.get_map()
        if self._listening not in registered:
            self._selector.register(self._listening, selectors.EVENT_READ)

    def _end(self) -> None:
        for connection in list(self._connections.values()):
            self._drop(connection, "the cloud ends")
        self._selector.close()
        for own in (self._listening, self._waker, self._woken):
            own.close()
