"""The metrics of cloudcore in Prometheus' text format. No label names a node or a pod, so their number is bounded."""

from collections.abc import Iterator

from beehive.exposition import (
    MetricFamily,
    counter,
    counters_by,
    counters_with,
    gauge,
    gauges_by,
    histograms_by,
    text_of,
)
from beehive.hive import Hive
from beehive.metrics import hive_metrics
from modules.cloud.client.counters import NO_RESPONSE, ApiCounters
from modules.cloud.client.lane_calls import RequestLane
from modules.cloud.cloudhub.counters import CloudHubCounters
from modules.cloud.edgecontroller.state.node_states import NodeStateCounters
from modules.cloud.fleet_counts import FleetCounts
from modules.cloud.storage.database.meter import TransactionMeter
from modules.processes.cloudcore.counters import Counters
from modules.processes.common.process_metrics import process_metrics


def exposition(hive: Hive, counters: Counters) -> str:
    """Return all metrics in Prometheus' text format."""
    now = hive.clock.monotonic()
    return text_of(
        (
            *hive_metrics(hive),
            *process_metrics("cloudcore"),
            *_cloud_metrics(counters),
            *_fleet(counters.fleet),
            *_sessions(counters.cloudhub, now),
            *_messages(counters.cloudhub),
            *_requests(counters.api),
            *_watches(counters.api, now),
            *_transactions(counters.meters),
            *_node_states(counters.node_states),
            *_work(counters),
        )
    )


def _cloud_metrics(counters: Counters) -> Iterator[MetricFamily]:
    """Yield the refused requests of nodes, the live cloudcores, the cloud's name and the events of the audit log."""
    labels, refusals = ("reason", "kind"), counters.refusals.counts.copy()
    yield counters_with(labels, "cloudcore_refused_requests", "Requests of nodes that were refused.", refusals)
    alive = len(counters.known.alive)
    yield gauge("cloudcore_alive_cloudcores", "Cloudcores that renew their Leases, this one included.", alive)
    yield gauges_by("cloud", "cloudcore_cloud_info", "Name of the cloud; always 1.", {counters.cloud: 1})
    log = counters.audit
    events = {"written": 0, "dropped": 0} if log is None else {"written": log.written, "dropped": log.dropped}
    yield counters_by("outcome", "cloudcore_audit_events", "Events of the audit log.", events)


def _fleet(counts: FleetCounts | None) -> Iterator[MetricFamily]:
    """Yield nodes, pods and devices that need attention, of the embedded API server alone."""
    if counts is None:
        return
    text = "Nodes that are not cordoned, by the status of their condition Ready."
    yield gauges_by("ready", "cloudcore_nodes", text, counts.nodes())
    text = "Pods that are to run, and have not run for five minutes."
    yield gauge("cloudcore_pods_not_running", text, counts.pods_not_running())
    text = "Devices by the state that their nodes have reported."
    yield gauges_by("state", "cloudcore_devices", text, counts.devices())


def _sessions(counters: CloudHubCounters, now: float) -> Iterator[MetricFamily]:
    """Yield the messages on their way to the connected nodes."""
    sessions = list(counters.sessions.values())
    waiting, sent = sum(each.waiting for each in sessions), sum(each.unacknowledged for each in sessions)
    times = [time for each in sessions if (time := each.oldest_unacknowledged()) is not None]
    age = max(0.0, now - min(times, default=now))
    yield gauge("cloudcore_connected_nodes", "Nodes that are connected to this cloudcore.", len(sessions))
    yield gauge("cloudcore_waiting_messages", "Messages that were not sent to their connected nodes yet.", waiting)
    yield gauge("cloudcore_unacknowledged_messages", "Messages sent and not acknowledged by their nodes.", sent)
    yield gauge(
        "cloudcore_oldest_unacknowledged_seconds", "Time since the oldest unacknowledged message was first sent.", age
    )


def _messages(counters: CloudHubCounters) -> Iterator[MetricFamily]:
    """Yield the messages sent again and dropped, and the refusals."""
    text = "Messages sent again for want of an acknowledgement."
    yield counter("cloudcore_resent_messages", text, counters.resent)
    text = "Messages that cloudhub dropped."
    yield counters_by("reason", "cloudcore_dropped_messages", text, counters.dropped)
    text = "Frames of nodes that are not messages."
    yield counters_by("reason", "cloudcore_rejected_frames", text, counters.rejected_frames)
    text = "Connections refused in the handshake."
    yield counters_by("reason", "cloudcore_refused_connections", text, counters.refused_connections)
    answers = {str(int(status)): count for status, count in counters.certificate_responses().items()}
    text = "Responses of the HTTPS server for certificates."
    yield counters_by("code", "cloudcore_certificate_responses", text, answers)


