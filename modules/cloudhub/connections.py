"""What cloudhub and edgecontroller tell each other of a node's connection; the resource is `node/NODE`.

Acknowledgements are told of many nodes at once, under a resource of their own.
"""

from typing import Final

import msgspec

ACKNOWLEDGED: Final = "acknowledged"
"""The operation that brings edgecontroller a list of `Acknowledged`."""

ACKNOWLEDGED_RESOURCE: Final = "cloudhub/acknowledged"

HANDLED: Final = "handled"
"""The operation by which a controller tells cloudhub how many messages of each node it has handled: a dictionary of
numbers. Of no node does it get more until then than a few.
"""

HANDLED_RESOURCE: Final = "cloudhub/handled"


class Connected(msgspec.Struct, frozen=True):
    """A connection has begun or ended (KubeEdge's event, spec/04 §8, and which connection)."""

    event_type: str
    timestamp: int
    """Seconds since 1970."""
    client_id: str
    connection: str = ""
    """Its id, which no other has in any cloudcore."""


class Taken(msgspec.Struct, frozen=True):
    """The node has connected to another cloudcore after this connection was made."""

    connection: str


class Acknowledged(msgspec.Struct, frozen=True, array_like=True):
    """A node has an object, or has deleted it."""

    node: str
    uid: str
    version: int
    is_delete: bool
