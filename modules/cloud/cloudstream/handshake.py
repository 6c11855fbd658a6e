"""The check of a tunnel's websocket upgrade: path, node name and client certificate.

KubeEdge never compares the name with the certificate, so that a node may take over the streams of another.
"""

import logging
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from modules.cloud.identities.node_identity import is_node_name, node_in
from modules.cloud.websocket.handshake import Refusal
from modules.streams import credit

if TYPE_CHECKING:
    from websockets.http11 import Request

_log = logging.getLogger(__name__)

PATH: Final = "/v1/kubeedge/connect"
_NODE: Final = "SessionHostNameOverride"
_ADDRESS: Final = "SessionInternalIP"
_LONGEST_ADDRESS: Final = 45
"""Characters of an IPv6 address."""


def node_of(request: "Request") -> str:
    """Return the node name in the request."""
    return _first(request, _NODE)


def address_of(request: "Request") -> str:
    """Return the node's internal address, as the request says; "" for none."""
    return _first(request, _ADDRESS)[:_LONGEST_ADDRESS]


def has_credit(request: "Request") -> bool:
    """Return whether the node grants and takes credit for streams."""
    return _first(request, credit.HEADER) == credit.VERSION


def refuse_tunnel(
    request: "Request", certificate: Mapping[str, Any] | None, connected: Collection[str], limit: int, *, tls: bool
) -> Refusal | None:
    """Return the reason to refuse a tunnel, or None.

    Args:
        request: the upgrade request.
        certificate: the verified client certificate, with TLS.
        connected: nodes with a tunnel.
        limit: maximum of them.
        tls: whether the node name must be that of the certificate.
    """
    if request.path.partition("?")[0] != PATH:
        return Refusal(HTTPStatus.NOT_FOUND, f"this is the stream tunnel's server: its path is {PATH}\n")
    node = node_of(request)
    if not is_node_name(node):
        return Refusal(HTTPStatus.BAD_REQUEST, f"header {_NODE} is missing or is not a node name\n")
    if _first(request, "Origin"):
        return Refusal(HTTPStatus.FORBIDDEN, "pages of browsers are not served\n")
    holder = node_in(certificate) if tls else node
    if holder != node:
        text = f"wrong node: the certificate is that of {holder or 'no node'}, the header {_NODE} says {node}\n"
        _log.warning("tunnel refused: %s", text.strip())
        return Refusal(HTTPStatus.FORBIDDEN, text)
    if node not in connected and len(connected) >= limit:
        return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"{limit} nodes have tunnels, the limit\n")
    return None


def _first(request: "Request", name: str) -> str:
    values = request.headers.get_all(name)
    return values[0] if values else ""
