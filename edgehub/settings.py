"""Settings of the link to the cloud. The process makes them from `modules.edgeHub` of its configuration file."""

import msgspec

from edgehub.classes import MessageClass

MEBIBYTE = 1024 * 1024
DAY = 24 * 3600.0


class Limit(msgspec.Struct, frozen=True):
    """Amount of one class of messages that is kept for the cloud."""

    messages: int
    size: int
    """Bytes of all messages together; a single larger message may be alone."""
    age: float = 0.0
    """Seconds after which a waiting message is dropped; 0 for never."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of each class (`edgehub.classes`)."""

    volatile: Limit = Limit(1024, 8 * MEBIBYTE)
    """For requests, and for answers; as many as KubeEdge's channel holds. In memory only."""

    responses: Limit = Limit(64, 32 * MEBIBYTE)
    """Responses of applications, in memory only; one may have 5,000,000 bytes."""

    states: Limit = Limit(2048, 4 * MEBIBYTE)
    """States: one for each object, so the limit is a number of objects. They never expire, for they are current."""

    events: Limit = Limit(1000, 2 * MEBIBYTE, 3600.0)
    """Kubernetes events. A cluster forgets them after an hour too (kube-apiserver's --event-ttl)."""

    uploads: Limit = Limit(10_000, 8 * MEBIBYTE, 7 * DAY)
    """All other messages without a waiting sender: data of devices, reports of tasks."""

    def of(self, kind: MessageClass) -> Limit:
        """Return the limit of a class."""
        match kind:
            case MessageClass.RESPONSE:
                return self.responses
            case MessageClass.STATE:
                return self.states
            case MessageClass.EVENT:
                return self.events
            case MessageClass.UPLOAD:
                return self.uploads
            case _:
                return self.volatile


class EdgeHubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of edgehub. Times are in seconds, sizes in bytes."""

    url: str
    """`{ws|wss}://{server}/{projectID}/{nodeName}/events`, as KubeEdge's edgehub dials it."""

    other_urls: tuple[str, ...] = ()
    """URLs of further cloudcores that serve this node. After each connection or failed attempt the next one in turn is
    dialled."""

    node: str
    """Name of this node, sent as header `node_id`; the cloud identifies the link by it alone."""

    project: str = "e632aba927ea4ac2b575ec1603d56f10"
    """Sent as header `project_id`. The default is KubeEdge's, whose cloud ignores it."""

    heartbeat: float = 15.0
    """Between two keepalive messages. The cloud ends a session 30 s after the last one, so 15 tolerates one loss."""

    handshake_timeout: float = 30.0
    """For name lookup, TCP, TLS and upgrade together; KubeEdge's default."""

    ping_interval: float = 5.0
    """Silence after which the link pings the peer, at the latest after half of `read_deadline`. The cloud sends nothing
    on its own, and does not answer a keepalive."""

    read_deadline: float = 10.0
    """Silence after which the link declares the peer dead. Two ping intervals, so that one pong may be late."""

    write_deadline: float = 10.0
    """How long the peer may read nothing while bytes wait to be written."""

    max_frame_bytes: int = 16 * MEBIBYTE
    """Largest message in either direction. etcd refuses objects over 1.5 MiB, but a list of pods may be larger; without
    a limit one message could fill the memory of a small device."""

    compression: bool = False
    """Whether the link offers permessage-deflate; KubeEdge's cloud does not support it."""

    message_qps: float = 30.0
    """Messages a second to the cloud in the long run, 0 for no limit; KubeEdge's default."""

    message_burst: int = 60
    """Messages that may leave in a burst; KubeEdge's default."""

    reconnect_base: float = 1.0
    """Upper bound of the delay after the first failure. The delay is drawn between 0 and the bound, which doubles with
    each failure: many nodes that lost the same cloud do not come back at the same time."""

    reconnect_limit: float = 30.0
    """Largest upper bound of the delay: KubeEdge's fixed delay."""

    steady: float = 10.0
    """After a link that was up for this long, the next attempt is immediate. After a shorter link where the cloud
    has answered, it follows within `reconnect_base`. After one without an answer the delays grow, or a cloud that
    accepts and drops connections would be dialled without pause."""

    limits: Limits = Limits()
    """How much of each class is kept for the cloud."""
