"""The counters of the link; `edgehub.metrics` exports them."""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from beehive import Message, Operation, ResourceType


class Rejection(StrEnum):
    """Why a frame or a message from the cloud was rejected. A closed set, because it labels metrics."""

    NOT_JSON = "json"
    NOT_A_MESSAGE = "type"
    EMPTY = "empty"
    TOO_LARGE = "too large"
    UNKNOWN_GROUP = "unknown group"
    UNKNOWN_SOURCE = "unknown source"
    INTERNAL = "only this node says that"


class Refusal(StrEnum):
    """Why a message did not leave for the cloud."""

    TOO_LARGE = "too large"
    NOT_JSON = "no JSON form"
    NOT_CONNECTED = "not connected"
    NO_ROOM = "no room"
    SUPERSEDED = "superseded by a newer state"
    GAVE_WAY = "gave way to newer events"
    TOO_OLD = "too old"


class Traffic(NamedTuple):
    """Labels of a byte count; closed sets, because they label metrics."""

    direction: str
    """`sent` or `received`."""
    operation: str
    kind: str
    """Type of the resource; `other` for types that KubeEdge does not name."""


class LinkState(msgspec.Struct, frozen=True):
    """The link as it is now. Replaced as a whole, so that any thread may read it."""

    connected_at: float | None = None
    """Unix time when the link came up; None while it is down."""
    lost_at: float | None = None
    """Unix time when the last link that was up ended; None if there was none."""
    failures: int = 0
    """Attempts in a row, up to now, that did not bring a link."""
    why: str = ""
    """Why the last link ended or did not come up; empty before that."""
    next_try: float | None = None
    """Monotonic time in seconds of the next attempt; None while one is made or the link is up."""
    replaced_at: float | None = None
    """Unix time when the cloud has last ended a link of this node because another connection with its name took its
    place; None if it never did."""


class LinkCounters:
    """Counts since the process started.

    They outlive the module's restarts. The threads of module and link write different fields, so no lock is needed.

    Args:
        waiting: returns the number of messages and bytes kept for the cloud now, by class.
    """

    def __init__(self, waiting: Callable[[], Mapping[str, tuple[int, int]]] = dict) -> None:
        self.waiting = waiting
        self.connected = False
        """Whether the link is up now."""
        self.link = LinkState()
        """Since when, or why not and when it is tried next."""
        self.connections = 0
        """Links that were established."""
        self.ends: Counter[str] = Counter()
        """Links that ended or could not be established, by `LinkError.reason`."""
        self.received = 0
        """Messages from the cloud delivered to a module or a waiting request."""
        self.received_bytes = 0
        self.rejected: Counter[Rejection] = Counter()
        """Rejected frames and messages from the cloud."""
        self.late = 0
        """Late answers delivered to metamanager because the cloud needs their acknowledgement."""
        self.sent = 0
        """Messages handed to the link, including keepalives and repetitions after a reconnect."""
        self.confirmed = 0
        """Messages that the peer has confirmed to have read."""
        self.refused: Counter[Refusal] = Counter()
        """Messages of this node that did not leave."""
        self.payload: Counter[Traffic] = Counter()
        """Bytes of messages before compression and framing, by direction, operation and type."""
        self.outbox_writes = 0
        """Changes of the outbox written to the disk, each with one flush."""
        self.outbox_failures = 0
        """Failures to open or write the outbox."""
        self.outbox_restored = 0
        """Messages of an earlier run found in the outbox."""
        self.certificate_expires: float | None = None
        """Unix time when the node's certificate expires; None without one. Two threads set it, to equal values."""
        self.certificates: Counter[str] = Counter()
        """Certificate requests by outcome: `issued`, or `CertificateError.reason`."""

    def count(self, direction: str, message: Message, size: int) -> None:
        """Count the bytes of one message."""
        route = message.route
        kind = message.subject.type or ("node" if route.resource == "node" else "")
        operation = route.operation if route.operation in _OPERATIONS else "other"
        self.payload[Traffic(direction, operation, kind if kind in _TYPES else "other")] += size


_OPERATIONS = frozenset(Operation)
_TYPES = frozenset(ResourceType)