def _requests(counters: ApiCounters) -> Iterator[MetricFamily]:
    """Yield edgecontroller's requests to the API server."""
    statuses = {
        (_name(lane), "none" if status == NO_RESPONSE else str(int(status))): count
        for (lane, status), count in counters.statuses.copy().items()
    }
    text = 'Requests to the API server by status code; "none" without a response.'
    yield counters_with(("lane", "code"), "cloudcore_api_requests", text, statuses)
    durations = {_name(lane): each for lane, each in counters.durations.items()}
    text = "Time from the sending of a request to the end of its response."
    yield histograms_by("lane", "cloudcore_api_request_duration_seconds", text, durations)
    waits = {_name(lane): each for lane, each in counters.waits.items()}
    text = "Time from the making of a request to its first sending."
    yield histograms_by("lane", "cloudcore_api_request_wait_seconds", text, waits)
    text = "Time from the taking of a node's request or report to its response."
    yield histograms_by("type", "cloudcore_node_request_duration_seconds", text, counters.node_requests)
    waiting = {_name(lane): counters.depths[lane].waiting for lane in RequestLane}
    yield gauges_by("lane", "cloudcore_api_waiting_requests", "Requests waiting in their lane.", waiting)
    in_flight = {_name(lane): counters.depths[lane].in_flight for lane in RequestLane}
    yield gauges_by("lane", "cloudcore_api_requests_in_flight", "Requests sent, without an end.", in_flight)


def _watches(counters: ApiCounters, now: float) -> Iterator[MetricFamily]:
    watches = counters.watches.copy()
    ages = {kind: max(0.0, now - each.heard_at) for kind, each in watches.items() if each.heard_at}
    text = "Time since the API server has told of an object of the kind, a bookmark or a list."
    yield gauges_by("kind", "cloudcore_watch_age_seconds", text, ages)
    lists = {kind: each.lists for kind, each in watches.items()}
    yield counters_by("kind", "cloudcore_lists", "Complete lists of a kind, the first one included.", lists)
    failures = {kind: each.failures for kind, each in watches.items()}
    text = "Lists and watches of a kind that failed and were repeated."
    yield counters_by("kind", "cloudcore_watch_failures", text, failures)


def _transactions(meters: dict[str, TransactionMeter]) -> Iterator[MetricFamily]:
    """Yield the durations of transactions, and the failures of the database, by module."""
    waits = {module: each.waits for module, each in meters.copy().items()}
    text = "Time that a transaction waited for its turn."
    yield histograms_by("module", "cloudcore_database_wait_seconds", text, waits)
    durations = {module: each.transactions for module, each in meters.copy().items()}
    text = "Duration of a transaction, from its turn on."
    yield histograms_by("module", "cloudcore_database_transaction_seconds", text, durations)
    failures = {module: each.failures for module, each in meters.copy().items()}
    text = "Attempts to use the database that failed."
    yield counters_by("module", "cloudcore_database_failures", text, failures)


def _node_states(counters: NodeStateCounters) -> Iterator[MetricFamily]:
    """Yield the writes of NodeStates (`--state cluster`)."""
    yield counter("cloudcore_node_state_writes", "NodeStates written.", counters.writes)
    text = "Writes of NodeStates that failed."
    yield counter("cloudcore_node_state_write_failures", text, counters.failures)
    text = "Objects of nodes that do not fit into their NodeStates."
    yield gauge("cloudcore_node_state_left_out_objects", text, sum(list(counters.left_out.values())))


def _work(counters: Counters) -> Iterator[MetricFamily]:
    """Yield the work of the controllers, with the names of Kubernetes' work queues, and the reconcilers' failures."""
    meter, durations = counters.work, {kind.lower(): each for kind, each in counters.work.syncs.copy().items()}
    depths = {kind.lower(): meter.depths.get(kind, 0) for kind in meter.syncs.copy()}
    yield gauges_by("name", "workqueue_depth", "Objects that a controller has still to look at.", depths)
    retries = {kind.lower(): meter.retries[kind] for kind in meter.syncs.copy()}
    text = "Looks at an object that failed, or whose writes were refused."
    yield counters_by("name", "workqueue_retries", text, retries)
    text = "Time from the look at an object to the end of the writes that follow."
    yield histograms_by("name", "workqueue_work_duration_seconds", text, durations)
    text = "Times that a part of the embedded API server failed."
    yield counters_by("name", "cloudcore_reconciler_failures", text, counters.reconcilers)


def _name(lane: RequestLane) -> str:
    return lane.name.lower()
