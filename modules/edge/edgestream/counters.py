"""The counters of edgestream, and their form for Prometheus."""

from collections import Counter
from collections.abc import Mapping

from beehive.exposition import Collector, CounterFamily, GaugeFamily, MetricFamily, counter, gauge
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


class StreamCollector(Collector):
    """The collector that exports the counters at each scrape.

    Args:
        counters: of edgestream.
    """

    def __init__(self, counters: StreamCounters) -> None:
        self._counters = counters

    def collect(self) -> list[MetricFamily]:
        """Return the present values."""
        counters = self._counters
        streams = GaugeFamily("edgestream_streams", "Streams that are open.", labels=["kind"])
        for kind, number in list(counters.open.items()):
            streams.add_metric([kind.name.lower()], number)
        return [
            gauge("edgestream_connected", "1 while there is a stream tunnel to the cloud.", float(counters.connected)),
            streams,
            counter("edgestream_connections", "Stream tunnels that the cloud accepted.", counters.connections),
            _by_kind("edgestream_opened_streams", "Streams that began.", counters.opened),
            counter("edgestream_refused_streams", "Streams that did not begin.", counters.refused),
            counter("edgestream_broken_streams", "Streams that did not end properly.", counters.broken),
            counter("edgestream_sent_bytes", "Bytes of streams sent to the cloud.", counters.sent),
            counter("edgestream_received_bytes", "Bytes of streams received from the cloud.", counters.received),
        ]


def _by_kind(name: str, text: str, values: Mapping[FrameType, int]) -> CounterFamily:
    family = CounterFamily(name, text, labels=["kind"])
    for kind, count in list(values.items()):
        family.add_metric([kind.name.lower()], count)
    return family
