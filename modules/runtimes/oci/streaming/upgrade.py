"""From an HTTP request to streams: SPDY/3.1 or a WebSocket, and the protocol within."""

import base64
import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from beehive.http.server import RequestHead
from modules.runtimes.oci.streaming import channels, port_streams
from modules.runtimes.oci.streaming.channels import CommandChannels, SpdyChannels, WebSocketChannels
from modules.runtimes.oci.streaming.link import SocketLink, TunnelLink
from modules.runtimes.oci.streaming.port_streams import PortStreams, SpdyPorts, WebSocketPorts
from modules.runtimes.oci.streaming.requests import StreamRequest

_SPDY: Final = "spdy/3.1"
_VERSIONS: Final = "x-stream-protocol-version"
_SUBPROTOCOLS: Final = "sec-websocket-protocol"
_GUID: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES: Final = 16


class UpgradeError(Exception):
    """The client asks for streams in a way that is not spoken here; `status` is the answer's."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        super().__init__(reason)


class Upgraded(NamedTuple):
    """The streams of a request: one of both, by its kind."""

    command: CommandChannels | None = None
    ports: PortStreams | None = None


def check_upgrade(head: RequestHead) -> None:
    """Check that a request begins streams.

    Raises:
        UpgradeError: it does not.
    """
    wanted = head.header("upgrade").lower()
    if wanted not in (_SPDY, "websocket"):
        raise UpgradeError(400, "streams begin with an upgrade to SPDY/3.1 or websocket")
    if head.method not in ("GET", "POST"):
        raise UpgradeError(405, "streams begin with GET or POST")


def upgrade(head: RequestHead, request: StreamRequest, link: SocketLink) -> Upgraded:
    """Answer the request on its connection, and return the streams.

    Raises:
        UpgradeError: no common protocol; nothing has been answered.
    """
    is_ports = request.kind == "portforward"
    if head.header("upgrade").lower() == _SPDY:
        protocol = _chosen(head, _VERSIONS, port_streams.SPDY_PROTOCOLS if is_ports else channels.SPDY_PROTOCOLS)
        link.queue(_switching("SPDY/3.1", [(_VERSIONS, protocol)]))
        return Upgraded(ports=SpdyPorts(link)) if is_ports else Upgraded(SpdyChannels(link, protocol, request))
    from modules.runtimes.oci.streaming.web_socket import WebSocketLink  # noqa: PLC0415 - see there

    spoken = port_streams.WEB_SOCKET_PROTOCOLS if is_ports else channels.WEB_SOCKET_PROTOCOLS
    protocol = _chosen(head, _SUBPROTOCOLS, spoken)
    link.queue(_switching("websocket", _web_socket_answer(head, protocol)))
    messages = WebSocketLink(link, protocol)
    if not is_ports:
        return Upgraded(WebSocketChannels(messages, request))
    if messages.subprotocol == port_streams.TUNNEL_PROTOCOL:
        return Upgraded(ports=SpdyPorts(TunnelLink(messages)))
    return Upgraded(ports=WebSocketPorts(messages, request.ports))


def _chosen(head: RequestHead, header: str, spoken: Sequence[str]) -> str:
    """Return the first protocol that both sides speak; the last one to a client that names none."""
    values = [value for name, value in head.headers if name == header]
    offered = {each.strip() for value in values for each in value.split(",")}
    if not offered:
        return spoken[-1]
    for each in spoken:
        if each in offered:
            return each
    raise UpgradeError(403, f"none of the protocols is spoken; these are: {', '.join(spoken)}")


def _web_socket_answer(head: RequestHead, protocol: str) -> list[tuple[str, str]]:
    """Return the headers of a WebSocket's handshake (RFC 6455 §4.2.2). Raises UpgradeError."""
    key = head.header("sec-websocket-key")
    try:
        is_key = len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except ValueError:
        is_key = False
    if not is_key or head.header("sec-websocket-version") != "13" or head.method != "GET":
        raise UpgradeError(400, "this is no handshake of WebSocket version 13")
    proof = base64.b64encode(hashlib.sha1(f"{key}{_GUID}".encode(), usedforsecurity=False).digest()).decode()
    chosen = [(_SUBPROTOCOLS, protocol)] if head.header(_SUBPROTOCOLS) else []
    return [("sec-websocket-accept", proof), *chosen]


def _switching(protocol: str, headers: Sequence[tuple[str, str]]) -> bytes:
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", f"Upgrade: {protocol}"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers), "", ""]).encode()
