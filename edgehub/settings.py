"""What can be set about the link to the cloud.

The process that assembles modules makes one from its configuration (`modules.edgeHub` of a KubeEdge file): edgehub
itself knows no file format.
"""

import msgspec

MEBIBYTE = 1024 * 1024


class EdgeHubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of edgehub. Times are in seconds, sizes in bytes."""

    url: str
    """`{ws|wss}://{server}/{projectID}/{nodeName}/events`, as KubeEdge's edgehub dials it."""

    node: str
    """Name of this node, sent as header `node_id`: all that the cloud knows a link by."""

    project: str = "e632aba927ea4ac2b575ec1603d56f10"
    """Sent as header `project_id`. Default is KubeEdge's; its cloud ignores it."""

    heartbeat: float = 15.0
    """Between two keepalive messages. The cloud ends a session 30 s after the last one, so 15 leaves one spare."""

    handshake_timeout: float = 30.0
    """For name lookup, TCP, TLS and upgrade together; KubeEdge's default."""

    ping_interval: float = 5.0
    """Silence after which the peer is pinged, at the latest after half of `read_deadline`. The cloud sends nothing by
    itself, and a keepalive is not answered."""

    read_deadline: float = 10.0
    """Silence after which the peer is taken for dead. Two pings long, so that one may be late."""

    write_deadline: float = 15.0
    """How long the peer may take nothing while something is to be written; KubeEdge's default."""

    max_frame_bytes: int = 16 * MEBIBYTE
    """Largest message either way. etcd refuses objects over 1.5 MiB, but a list of pods may be larger; without a limit
    one message could take all of a small device's memory."""

    message_qps: float = 30.0
    """Messages a second to the cloud in the long run, 0 for no limit; KubeEdge's default."""

    message_burst: int = 60
    """Messages that may leave at once after a quiet time; KubeEdge's default."""

    reconnect_base: float = 1.0
    """Ceiling of the delay after the first failed try. The delay is drawn between nothing and the ceiling, which
    doubles: a crowd of nodes that lost the same cloud does not come back in step."""

    reconnect_limit: float = 30.0
    """Ceiling that the delay never passes: KubeEdge's fixed delay."""

    steady: float = 10.0
    """A link that was up for so long makes the next try immediate and the delays begin anew. A shorter one does not,
    or a cloud that accepts and drops at once would be dialled without pause."""

    outgoing_messages: int = 1024
    """Messages that may wait for the cloud; as many as KubeEdge's channel holds."""

    outgoing_bytes: int = 8 * MEBIBYTE
    """Bytes that may wait for the cloud (a single larger message may wait alone)."""
