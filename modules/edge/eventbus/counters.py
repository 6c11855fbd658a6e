"""The counters of eventbus; `metrics` exports them."""

from collections import Counter
from enum import StrEnum
from typing import Self

from modules.edge.eventbus.publications import Drop, Publications
from modules.edge.eventbus.routing import is_for_devices


class RefusalReason(StrEnum):
    """Why an application's message was not taken. A closed set, because it labels metrics."""

    TOPIC = "topic"
    TOO_LARGE = "too large"
    BINARY = "binary"
    RETAINED = "retained"


class Receiver(StrEnum):
    """The receiver of an application's message."""

    DEVICES = "devices"
    CLOUD = "cloud"

    @classmethod
    def of(cls, topic: str) -> Self:
        """Return the receiver of a topic's messages."""
        return cls.DEVICES if is_for_devices(topic) else cls.CLOUD


class EventBusCounters:
    """Counts since the process started; they outlive the module's restarts. All are written on the module's thread."""

    def __init__(self) -> None:
        self.connected: dict[str, bool] = {}
        """Whether each broker has accepted this node: `external`, `internal`."""
        self.connections = 0
        """Sessions that brokers accepted."""
        self.received: Counter[Receiver] = Counter()
        """Messages of applications that were stored, and acknowledged to the broker."""
        self.refused: Counter[RefusalReason] = Counter()
        """Messages of applications that were not taken."""
        self.failed = 0
        """Messages of applications that could not be stored, and that the broker sends again."""
        self.published = 0
        """Messages that a broker has acknowledged."""
        self.dropped: Counter[Drop] = Counter()
        """Messages for applications that were dropped."""
        self.publications: dict[str, Publications] = {}
        """The messages for applications that wait for each broker."""
        self.broker_starts = 0
        """Starts of the internal broker."""
