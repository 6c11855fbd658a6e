"""Messages between cloudhub and the controllers. The resource is `node/NODE`, unless a constant says otherwise."""

from typing import Final

import msgspec

from beehive.message import Message

ACKNOWLEDGED: Final = "acknowledged"
"""Operation: cloudhub sends edgecontroller a list of `Acknowledged`, of any nodes."""

ACKNOWLEDGED_RESOURCE: Final = "cloudhub/acknowledged"

HANDLED: Final = "handled"
"""Operation: a controller sends cloudhub the number of messages that it has handled, by node. cloudhub sends a
controller few messages of a node before these are handled (`UpstreamWindow`).
"""

HANDLED_RESOURCE: Final = "cloudhub/handled"


class ObjectMessage(Message, frozen=True, dict=True):
    """A message for a node about an object whose uid and version are known: cloudhub reads them in no content."""

    uid: str = ""
    number: int = 0
    """The resourceVersion as edges compare it."""


def origin_of(message: Message) -> tuple[str, str]:
    """Return the node of a message, and the resource that it wrote."""
    node, _, resource = message.route.resource.removeprefix("node/").partition("/")
    return node, resource


NODES: Final = "nodes"
"""Operation: module `control`, or an edgecontroller that has failed, asks cloudhub for its connections; the reply is a
list of `NodeConnection`.
"""

NODES_RESOURCE: Final = "cloudhub/nodes"


class NodeConnection(msgspec.Struct, frozen=True):
    """The state of a node's connection to this cloudcore. Times are seconds until now."""

    node: str
    connected_seconds: float
    keepalive_seconds: float
    """Since the node's last keepalive."""
    waiting: int = 0
    """Messages that wait for room in the window of unacknowledged ones."""
    unacknowledged: int = 0
    """Sent messages that the node has not acknowledged."""
    oldest_seconds: float = 0.0
    """Since the oldest unacknowledged message was first sent."""
    is_behind: bool = False
    """Whether the node reads more slowly than cloudcore sends."""
    last_error: str = ""
    """The last error that the node reported over this connection, or the last refusal of a message of it."""
    last_error_seconds: float = 0.0
    connection: str = ""
    """The connection's id, unique over all cloudcores."""
    address: str = ""
    """From where the node has connected."""
    certificate_ends: float = 0.0
    """When its certificate ends, in seconds since 1970; 0 without TLS."""
    clock_ahead_seconds: float = 0.0
    """How far the node's clock is ahead of cloudcore's, by its last keepalive; negative if it is behind."""


CLOUDCORES: Final = "cloudcores"
"""Operation: `control` or the router asks edgecontroller which cloudcores are alive, and which has a node, or each node
if the content is ""; the reply is `Cloudcores`.
"""

RELEASE_LEASE: Final = "releaselease"
"""Operation: the process, which is stopping, asks edgecontroller to give up this cloudcore's Lease; it replies when the
API server has answered.
"""

CLOUDCORES_RESOURCE: Final = "edgecontroller/cloudcores"


class Cloudcores(msgspec.Struct, frozen=True):
    """The cloudcores that serve one cluster, by their identities."""

    own: str
    """This cloudcore."""
    alive: tuple[str, ...]
    """The cloudcores that renew their Leases, this one included."""
    nodes: dict[str, str] = {}
    """The cloudcore of each node's last connection."""
    cloud: str = ""
    """What the cloud is called (`cloudcore run --name`)."""

    def elsewhere(self) -> dict[str, str]:
        """Return, by node, the other cloudcore that has it, if that is alive."""
        return {node: holder for node, holder in self.nodes.items() if holder != self.own and holder in self.alive}


KUBELET_PORTS: Final = "kubeletports"
"""Operation: edgecontroller tells cloudstream the kubelet's ports in the statuses of Nodes that are new, or have
another port than before: numbers by node, 0 for a status without a port.
"""

KUBELET_PORTS_RESOURCE: Final = "cloudstream/kubeletports"

DRAIN: Final = "drain"
"""Operation: the process asks cloudhub to end all connections (`Drain`)."""

DRAIN_RESOURCE: Final = "cloudhub/drain"


class Drain(msgspec.Struct, frozen=True):
    """cloudcore is stopping: cloudhub is to end all connections, and replies when it has."""

    seconds: float
    """Time for that."""


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
    reason: str = ""
    """Why it has ended."""
    address: str = ""
    """From where the node has connected."""
    certificate_ends: float = 0.0
    """When the node's certificate ends, in seconds since 1970; 0 without TLS."""
    at: float = 0.0
    """The timestamp with its fraction; 0 if that is not known."""

    @property
    def began_at(self) -> float:
        """When it was, in seconds since 1970, to the millisecond if that is known: two connections of one second have
        an order.
        """
        return int(self.at * 1000) / 1000 or self.timestamp


LINKS: Final = "links"
"""Operation: `control` asks the journal for connections (`LinkQuery`); the reply is a list of `LinkSession`."""

JOURNAL_RESOURCE: Final = "journal/links"


class LinkQuery(msgspec.Struct, frozen=True):
    """Choice of connections of the link journal."""

    node: str = ""
    """"": of all nodes."""
    since: float = 0.0
    """Only connections that lasted at this time or later, in seconds since 1970."""
    newest_only: bool = False
    """Only the newest of each node."""


class LinkSession(msgspec.Struct, frozen=True):
    """A connection of a node in the link journal. Times are seconds since 1970."""

    node: str
    connection: str
    """Unique over all cloudcores."""
    cloudcore: str
    began: float
    ended: float = 0.0
    """0 while it lasts, as far as is known."""
    reason: str = ""
    """Why it has ended."""
    address: str = ""
    """From where the node had connected."""
    certificate_ends: float = 0.0
    """The end of the node's certificate; 0 without TLS."""
    seen: float = 0.0
    """When the cloudcore of a connection that lasts has left its last sign of life; it leaves one every 30 s."""


class SessionTakenOver(msgspec.Struct, frozen=True):
    """A node has connected to another cloudcore since this connection began; edgecontroller tells cloudhub."""

    connection: str


class Acknowledged(msgspec.Struct, frozen=True, array_like=True):
    """A node has stored an object, or its deletion."""

    node: str
    uid: str
    version: int
    is_delete: bool
