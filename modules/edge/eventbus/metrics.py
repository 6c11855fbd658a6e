"""eventbus's counters for Prometheus."""

from collections.abc import Mapping
from typing import TypeVar

from beehive.exposition import Collector, CounterFamily, GaugeFamily, MetricFamily
from modules.edge.eventbus.counters import EventBusCounters

K = TypeVar("K", bound=str)


class EventBusCollector(Collector):
    """Exports the counters at each scrape.

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
        number, size = counters.waiting()
        refused, dropped = "Messages of applications not taken.", "Messages for applications that were dropped."
        return [
            connected,
            _gauge("eventbus_waiting_messages", "Messages for applications that wait for the broker.", number),
            _gauge("eventbus_waiting_bytes", "Bytes of messages that wait for the broker.", size),
            _plain("eventbus_connections", "Sessions that brokers accepted.", counters.connections),
            _by("receiver", "eventbus_received_messages", "Messages of applications stored.", counters.received),
            _by("reason", "eventbus_refused_messages", refused, counters.refused),
            _plain("eventbus_failed_messages", "Messages of applications not stored, to come again.", counters.failed),
            _plain("eventbus_published_messages", "Messages that a broker has acknowledged.", counters.published),
            _by("reason", "eventbus_dropped_messages", dropped, counters.dropped),
            _plain("eventbus_broker_starts", "Starts of the internal broker.", counters.broker_starts),
        ]


def _gauge(name: str, text: str, value: int) -> GaugeFamily:
    family = GaugeFamily(name, text)
    family.add_metric([], value)
    return family


def _plain(name: str, text: str, value: int) -> CounterFamily:
    family = CounterFamily(name, text)
    family.add_metric([], value)
    return family


def _by(label: str, name: str, text: str, values: Mapping[K, int]) -> CounterFamily:
    family = CounterFamily(name, text, labels=[label])
    for value, count in list(values.items()):
        family.add_metric([str(value)], count)
    return family
