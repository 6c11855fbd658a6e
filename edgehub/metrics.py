"""The link's counters for Prometheus."""

from beehive.exposition import (
    GaugeFamily,
    MetricFamily,
    counter,
    counters_by,
    counters_with,
    gauge,
    gauges_by,
)
from edgehub.counters import LinkCounters


def link_metrics(counters: LinkCounters) -> list[MetricFamily]:
    """Return the present counters, as `edgehub.install` returned them."""
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
        counters_with(
            ("direction", "operation", "type"),
            "edgehub_payload_bytes",
            "Bytes of messages, by operation and type.",
            counters.payload,
        ),
        *_outbox(counters),
    ]


def _outbox(counters: LinkCounters) -> list[MetricFamily]:
    waiting = counters.waiting()
    numbers = {kind: number for kind, (number, _) in waiting.items()}
    sizes = {kind: size for kind, (_, size) in waiting.items()}
    return [
        gauges_by("class", "edgehub_waiting_messages", "Messages held for the cloud.", numbers),
        gauges_by("class", "edgehub_waiting_bytes", "Bytes of messages held for the cloud.", sizes),
        counter("edgehub_outbox_writes", "Flushes of the outbox.", counters.outbox_writes),
        counter("edgehub_outbox_failures", "Failures to open or write the outbox.", counters.outbox_failures),
        counter("edgehub_outbox_restored", "Messages of an earlier run found in the outbox.", counters.outbox_restored),
    ]
