"""The server of the nodes' tunnels."""

import logging
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from beehive.whole_numbers import whole_number
from modules.cloud.cloudstream.tunnel import MOST_STREAMS
from modules.cloud.identities.node_identity import is_node_name, node_in
from modules.cloud.websocket.connection import WebsocketConnection
from modules.cloud.websocket.handshake import Refusal, first_header
from modules.cloud.websocket.link import LinkClosed, LinkEvent
from modules.cloud.websocket.server import WebsocketServer, WebsocketSettings
from modules.streams import credit
from modules.streams.frames import MAX_FRAME

if TYPE_CHECKING:
    import ssl

    from websockets.http11 import Request

    from beehive.clock import Clock
    from modules.cloud.cloudstream.tunnels import Tunnels
    from modules.cloud.identities.known import KnownIdentities


PATH: Final = "/v1/kubeedge/connect"
_NODE: Final = "SessionHostNameOverride"
_ADDRESS: Final = "SessionInternalIP"
_LONGEST_ADDRESS: Final = 45
"""Characters of an IPv6 address."""


def node_of(request: "Request") -> str:
    """Return the node name in the request."""
    return first_header(request, _NODE)


def address_of(request: "Request") -> str:
    """Return the node's internal address from the request; "" without one."""
    return first_header(request, _ADDRESS)[:_LONGEST_ADDRESS]


def has_credit(request: "Request") -> bool:
    """Return whether the node grants and takes credit for streams."""
    return first_header(request, credit.HEADER) == credit.VERSION


def most_streams_of(request: "Request") -> int:
    """Return how many streams the node serves at a time, as far as it says."""
    return whole_number(first_header(request, credit.LIMIT_HEADER)[:5]) or MOST_STREAMS


def refuse_tunnel(
    request: "Request", certificate: Mapping[str, Any] | None, connected: Collection[str], limit: int, *, tls: bool
) -> Refusal | None:
    """Return the reason to refuse a tunnel, or None: its path, node name and client certificate are checked.

    KubeEdge never compares the name with the certificate, so that a node may take over the streams of another.

    Args:
        request: the upgrade request.
        certificate: the verified client certificate, with TLS.
        connected: nodes with a tunnel.
        limit: maximum of them.
        tls: whether the certificate must have the same node name.
    """
    if request.path.partition("?")[0] != PATH:
        return Refusal(HTTPStatus.NOT_FOUND, f"this is the stream tunnel's server: its path is {PATH}\n")
    node = node_of(request)
    if not is_node_name(node):
        return Refusal(HTTPStatus.BAD_REQUEST, f"header {_NODE} is missing or is not a node name\n")
    if first_header(request, "Origin"):
        return Refusal(HTTPStatus.FORBIDDEN, "pages of browsers are not served\n")
    holder = node_in(certificate) if tls else node
    if holder != node:
        text = f"wrong node: the certificate is that of {holder or 'no node'}, the header {_NODE} says {node}\n"
        _log.warning("tunnel refused: %s", text.strip())
        return Refusal(HTTPStatus.FORBIDDEN, text)
    if node not in connected and len(connected) >= limit:
        return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"{limit} nodes have tunnels, the limit\n")
    return None


_log = logging.getLogger(__name__)

SILENT_SECONDS: Final = 30.0
"""Without a byte of a node, after which its tunnel is closed; a node sends a ping every 5 to 15 s."""
MOST_MESSAGE: Final = 4 * MAX_FRAME
"""Bytes of a message; a longer one ends the tunnel, one longer than a frame only its stream."""
_WRITE_SECONDS: Final = 30.0
"""Seconds that a node may pause reading."""


class _Offer(NamedTuple):
    """The facts in a node's upgrade beside its name."""

    address: str
    has_credit: bool
    most_streams: int


class TunnelServer(WebsocketServer):
    """The server of the nodes' tunnels on one thread, as cloudhub's server does its websockets.

    Pings are answered. A tunnel without a byte for `SILENT_SECONDS` is closed, because a node that loses its network
    leaves a connection behind that looks alive.

    Args:
        address: IP address.
        port: 0 takes a free one.
        node_limit: maximum of nodes with a tunnel.
        tunnels: takes opened and closed tunnels, and received messages.
        opened: called with the name of each node that has opened a tunnel, on the server's thread.
        clock: for deadlines.
        ssl_context: demands client certificates; None for plain TCP.
        identities: knows the nodes that are refused; None: every node is accepted.

    Raises:
        ListenError: the server cannot listen on the address.
    """

    option: ClassVar[str] = "--tunnel-listen"
    thread_name: ClassVar[str] = "cloudstream/tunnels"

    def __init__(
        self,
        address: str,
        port: int,
        node_limit: int,
        tunnels: "Tunnels",
        opened: Callable[[str], None],
        clock: "Clock",
        *,
        ssl_context: "ssl.SSLContext | None" = None,
        identities: "KnownIdentities | None" = None,
    ) -> None:
        settings = WebsocketSettings(
            address=address,
            port=port,
            node_limit=node_limit,
            max_frame_bytes=MOST_MESSAGE,
            write_timeout=_WRITE_SECONDS,
        )
        super().__init__(settings, self._closed, clock, ssl_context=ssl_context, identities=identities)
        self._tunnels = tunnels
        self._node_opened = opened
        self._offers: dict[WebsocketConnection, _Offer] = {}

    def _refusal(self, connection: WebsocketConnection, request: "Request") -> "Refusal | None":
        limit, has_tls = self._settings.node_limit, self._context is not None
        refusal = refuse_tunnel(request, connection.wire.certificate(), self._nodes, limit, tls=has_tls)
        refusal = refusal or self._refusal_of_identity(connection, node_of(request))
        if refusal is None:
            connection.node = node_of(request)
            address = address_of(request) or connection.peer
            self._offers[connection] = _Offer(address, has_credit(request), most_streams_of(request))
            self._nodes[connection.node] += 1
        return refusal

    def _opened(self, connection: WebsocketConnection) -> None:
        _log.info("node %s has opened its tunnel", connection.node)
        offer = self._offers[connection]
        self._tunnels.add(
            connection.node, offer.address, connection.link, has_credit=offer.has_credit, most=offer.most_streams
        )
        self._node_opened(connection.node)

    def _closed(self, event: LinkEvent) -> None:
        if isinstance(event, LinkClosed):
            self._tunnels.remove(event.node, event.link)

    def _deliver_frame(self, connection: WebsocketConnection, frame: bytes) -> None:
        self._tunnels.receive(connection.node, connection.link, frame)

    def _drop(self, connection: WebsocketConnection, reason: str) -> None:
        self._offers.pop(connection, None)
        super()._drop(connection, reason)

    def _drop_overdue(self, now: float) -> None:
        super()._drop_overdue(now)
        self._has_deadlines |= bool(self._connections)  # each may fall silent
        self._tunnels.end_stalled()
        for connection in [one for one in self._connections.values() if self._is_silent(one, now)]:
            self._drop(connection, f"the node was silent for {SILENT_SECONDS:g} s")

    def _is_silent(self, connection: WebsocketConnection, now: float) -> bool:
        """Return whether nothing has come for too long; not while the connection is not read."""
        return connection.is_open and connection.may_be_read and now - connection.read_at > SILENT_SECONDS
