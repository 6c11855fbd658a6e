"""What the link has done, as plain numbers.

Kept apart from the module, so that they outlive its restarts, and from Prometheus, so that counting needs nothing
installed (`edgehub.metrics` collects them). What the runner's thread counts and what the module's thread counts are
different fields, so no lock is needed.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from beehive import Operation, ResourceType
from beehive.cache import remembered
from beehive.message import Route
from beehive.resource import Side, type_of


class Rejection(StrEnum):
    """Why a frame or a message from the cloud was not taken. Closed, because metrics count by it."""

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
    """What bytes are counted by; from closed sets, because metrics count by it."""

    direction: str
    """`sent` or `received`."""
    operation: str
    kind: str
    """Type of the resource; `other` for what KubeEdge has no name for."""


class LinkCounters:
    """Counts since the process started."""

    def __init__(self) -> None:
        self.connected = False
        """Whether the link is up now."""
        self.connections = 0
        """Links that came up."""
        self.ends: Counter[str] = Counter()
        """Links that ended or did not come up, by `LinkError.reason`."""
        self.received = 0
        """Messages from the cloud that were handed to a module or a waiter."""
        self.received_bytes = 0
        self.rejected: Counter[Rejection] = Counter()
        """Frames and messages from the cloud that were not taken."""
        self.late = 0
        """Answers nobody waited for any more, handed to metamanager because the cloud wants them acknowledged."""
        self.sent = 0
        """Messages that were handed to the link, keepalives and repetitions after a reconnect included."""
        self.confirmed = 0
        """Messages that the peer is known to have read."""
        self.refused: Counter[Refusal] = Counter()
        """Messages of this node that did not leave."""
        self.payload: Counter[Traffic] = Counter()
        """Bytes of messages before compression and framing, by what they are about."""
        self.outbox_writes = 0
        """Changes of the outbox that are on the disk, each with one flush."""
        self.outbox_failures = 0
        """Times that the outbox could not be opened or written."""
        self.outbox_restored = 0
        """Messages of an earlier run that were found in the outbox."""
        self.waiting: Callable[[], Mapping[str, tuple[int, int]]] = dict
        """How many messages, and bytes, are held for the cloud now, by class."""
        self.certificate_expires: float | None = None
        """Unix time at which the node's certificate ends; None without one. Two threads set it, to the same."""
        self.certificates: Counter[str] = Counter()
        """Certificates that were asked for, by outcome: `issued`, or `CertificateError.reason`."""

    def count(self, direction: str, route: Route, size: int) -> None:
        """Count the bytes of one message."""
        self.payload[_traffic(direction, route.operation, route.resource)] += size


@remembered(1024)
def _traffic(direction: str, operation: str, resource: str) -> Traffic:
    kind = type_of(resource, Side.EDGE) or ("node" if resource == "node" else "")
    return Traffic(
        direction,
        operation if operation in _OPERATIONS else "other",
        kind if kind in _TYPES else "other",
    )


_OPERATIONS = frozenset(Operation)
_TYPES = frozenset(ResourceType)
