"""eventbus's counters for Prometheus."""

from beehive.exposition import Collector, GaugeFamily, MetricFamily, counter, counters_by, gauge
from modules.edge.eventbus.counters import EventBusCounters


class EventBusCollector(Collector):
    """The collector that exports the counters at each scrape.

    Args:
        counters: of eventbus.
    """

    def __init__(self, counters: EventBusCounters) -> None:
        self._counters = counters

    def collect(self) -> list[MetricFamily]:
        """Return the present values."""
        counters = self._counters
        connected = GaugeFamily("eventbus_connected", "1 while the MQTT broker is connected.", labels=["broker"])
        for name, is_up in list(counters.connected.items()):
            connected.add_metric([name], float(is_up))
        queues = list(counters.publications.values())
        number, size = sum(map(len, queues)), sum(each.size for each in queues)
        refused = "Messages of applications not taken."
        dropped = "Messages for applications that were dropped."
        return [
            connected,
            gauge("eventbus_waiting_messages", "Messages for applications that wait for the broker.", number),
            gauge("eventbus_waiting_bytes", "Bytes of messages that wait for the broker.", size),
            counter("eventbus_connections", "Sessions that brokers accepted.", counters.connections),
            counters_by(
                "receiver", "eventbus_received_messages", "Messages of applications stored.", counters.received
            ),
            counters_by("reason", "eventbus_refused_messages", refused, counters.refused),
            counter("eventbus_failed_messages", "Messages of applications not stored, to come again.", counters.failed),
            counter("eventbus_published_messages", "Messages that a broker has acknowledged.", counters.published),
            counters_by("reason", "eventbus_dropped_messages", dropped, counters.dropped),
            counter("eventbus_broker_starts", "Starts of the internal broker.", counters.broker_starts),
        ]
