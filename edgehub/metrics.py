"""The link's counters for Prometheus."""

from typing import TypeVar

from beehive.exposition import (
    Collector,
    CounterFamily,
    GaugeFamily,
    MetricFamily,
    counter,
    counters_by,
    gauge,
)
from edgehub.counters import LinkCounters

R = TypeVar("R", bound=str)


class LinkCollector(Collector):
    """The collector that exports the counters at each scrape.

    Args:
        counters: as returned by `edgehub.install`.
    """

    def __init__(self, counters: LinkCounters) -> None:
        self._counters = counters

    def collect(self) -> list[MetricFamily]:
        """Return the present values."""
        counters = self._counters
        expires = GaugeFamily(
            "edgehub_certificate_expiration_timestamp_seconds", "When the node's certificate ends; absent without one."
        )
        if counters.certificate_expires is not None:
            expires.add_metric([], counters.certificate_expires)
        return [
            gauge("edgehub_connected", "1 while the link to the cloud is up.", float(counters.connected)),
            expires,
            counters_by("outcome", "edgehub_certificate_requests", "Certificates asked for.", counters.certificates),
            counter("edgehub_connections", "Links that came up.", counters.connections),
            counters_by("reason", "edgehub_link_ends", "Links that ended or did not come up.", counters.ends),
            counter("edgehub_received_messages", "Messages taken from the cloud.", counters.received),
            counter("edgehub_received_bytes", "Bytes of messages from the cloud.", counters.received_bytes),
            counters_by("reason", "edgehub_rejected_messages", "Messages from the cloud not taken.", counters.rejected),
            counter("edgehub_late_answers", "Late answers handed to metamanager.", counters.late),
            counter("edgehub_sent_messages", "Messages given to the link.", counters.sent),
            counter("edgehub_confirmed_messages", "Messages the cloud is known to have read.", counters.confirmed),
            counters_by(
                "reason", "edgehub_refused_messages", "Messages of this node that did not leave.", counters.refused
            ),
            _payload(counters),
            *_outbox(counters),
        ]


def _payload(counters: LinkCounters) -> CounterFamily:
    labels = ["direction", "operation", "type"]
    family = CounterFamily("edgehub_payload_bytes", "Bytes of messages, by operation and type.", labels=labels)
    for traffic, size in list(counters.payload.items()):
        family.add_metric(list(traffic), size)
    return family


def _outbox(counters: LinkCounters) -> list[MetricFamily]:
    messages = GaugeFamily("edgehub_waiting_messages", "Messages held for the cloud.", labels=["class"])
    size = GaugeFamily("edgehub_waiting_bytes", "Bytes of messages held for the cloud.", labels=["class"])
    for kind, (number, total) in counters.waiting().items():
        messages.add_metric([kind], number)
        size.add_metric([kind], total)
    return [
        messages,
        size,
        counter("edgehub_outbox_writes", "Flushes of the outbox.", counters.outbox_writes),
        counter("edgehub_outbox_failures", "Failures to open or write the outbox.", counters.outbox_failures),
        counter("edgehub_outbox_restored", "Messages of an earlier run found in the outbox.", counters.outbox_restored),
    ]
