"""The check of a websocket upgrade by its headers and the client certificate (docs/protocol.md, "Handshake" and
"Admission").
"""

import logging
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from modules.cloud.identities.node_identity import is_node_name, node_in

if TYPE_CHECKING:
    from websockets.http11 import Request

_log = logging.getLogger(__name__)
_USE_MESSAGES = "msg"


class Refusal(NamedTuple):
    """The HTTP response to a refused upgrade."""

    status: HTTPStatus
    text: str
    reason: str = ""
    """From a closed set, for metrics."""


def node_of(request: "Request") -> str:
    """Return the node name in the request's header `node_id`."""
    return first_header(request, "node_id")


def refuse_handshake(
    request: "Request", certificate: Mapping[str, Any] | None, connected: Collection[str], limit: int, *, tls: bool
) -> Refusal | None:
    """Return the reason to refuse an upgrade, or None.

    Args:
        request: the upgrade request.
        certificate: the verified client certificate, with TLS.
        connected: the connected nodes.
        limit: maximum of connected nodes. KubeEdge never answers a node above it; here it gets 503.
        tls: whether the node name must be the certificate's; KubeEdge checks it only with authorization.
    """
    node = node_of(request)
    if not is_node_name(node):
        return Refusal(HTTPStatus.BAD_REQUEST, "header node_id is missing or is not a node name\n", "node name")
    if first_header(request, "ConnectionUse") != _USE_MESSAGES:
        return Refusal(HTTPStatus.BAD_REQUEST, "header ConnectionUse: msg is wanted\n", "use")
    origin = first_header(request, "Origin")
    if origin and origin.rpartition("/")[2] != first_header(request, "Host"):
        return Refusal(HTTPStatus.FORBIDDEN, "a foreign Origin is not served\n", "origin")
    holder = node_in(certificate) if tls else node
    if holder != node:
        text = f"wrong node: the certificate is that of {holder or 'no node'}, the header node_id says {node}\n"
        _log.warning("connection refused: %s", text.strip())
        return Refusal(HTTPStatus.FORBIDDEN, text, "certificate of another node")
    if node not in connected and len(connected) >= limit:
        _log.warning("connection of node %s refused: %d nodes are connected, the limit", node, limit)
        return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the node limit is reached\n", "node limit")
    return None


def first_header(request: "Request", name: str) -> str:
    """Return the first value of a header, or "". A Go edge repeats some headers with each retry."""
    values = request.headers.get_all(name)
    return values[0] if values else ""
