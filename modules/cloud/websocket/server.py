"""The websocket server of cloudhub."""

import errno
import logging
import math
import selectors
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from websockets.frames import CloseCode

from beehive.codec import decode, decode_head
from beehive.decoding import has_more_values
from beehive.errors import FrameError
from beehive.message import Message
from beehive.names import Group, Operation
from beehive.sockets.ports import listen_errors
from modules.apimachinery.limits import NODE_LIMIT, NODE_VALUES
from modules.cloud.identities.known import NOT_YET, KnownIdentities
from modules.cloud.identities.peer import read_peer
from modules.cloud.tls_stream import TlsStream
from modules.cloud.websocket.connection import READ_BYTES, UpgradeCallbacks, WebsocketConnection, WebsocketLink
from modules.cloud.websocket.counters import ConnectionCounters
from modules.cloud.websocket.grouped_frames import GroupedFrames
from modules.cloud.websocket.handshake import Refusal, node_of, refuse_handshake
from modules.cloud.websocket.incoming_frames import IncomingFrames
from modules.cloud.websocket.link import FrameReceived, LinkClosed, LinkEvent, LinkOpened
from modules.cloud.websocket.message_budget import FINISHING_SECONDS, MOST_BYTES
from modules.cloud.websocket.opening_connections import OpeningConnections, most_opening
from modules.cloud.websocket.reading_order import Ready, in_order
from modules.cloud.websocket.wire import PlainWire

if TYPE_CHECKING:
    import ssl

    from websockets.http11 import Request

    from beehive.clock import Clock

Deliver = Callable[[LinkEvent], None]

_log = logging.getLogger(__name__)
_OVERDUE_PERIOD = 0.5
"""Seconds between two checks for overdue connections."""
_BACKLOG = 1024
_LONGEST = 8 * 1024 * 1024
"""Bytes of a frame that is read: the response of an application, 5 MB, takes 6.7 MB as base64. Only uploads of
applications may be longer.
"""
_TOO_LONG = f"a message that is no upload of an application has at most {_LONGEST} bytes: send it in parts"
_TLS = "TLS"
_UNFINISHED = f"a large message was not complete after {FINISHING_SECONDS:g} s, and others wait for its memory"
_BEYOND_BUDGET = "there is no memory for so large a message now: send it again later, in parts or uncompressed"
_ENDING_SECONDS = 2.0
"""Time for nodes to close their connections at the end."""
_ACCEPTED = 64
"""Connections that are accepted between two polls of the sockets: those before them may have sent something."""
_FULL_PERIOD = 0.005
"""Seconds between two checks whether the controllers' inboxes have room again."""


class WebsocketSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Address and limits of the websocket server."""

    address: str
    port: int
    """0 takes a free one."""
    node_limit: int
    """Maximum of connected nodes; further ones are refused with 503."""
    max_frame_bytes: int
    """A longer message ends its connection with close code 1009."""
    write_timeout: float
    """Seconds after which a node that reads nothing is disconnected."""
    most_message_bytes: int = MOST_BYTES
    """Of the large messages of all nodes, unfinished or waiting for delivery."""


class WebsocketServer:
    """The server of nodes' websockets, which delivers their messages to cloudhub.

    One thread serves all connections, outside the actor model: with one or two threads per connection, a thousand
    nodes made three thousand threads that waited for one another. The thread only reads, decodes and calls `deliver`.

    Nodes are served fairly (`IncomingFrames`): the server reads little ahead of each node, decodes a message only when
    the node is next, and passes few messages of a node to cloudhub at a time; TCP holds back a node that sends more.
    Acknowledgements and reports of many nodes wait a moment for others (`GroupedFrames`).
    With TLS, the node name must be the certificate's; KubeEdge checks this only with authorization enabled.

    Args:
        settings: address and limits.
        deliver: receives the link events on the server's thread; must not block.
        clock: for deadlines.
        ssl_context: server-side TLS that requires client certificates; None for plain TCP.
        is_full: whether the inboxes behind `deliver` are full, so that only keepalives and ends are passed on.
        counters: counts refused connections and frames.
        identities: knows the refused nodes; None: none is.

    Raises:
        ListenError: the server cannot listen on the address.
    """

    option: ClassVar[str] = "--listen"
    """The option of `cloudcore run` that chooses the address, for errors."""
    thread_name: ClassVar[str] = "cloudhub/links"

    def __init__(
        self,
        settings: WebsocketSettings,
        deliver: Deliver,
        clock: "Clock",
        *,
        ssl_context: "ssl.SSLContext | None" = None,
        is_full: Callable[[], bool] = lambda: False,
        counters: ConnectionCounters | None = None,
        identities: KnownIdentities | None = None,
    ) -> None:
        counters = counters or ConnectionCounters()
        self._refused = counters.refused_connections
        self._settings = settings
        self._write_timeout = settings.write_timeout
        self._grouped = GroupedFrames(deliver)
        self._is_full = is_full
        self._clock = clock
        self._context = ssl_context
        self.rejected = counters.rejected_frames
        """Frames that are not messages, by reason."""
        with listen_errors(settings.address, settings.port, self.option), ExitStack() as failing:
            self._listening = socket.create_server((settings.address, settings.port), backlog=_BACKLOG)
            failing.callback(self._listening.close)
            self._waker, self._woken = map(failing.enter_context, socket.socketpair())
            self._selector = failing.enter_context(selectors.DefaultSelector())
            host, bound_port = self._listening.getsockname()[:2]
            failing.pop_all()
        self._identities = identities
        self._is_recheck_due = False
        self._listening.settimeout(0.0)
        self._address = (str(host), int(bound_port))
        self._connections: dict[WebsocketLink, WebsocketConnection] = {}
        self._nodes: Counter[str] = Counter()
        """Connections of each node: a new one exists beside the old until cloudhub closes that."""
        self._incoming = IncomingFrames(self._deliver_frame, is_full, settings.most_message_bytes)
        self._callbacks = UpgradeCallbacks(self._refusal, self._opened, self._tls_failed)
        self._opening = OpeningConnections(f"{self.option} {host}:{bound_port}", clock, most_opening())
        self._unopened: list[WebsocketConnection] = []
        """Connections that are not read before the inboxes have room: each opened one is news for the controllers."""
        self._signalled: deque[WebsocketLink] = deque()
        """Links that another thread has used or closed."""
        self._buffer = memoryview(bytearray(READ_BYTES))
        """For the bytes of one read: as large a new object each time is the kernel's work."""
        self._received: dict[WebsocketConnection, None] = {}
        """Connections that were read in this poll; each is updated once, after its messages were dispatched."""
        self._is_woken = False
        self._has_deadlines = True
        """Whether something may become overdue; otherwise the thread waits for sockets alone."""
        self._stopping = False
        self._accepts = True
        self._thread = threading.Thread(target=self._run, name=self.thread_name, daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the listening socket; also after `stop`."""
        return self._address

    def start(self) -> None:
        """Start to accept connections."""
        if self._identities is not None:
            self._identities.on_change(self.recheck)
        self._thread.start()

    def recheck(self) -> None:
        """End the connections of nodes that are refused now; callable from any thread."""
        self._is_recheck_due = True
        self._wake()

    def stop_listening(self) -> None:
        """Close the port; callable from any thread. Connections stay, and closing ones get a moment in
        `stop`.
        """
        self._accepts = False
        self._wake()

    def stop(self) -> None:
        """Close all connections and end the thread; the links' closing is delivered before it returns."""
        if self._identities is not None:
            self._identities.forget(self.recheck)
        self._stopping = True
        self._wake()
        if self._thread.ident is None:
            self._close_all()
        else:
            self._thread.join()

    def _signal(self, link: WebsocketLink) -> None:
        """Wake the server's thread for a link; callable from any thread."""
        self._signalled.append(link)
        if not self._is_woken:
            self._wake()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            try:
                self._waker.send(b"!")
            except OSError:
                return  # it is full, and the thread wakes anyway, or the server has ended

    def _run(self) -> None:
        try:
            for own in (self._waker, self._woken):
                own.settimeout(0.0)
            self._selector.register(self._woken, selectors.EVENT_READ)
            self._selector.register(self._listening, selectors.EVENT_READ)
            check_at = 0.0
            while not self._stopping:
                self._poll()
                now = self._clock.monotonic()
                if now >= check_at:
                    check_at = now + _OVERDUE_PERIOD
                    self._drop_overdue(now)
            if not self._accepts:
                self._await_ends()
        finally:
            self._close_all()

    def _await_ends(self) -> None:
        """Let nodes read their close frames, for a short time."""
        deadline = self._clock.monotonic() + _ENDING_SECONDS
        while self._connections and self._clock.monotonic() < deadline:
            self._poll()
            self._drop_overdue(self._clock.monotonic())

    def _poll(self) -> None:
        """Wait for sockets, serve ready ones, and dispatch received messages."""
        if not self._accepts and self._listening.fileno() >= 0:
            self._close_listening()
        wait = _OVERDUE_PERIOD if self._has_deadlines else None
        if self._grouped.due < math.inf or self._unopened or self._incoming.waiting:
            wait = self._begin_wait()
        ready: list[Ready] = []
        self._has_deadlines = True
        for key, happened in self._selector.select(wait):
            if key.fileobj is self._woken:
                self._clear_waker()
            elif key.fileobj is self._listening:
                self._accept()
            else:
                ready.append((key.data, happened))
        for connection, happened in in_order(ready, self._clock.monotonic) if ready else ():
            is_served = connection.is_open and connection.link in self._connections
            (self._attempt if is_served else self._serve)(connection, happened)
        if self._is_recheck_due:
            self._end_refused()
        if self._signalled:
            self._serve_signalled()
        served = self._incoming.dispatch() if self._incoming.waiting else {}
        if self._grouped.due < math.inf:
            self._grouped.pass_due(self._clock.monotonic())
        received, self._received = self._received, {}
        for connection in (*(received | served), *self._incoming.resumable()):
            self._update(connection)

    def _begin_wait(self) -> float:
        """Do what has waited long enough, and return the seconds until there is more to do without a socket."""
        wait = max(0.0, min(_OVERDUE_PERIOD, self._grouped.due - self._clock.monotonic()))
        if self._unopened or self._incoming.waiting:
            is_full = self._is_full()
            wait = _FULL_PERIOD if is_full else 0.0
            if self._unopened and not is_full:
                self._resume_openings()
        return wait

    def _close_listening(self) -> None:
        if self._listening in self._registered:
            self._selector.unregister(self._listening)
        self._listening.close()

    @property
    def _registered(self) -> Any:
        return self._selector.get_map()

    def _update(self, connection: WebsocketConnection) -> None:
        """Register a connection for the events it waits for now, and for its share of the dispatching."""
        if connection.link not in self._connections:
            return
        waits = connection.unread or connection.unfinished_bytes or connection.outgoing or connection.link.waiting
        if not waits and connection.watched == selectors.EVENT_READ and connection not in self._incoming.large:
            connection.link.is_held_back = False
            return
        may_be_read = self._incoming.update(connection, self._clock.monotonic())
        wanted = selectors.EVENT_READ if may_be_read else 0
        wanted |= selectors.EVENT_WRITE if connection.outgoing else 0
        self._watch(connection, wanted)

    def _watch(self, connection: WebsocketConnection, wanted: int) -> None:
        """Register a connection's socket for events; a selector would write the socket out for each that it lacks. A
        connection that the kernel does not watch ends.
        """
        watched, connection.watched = connection.watched, wanted
        try:
            if not watched and wanted:
                self._selector.register(connection.socket, wanted, connection)
            elif watched and not wanted:
                self._selector.unregister(connection.socket)
            elif watched != wanted:
                self._selector.modify(connection.socket, wanted, connection)
        except OSError as error:
            connection.watched = 0
            self._drop(connection, str(error))

    def _clear_waker(self) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(4096)
        self._is_woken = False

    def _accept(self) -> None:
        for _ in range(_ACCEPTED):
            try:
                accepted, address = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                _log.warning("a connection could not be accepted: %s", error)
                if error.errno in (errno.EMFILE, errno.ENFILE) and not self._end_opening(self._opening.spare()):
                    self._selector.unregister(self._listening)  # until the next check for overdue connections
                return
            try:
                wire = PlainWire() if self._context is None else TlsStream(self._context)
                link = WebsocketLink(self._signal)
                connection = WebsocketConnection(
                    accepted, str(address[0]), wire, link, self._callbacks,
                    max_frame_bytes=self._settings.max_frame_bytes, now=self._clock.monotonic(),
                )  # fmt: skip
            except Exception as error:  # noqa: BLE001 - a failure of one connection must not end the others
                accepted.close()
                _log.warning("a connection of %s could not be taken: %s", address[0], error)
                continue
            self._connections[link] = connection
            self._opening.add(connection)
            self._watch(connection, selectors.EVENT_READ)
            self._end_opening(self._opening.surplus())

    def _end_opening(self, connection: WebsocketConnection | None) -> bool:
        """End a connection in favour of another; return whether there was one."""
        if connection is None:
            return False
        if connection in self._unopened:
            self._unopened.remove(connection)
        self._drop(connection, "there are too many")
        return True

    def _serve(self, connection: WebsocketConnection, happened: int) -> None:
        """Serve a connection that is not open yet, unless it has ended or the inboxes are full."""
        if connection.link not in self._connections:
            return
        if connection.outgoing or not self._is_full():
            self._attempt(connection, happened)
        else:
            connection.pause_opening()
            self._watch(connection, 0)
            self._unopened.append(connection)

    def _resume_openings(self) -> None:
        """Read again the connections that have not been opened because the inboxes were full."""
        unopened, self._unopened = self._unopened, []
        now = self._clock.monotonic()
        for connection in unopened:
            connection.resume_opening(now)
            self._update(connection)

    def _attempt(self, connection: WebsocketConnection, happened: int) -> None:
        """Read or write; any error ends the connection."""
        try:
            now = self._clock.monotonic()
            if happened & selectors.EVENT_READ:
                connection.read(now, self._buffer, self._incoming.keep)
                if not self._incoming.received(connection, now):
                    self._cut_off(connection, _BEYOND_BUDGET, CloseCode.TRY_AGAIN_LATER)
                    return
                self._received[connection] = None
            if happened & selectors.EVENT_WRITE:
                connection.write(now)
            if self._opening.networks:
                self._opening.update(connection)
        except OSError as error:
            self._drop(connection, str(error))
            return
        except Exception:  # noqa: BLE001 - a failure of one connection must not end the others
            _log.exception("node %s: its connection failed", connection.node or connection.peer)
            self._drop(connection, "it failed")
            return
        if connection not in self._received:
            self._update(connection)

    def _serve_signalled(self) -> None:
        links = dict.fromkeys([self._signalled.popleft() for _ in range(len(self._signalled))])
        for link in links:
            connection = self._connections.get(link)
            if connection is None:
                continue
            if connection.is_refused:
                continue  # it has a moment to read why
            if link.is_closed:
                self._drop(connection, "ended by the cloud")
            elif link.is_ended:
                self._end(connection)
            elif connection.outgoing:
                self._update(connection)
            else:
                self._attempt(connection, selectors.EVENT_WRITE)

    def _end(self, connection: WebsocketConnection) -> None:
        try:
            connection.end(self._clock.monotonic())
        except OSError as error:
            self._drop(connection, str(error))
        else:
            self._update(connection)

    def _refusal(self, connection: WebsocketConnection, request: "Request") -> Refusal | None:
        """Return the reason to refuse an upgrade, or None; then the connection counts for its node."""
        limit = self._settings.node_limit
        refusal = refuse_handshake(
            request, connection.wire.certificate(), self._nodes, limit, tls=self._context is not None
        )
        refusal = refusal or self._refusal_of_identity(connection, node_of(request))
        if refusal is None:
            connection.node = node_of(request)
            self._nodes[connection.node] += 1
        else:
            self._refused[refusal.reason] += 1
        return refusal

    def _refusal_of_identity(self, connection: WebsocketConnection, node: str) -> Refusal | None:
        """Return the reason to refuse a node that is revoked, or whose name belongs to another key."""
        if self._identities is None:
            return None
        connection.certified = peer = read_peer(connection.wire.certificate())
        why = self._identities.refusal_of_node(node, peer)
        if not why:
            if peer is not None:
                self._identities.accepted(peer)
            return None
        _log.warning("connection of node %s refused: %s", node, why)
        status = HTTPStatus.SERVICE_UNAVAILABLE if why == NOT_YET else HTTPStatus.FORBIDDEN
        return Refusal(status, f"{why}\n", "revoked or another key")

    def _end_refused(self) -> None:
        """End the open connections of nodes that are refused now."""
        self._is_recheck_due = False
        known = self._identities
        for connection in [each for each in self._connections.values() if each.is_open and not each.is_refused]:
            peer = connection.certified
            why = known.refusal_of_node(connection.node, peer, is_open=True) if known is not None else ""
            if why and why != NOT_YET:
                self._cut_off(connection, why)

    def _cut_off(self, connection: WebsocketConnection, why: str, code: CloseCode = CloseCode.POLICY_VIOLATION) -> None:
        """End a connection with the reason; nothing more of the node is taken."""
        _log.warning("node %s: connection ended: %s", connection.node, why)
        connection.is_refused = connection.link.is_closed = True
        self._incoming.end(connection)
        self._grouped.deliver(LinkClosed(connection.node, connection.link))
        try:
            connection.refuse(code, why, self._clock.monotonic())
        except OSError as error:
            self._drop(connection, str(error))
        else:
            self._update(connection)

    def _tls_failed(self) -> None:
        self._refused[_TLS] += 1

    def _opened(self, connection: WebsocketConnection) -> None:
        ends = connection.certified.ends if connection.certified is not None else 0.0
        self._grouped.deliver(LinkOpened(connection.node, connection.link, connection.peer, ends))

    def _deliver_frame(self, connection: WebsocketConnection, frame: bytes) -> None:
        """Decode a message and deliver it to cloudhub."""
        try:  # each value has a byte
            message, why = (decode(frame), "") if len(frame) <= NODE_VALUES else _read_long(frame)
        except FrameError as error:
            self._reject(connection, frame, error.reason, str(error))
            connection.link.handled(len(frame))
            return
        except Exception:  # noqa: BLE001 - a message of one node must not end the connections of the others
            _log.exception("node %s: a message could not be read", connection.node)
            connection.link.close()
            return
        if why:
            self._reject(connection, frame, "too large", why)
        received = FrameReceived(connection.node, connection.link, message, len(frame), why)
        self._grouped.offer(received, self._clock.monotonic())

    def _reject(self, connection: WebsocketConnection, frame: bytes, reason: str, why: str) -> None:
        """Count and log a frame whose content is not taken."""
        self.rejected[reason] += 1
        _log.warning("node %s: a frame of %d bytes was rejected: %s", connection.node, len(frame), why)

    def _drop(self, connection: WebsocketConnection, reason: str) -> None:
        self._incoming.end(connection)
        self._opening.remove(connection)
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
        if connection.is_open and not connection.is_refused:
            self._grouped.deliver(LinkClosed(node, connection.link))

    def _drop_overdue(self, now: float) -> None:
        self._has_deadlines = not self._accepts or bool(self._incoming.large)
        for connection in list(self._connections.values()):
            connection.seconds /= 2
            if connection.is_overdue(now, self._write_timeout):
                self._drop(connection, "it was too slow")
            elif connection.has_deadline:
                self._has_deadlines = True
        for connection in self._incoming.overdue(now):
            self._cut_off(connection, _UNFINISHED, CloseCode.TRY_AGAIN_LATER)
        if self._accepts and self._listening not in self._registered:
            self._has_deadlines = True
            with suppress(OSError):  # until the next check
                self._selector.register(self._listening, selectors.EVENT_READ)

    def _close_all(self) -> None:
        for connection in list(self._connections.values()):
            self._drop(connection, "the cloud ends")
        self._grouped.pass_all()
        self._selector.close()
        for own in (self._listening, self._waker, self._woken):
            own.close()


def _read_long(frame: bytes) -> tuple[Message, str]:
    """Return the message in a frame, which may have too many values, and why its content is left out; "" if not.

    Raises:
        FrameError: there is no message in it.
    """
    if len(frame) > _LONGEST and not _is_upload(head := decode_head(frame)):
        return head.with_content(None), _TOO_LONG
    message = decode(frame)
    if _is_upload(message):  # the router decodes little of it
        return message, ""
    if len(frame) > _LONGEST or has_more_values(bytes(message.content_raw()), NODE_VALUES):
        return message.with_content(None), NODE_LIMIT
    return message, ""


def _is_upload(message: Message) -> bool:
    return (message.route.group, message.route.operation) == (Group.USER, Operation.UPLOAD)
