"""Messages between cloudhub and the controllers. The resource is `node/NODE`, unless a constant says otherwise."""

from typing import Final

import msgspec

ACKNOWLEDGED: Final = "acknowledged"
"""Operation: cloudhub sends edgecontroller a list of `Acknowledged`, of any nodes."""

ACKNOWLEDGED_RESOURCE: Final = "cloudhub/acknowledged"

HANDLED: Final = "handled"
"""Operation: a controller sends cloudhub the number of messages that it has handled, by node. cloudhub sends a
controller few messages of a node before these are handled (`UpstreamWindow`).
"""

HANDLED_RESOURCE: Final = "cloudhub/handled"


class ConnectEvent(msgspec.Struct, frozen=True):
    """A connection has begun or ended: KubeEdge's event (docs/protocol.md, "Connection events in the cloud"), with the
    connection's id.
    """

    event_type: str
    timestamp: int
    """Seconds since 1970."""
    client_id: str
    connection: str = ""
    """The connection's id, unique over all cloudcores."""


class SessionTakenOver(msgspec.Struct, frozen=True):
    """A node has connected to another cloudcore since this connection began; edgecontroller tells cloudhub."""

    connection: str


class Acknowledged(msgspec.Struct, frozen=True, array_like=True):
    """A node has stored an object, or its deletion."""

    node: str
    uid: str
    version: int
    is_delete: bool
