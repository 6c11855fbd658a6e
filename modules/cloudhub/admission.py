"""Who may connect: decided before the upgrade, by headers and certificate (spec/03 §1, spec/04 §4)."""

import logging
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from modules.cloudhub.certificates.names import is_node_name, node_in

if TYPE_CHECKING:
    from websockets.http11 import Request

_log = logging.getLogger(__name__)
_USE_MESSAGES = "msg"


class Refusal(NamedTuple):
    """Why somebody is not served."""

    status: HTTPStatus
    text: str


def node_of(request: "Request") -> str:
    """The node that the request is in the name of."""
    return _first(request, "node_id")


def refusal_of(
    request: "Request", certificate: Mapping[str, Any] | None, connected: Collection[str], limit: int, *, tls: bool
) -> Refusal | None:
    """Why the request is refused; None when it is not.

    Args:
        request: of the upgrade.
        certificate: the verified one, with TLS.
        connected: the nodes that are.
        limit: most nodes. KubeEdge reads on from a node above it and answers nothing, ever; 503 says what is wrong.
        tls: whether a node is who its certificate says; KubeEdge looks at that only where authorization is on.
    """
    node = node_of(request)
    if not is_node_name(node):
        return Refusal(HTTPStatus.BAD_REQUEST, "header node_id is missing or is not a node name\n")
    if _first(request, "ConnectionUse") != _USE_MESSAGES:
        return Refusal(HTTPStatus.BAD_REQUEST, "header ConnectionUse: msg is wanted\n")
    origin = _first(request, "Origin")
    if origin and origin.rpartition("/")[2] != _first(request, "Host"):
        return Refusal(HTTPStatus.FORBIDDEN, "a foreign Origin is not served\n")
    holder = node_in(certificate) if tls else node
    if holder != node:
        text = f"wrong node: the certificate is that of {holder or 'no node'}, the header node_id says {node}\n"
        _log.warning("connection refused: %s", text.strip())
        return Refusal(HTTPStatus.FORBIDDEN, text)
    if node not in connected and len(connected) >= limit:
        _log.warning("connection of node %s refused: %d nodes are connected, the limit", node, limit)
        return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "the node limit is reached\n")
    return None


def _first(request: "Request", name: str) -> str:
    """The first value of a header (a Go edge repeats some with each retry); empty when there is none."""
    values = request.headers.get_all(name)
    return values[0] if values else ""
