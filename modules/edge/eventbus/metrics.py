"""eventbus's counters for Prometheus."""

from beehive.exposition import MetricFamily, counter, counters_by, gauge, gauges_by
from modules.edge.eventbus.counters import EventBusCounters


def event_bus_metrics(counters: EventBusCounters) -> list[MetricFamily]:
    """Return the present counters for Prometheus."""
    queues = list(counters.publications.values())
    number, size = sum(map(len, queues)), sum(each.size for each in queues)
    refused = "Messages of applications not taken."
    dropped = "Messages for applications that were dropped."
    return [
        gauges_by("broker", "eventbus_connected", "1 while the MQTT broker is connected.", counters.connected),
        gauge("eventbus_waiting_messages", "Messages for applications that wait for the broker.", number),
        gauge("eventbus_waiting_bytes", "Bytes of messages that wait for the broker.", size),
        counter("eventbus_connections", "Sessions that brokers accepted.", counters.connections),
        counters_by("receiver", "eventbus_received_messages", "Messages of applications stored.", counters.received),
        counters_by("reason", "eventbus_refused_messages", refused, counters.refused),
        counter("eventbus_failed_messages", "Messages of applications not stored, to come again.", counters.failed),
        counter("eventbus_published_messages", "Messages that a broker has acknowledged.", counters.published),
        counters_by("reason", "eventbus_dropped_messages", dropped, counters.dropped),
        counter("eventbus_broker_starts", "Starts of the internal broker.", counters.broker_starts),
    ]
