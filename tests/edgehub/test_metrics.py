"""The counters as Prometheus reads them."""

from functools import partial

import msgspec

from beehive import Message, Route
from beehive.exposition import CollectorRegistry
from edgehub.counters import LinkCounters, Refusal, Rejection
from edgehub.metrics import link_metrics
from edgehub.settings import MEBIBYTE, Limit, Limits


def test_every_counter_is_exported_under_its_reason() -> None:
    """Names and labels are what dashboards are made of."""
    counters, registry = LinkCounters(lambda: {"state": (8, 900)}), CollectorRegistry()
    registry.register(partial(link_metrics, counters))
    counters.connected = True
    counters.connections, counters.received, counters.received_bytes = 2, 3, 400
    counters.sent, counters.confirmed, counters.late = 5, 4, 1
    counters.ends["dial"] += 7
    counters.rejected[Rejection.TOO_LARGE] += 1
    counters.refused[Refusal.NO_ROOM] += 6
    for resource in ("kube-node-lease/lease/n", "kube-node-lease/lease/m", "a/b/c/d", "node"):
        counters.count("sent", Message(route=Route(operation="update", resource=resource)), 50)
    counters.count("received", Message(route=Route(operation="nonsense", resource="default/pod/p")), 7)
    counters.outbox_writes, counters.outbox_failures, counters.outbox_restored = 10, 11, 12
    lines = registry.text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "edgehub_connected 1.0",
        "edgehub_connections_total 2.0",
        'edgehub_link_ends_total{reason="dial"} 7.0',
        "edgehub_received_messages_total 3.0",
        "edgehub_received_bytes_total 400.0",
        'edgehub_rejected_messages_total{reason="too large"} 1.0',
        "edgehub_late_answers_total 1.0",
        "edgehub_sent_messages_total 5.0",
        "edgehub_confirmed_messages_total 4.0",
        'edgehub_refused_messages_total{reason="no room"} 6.0',
        'edgehub_payload_bytes_total{direction="sent",operation="update",type="lease"} 100.0',
        'edgehub_payload_bytes_total{direction="sent",operation="update",type="other"} 50.0',
        'edgehub_payload_bytes_total{direction="sent",operation="update",type="node"} 50.0',
        'edgehub_payload_bytes_total{direction="received",operation="other",type="pod"} 7.0',
        'edgehub_waiting_messages{class="state"} 8.0',
        'edgehub_waiting_bytes{class="state"} 900.0',
        "edgehub_outbox_writes_total 10.0",
        "edgehub_outbox_failures_total 11.0",
        "edgehub_outbox_restored_total 12.0",
    ]


def test_all_counts_begin_at_zero() -> None:
    registry = CollectorRegistry()
    registry.register(partial(link_metrics, LinkCounters()))
    found = {line.rpartition(" ")[2] for line in registry.text().splitlines() if not line.startswith("#")}
    assert found == {"0.0"}


def test_the_usual_limits_hold_two_mebibytes_of_each_class() -> None:
    limits: tuple[Limit, ...] = msgspec.structs.astuple(Limits())
    assert min(limit.size for limit in limits) == 2 * MEBIBYTE
    assert min(limit.messages for limit in limits) == 64
