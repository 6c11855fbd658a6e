"""What can be set about the link to the cloud.

The process that assembles modules makes one from its configuration (`modules.edgeHub` of a KubeEdge file): edgehub
itself knows no file format.
"""

import msgspec

from edgehub.classes import Class

MEBIBYTE = 1024 * 1024
DAY = 24 * 3600.0


class Limit(msgspec.Struct, frozen=True):
    """How much of a class of messages is kept for the cloud."""

    messages: int
    size: int
    """Bytes of all of them; a single larger message may be alone."""
    age: float = 0.0
    """Seconds after which one that still waits is dropped; 0 for never."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of each class (`edgehub.classes`)."""

    volatile: Limit = Limit(1024, 8 * MEBIBYTE)
    """Of requests, and of answers; as many as KubeEdge's channel holds. Only in memory."""

    states: Limit = Limit(2048, 4 * MEBIBYTE)
    """One for each object, so it is the number of objects that counts. They do not grow old: they are what is true."""

    events: Limit = Limit(1000, 2 * MEBIBYTE, 3600.0)
    """Kubernetes events. A cluster forgets them after an hour too (kube-apiserver's --event-ttl)."""

    uploads: Limit = Limit(10_000, 8 * MEBIBYTE, 7 * DAY)
    """Everything else that nobody waits for: data of devices, reports of tasks."""

    def of(self, kind: Class) -> Limit:
        """The limit of a class."""
        match kind:
            case Class.STATE:
                return self.states
            case Class.EVENT:
                return self.events
            case Class.UPLOAD:
                return self.uploads
            case _:
                return self.volatile


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

    write_deadline: float = 10.0
    """How long the peer may take nothing while something is to be written."""

    max_frame_bytes: int = 16 * MEBIBYTE
    """Largest message either way. etcd refuses objects over 1.5 MiB, but a list of pods may be larger; without a limit
    one message could take all of a small device's memory."""

    compression: bool = False
    """Whether the cloud is asked to compress (permessage-deflate); KubeEdge's does not."""

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
    """A link that was up for so long makes the next try immediate. After a shorter one on which the cloud has
    answered, it comes within `reconnect_base`; after one without a word the delays grow, or a cloud that accepts and
    drops at once would be dialled without pause."""

    limits: Limits = Limits()
    """How much is kept for the cloud, of each class."""
