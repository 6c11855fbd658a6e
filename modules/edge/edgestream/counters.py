"""The counters of edgestream, and their form for Prometheus."""

from collections import Counter

from beehive.exposition import MetricFamily, counter, counters_by, gauge, gauges_by
from modules.streams.frames import FrameType


class StreamCounters:
    """Counts since the process started; they outlive tunnels and restarts of the module."""

    def __init__(self) -> None:
        self.connected = False
        """Whether there is a tunnel."""
        self.connections = 0
        """Tunnels that the cloud accepted."""
        self.open: Counter[FrameType] = Counter()
        """Streams that are open."""
        self.opened: Counter[FrameType] = Counter()
        """Streams that began."""
        self.refused = 0
        """Streams that were asked for and did not begin."""
        self.broken = 0
        """Streams that did not end properly."""
        self.sent = 0
        """Bytes of streams that left for the cloud."""
        self.received = 0
        """Bytes of streams that came from the cloud."""


def stream_metrics(counters: StreamCounters) -> list[MetricFamily]:
    """Return the present counters for Prometheus."""
    return [
        gauge("edgestream_connected", "1 while there is a stream tunnel to the cloud.", float(counters.connected)),
        gauges_by("kind", "edgestream_streams", "Streams that are open.", _by_kind(counters.open)),
        counter("edgestream_connections", "Stream tunnels that the cloud accepted.", counters.connections),
        counters_by("kind", "edgestream_opened_streams", "Streams that began.", _by_kind(counters.opened)),
        counter("edgestream_refused_streams", "Streams that did not begin.", counters.refused),
        counter("edgestream_broken_streams", "Streams that did not end properly.", counters.broken),
        counter("edgestream_sent_bytes", "Bytes of streams sent to the cloud.", counters.sent),
        counter("edgestream_received_bytes", "Bytes of streams received from the cloud.", counters.received),
    ]


def _by_kind(numbers: Counter[FrameType]) -> dict[str, float]:
    return {kind.name.lower(): number for kind, number in numbers.copy().items()}
