"""The metrics of cloudcore in Prometheus' text format. No label names a node or a pod, so their number is bounded."""

from collections import Counter

from beehive.exposition import (
    Collector,
    CollectorRegistry,
    CounterFamily,
    GaugeFamily,
    HistogramFamily,
    MetricFamily,
)
from beehive.hive import Hive
from beehive.metrics import HiveCollector
from modules.cloud.audit.log_file import AuditLog
from modules.cloud.client.counters import NO_RESPONSE, ApiCounters
from modules.cloud.client.lane_calls import RequestLane
from modules.cloud.cloudhub.counters import CloudHubCounters
from modules.cloud.controllers.work_meter import WorkMeter
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.edgecontroller.state.node_states import NodeStateCounters
from modules.cloud.refusals import Refusals
from modules.cloud.storage.database.meter import TransactionMeter
from modules.processes.cloudcore.counters import Counters
from modules.processes.common.process_metrics import ProcessCollector


class RefusalCollector(Collector):
    """The collector of the refused requests of nodes, by reason and kind of object.

    Args:
        refusals: the counters.
    """

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals

    def collect(self) -> list[MetricFamily]:
        """Return the present counters."""
        labels = ("reason", "kind")
        refused = CounterFamily("cloudcore_refused_requests", "Requests of nodes that were refused.", labels=labels)
        for values, count in self._refusals.counts.copy().items():
            refused.add_metric(values, count)
        return [refused]


class AuditCollector(Collector):
    """The collector of the numbers of events of the audit log.

    Args:
        log: the audit log; None: there is none.
    """

    def __init__(self, log: AuditLog | None) -> None:
        self._log = log

    def collect(self) -> list[MetricFamily]:
        """Return the present numbers."""
        log = self._log
        events = CounterFamily("cloudcore_audit_events", "Events of the audit log.", labels=("outcome",))
        events.add_metric(("written",), log.written if log is not None else 0)
        events.add_metric(("dropped",), log.dropped if log is not None else 0)
        return [events]


class CloudcoresCollector(Collector):
    """The collector of the cloud's name, and of the number of live cloudcores.

    Args:
        known: the live cloudcores.
        cloud: name of the cloud; "" without one.
    """

    def __init__(self, known: KnownCloudcores, cloud: str) -> None:
        self._known = known
        self._cloud = cloud

    def collect(self) -> list[MetricFamily]:
        """Return the present number."""
        alive = GaugeFamily("cloudcore_alive_cloudcores", "Cloudcores that renew their Leases, this one included.")
        alive.add_metric((), len(self._known.alive))
        info = GaugeFamily("cloudcore_cloud_info", "Name of the cloud; always 1.", labels=("cloud",))
        info.add_metric((self._cloud,), 1)
        return [alive, info]


class CloudHubCollector(Collector):
    """The collector of the messages on their way to the connected nodes, and of the refusals.

    Args:
        counters: of cloudhub.
        now: monotonic seconds.
    """

    def __init__(self, counters: CloudHubCounters, now: float) -> None:
        self._counters = counters
        self._now = now

    def collect(self) -> list[MetricFamily]:
        """Return the present counters, and the present state of all sessions."""
        return [*self._sessions(), *self._messages(), *self._refused()]

    def _sessions(self) -> list[MetricFamily]:
        connected = GaugeFamily("cloudcore_connected_nodes", "Nodes that are connected to this cloudcore.")
        waiting = GaugeFamily("cloudcore_waiting_messages", "Messages that were not sent to their connected nodes yet.")
        sent = GaugeFamily("cloudcore_unacknowledged_messages", "Messages sent and not acknowledged by their nodes.")
        oldest = GaugeFamily(
            "cloudcore_oldest_unacknowledged_seconds", "Time since the oldest unacknowledged message was first sent."
        )
        sessions = list(self._counters.sessions.values())
        times = [time for each in sessions if (time := each.oldest_unacknowledged()) is not None]
        connected.add_metric((), len(sessions))
        waiting.add_metric((), sum(each.waiting for each in sessions))
        sent.add_metric((), sum(each.unacknowledged for each in sessions))
        oldest.add_metric((), max(0.0, self._now - min(times, default=self._now)))
        return [connected, waiting, sent, oldest]

    def _messages(self) -> list[MetricFamily]:
        resent = CounterFamily("cloudcore_resent_messages", "Messages sent again for want of an acknowledgement.")
        dropped = CounterFamily("cloudcore_dropped_messages", "Messages that cloudhub dropped.", labels=("reason",))
        resent.add_metric((), self._counters.resent)
        for reason, count in self._counters.dropped.copy().items():
            dropped.add_metric((reason,), count)
        return [resent, dropped]

    def _refused(self) -> list[MetricFamily]:
        rejected = CounterFamily(
            "cloudcore_rejected_frames", "Frames of nodes that are not messages.", labels=("reason",)
        )
        refused = CounterFamily(
            "cloudcore_refused_connections", "Connections refused in the handshake.", labels=("reason",)
        )
        answered = CounterFamily(
            "cloudcore_certificate_responses", "Responses of the HTTPS server for certificates.", labels=("code",)
        )
        for reason, count in self._counters.rejected_frames.copy().items():
            rejected.add_metric((reason,), count)
        for reason, count in self._counters.refused_connections.copy().items():
            refused.add_metric((reason,), count)
        for status, count in self._counters.certificate_responses().items():
            answered.add_metric((str(int(status)),), count)
        return [rejected, refused, answered]


class ApiCollector(Collector):
    """The collector of the requests to the API server, and of the state of the watches.

    Args:
        counters: of edgecontroller's requests.
        now: monotonic seconds.
    """

    def __init__(self, counters: ApiCounters, now: float) -> None:
        self._counters = counters
        self._now = now

    def collect(self) -> list[MetricFamily]:
        """Return the present counters."""
        return [*self._requests(), *self._lanes(), *self._watches()]

    def _requests(self) -> list[MetricFamily]:
        requests = CounterFamily(
            "cloudcore_api_requests",
            'Requests to the API server by status code; "none" without a response.',
            labels=("lane", "code"),
        )
        duration = HistogramFamily(
            "cloudcore_api_request_duration_seconds",
            "Time from the sending of a request to the end of its response.",
            labels=("lane",),
        )
        wait = HistogramFamily(
            "cloudcore_api_request_wait_seconds",
            "Time from the making of a request to its first sending.",
            labels=("lane",),
        )
        handling = HistogramFamily(
            "cloudcore_node_request_duration_seconds",
            "Time from the taking of a node's request or report to its response.",
            labels=("type",),
        )
        for (lane, status), count in self._counters.statuses.copy().items():
            requests.add_metric((_name(lane), "none" if status == NO_RESPONSE else str(int(status))), count)
        for lane, durations in self._counters.durations.items():
            duration.add_metric((_name(lane),), durations.buckets(), durations.total)
        for lane, durations in self._counters.waits.items():
            wait.add_metric((_name(lane),), durations.buckets(), durations.total)
        for resource_type, durations in self._counters.node_requests.copy().items():
            handling.add_metric((resource_type,), durations.buckets(), durations.total)
        return [requests, duration, wait, handling]

    def _lanes(self) -> list[MetricFamily]:
        waiting = GaugeFamily("cloudcore_api_waiting_requests", "Requests waiting in their lane.", labels=("lane",))
        in_flight = GaugeFamily("cloudcore_api_requests_in_flight", "Requests sent, without an end.", labels=("lane",))
        for lane in RequestLane:
            depth = self._counters.depths[lane]
            waiting.add_metric((_name(lane),), depth.waiting)
            in_flight.add_metric((_name(lane),), depth.in_flight)
        return [waiting, in_flight]

    def _watches(self) -> list[MetricFamily]:
        age = GaugeFamily(
            "cloudcore_watch_age_seconds",
            "Time since the API server has told of an object of the kind, a bookmark or a list.",
            labels=("kind",),
        )
        lists = CounterFamily("cloudcore_lists", "Complete lists of a kind, the first one included.", labels=("kind",))
        failures = CounterFamily(
            "cloudcore_watch_failures", "Lists and watches of a kind that failed and were repeated.", labels=("kind",)
        )
        for kind, counters in self._counters.watches.copy().items():
            if counters.heard_at:
                age.add_metric((kind,), max(0.0, self._now - counters.heard_at))
            lists.add_metric((kind,), counters.lists)
            failures.add_metric((kind,), counters.failures)
        return [age, lists, failures]


class DatabaseCollector(Collector):
    """The collector of the durations of transactions, and of the failures of the database, by module.

    Args:
        meters: of the transactions, by module.
    """

    def __init__(self, meters: dict[str, TransactionMeter]) -> None:
        self._meters = meters

    def collect(self) -> list[MetricFamily]:
        """Return the present counters."""
        labels = ("module",)
        wait = HistogramFamily(
            "cloudcore_database_wait_seconds", "Time that a transaction waited for its turn.", labels=labels
        )
        duration = HistogramFamily(
            "cloudcore_database_transaction_seconds", "Duration of a transaction, from its turn on.", labels=labels
        )
        failures = CounterFamily(
            "cloudcore_database_failures", "Attempts to use the database that failed.", labels=labels
        )
        for module, meter in self._meters.copy().items():
            wait.add_metric((module,), meter.waits.buckets(), meter.waits.total)
            duration.add_metric((module,), meter.transactions.buckets(), meter.transactions.total)
            failures.add_metric((module,), meter.failures)
        return [wait, duration, failures]


class NodeStateCollector(Collector):
    """The collector of the writes of NodeStates (`--state cluster`).

    Args:
        counters: of edgecontroller.
    """

    def __init__(self, counters: NodeStateCounters) -> None:
        self._counters = counters

    def collect(self) -> list[MetricFamily]:
        """Return the present counters."""
        writes = CounterFamily("cloudcore_node_state_writes", "NodeStates written.")
        failures = CounterFamily("cloudcore_node_state_write_failures", "Writes of NodeStates that failed.")
        left_out = GaugeFamily(
            "cloudcore_node_state_left_out_objects", "Objects of nodes that do not fit into their NodeStates."
        )
        writes.add_metric((), self._counters.writes)
        failures.add_metric((), self._counters.failures)
        left_out.add_metric((), sum(list(self._counters.left_out.values())))
        return [writes, failures, left_out]


class WorkCollector(Collector):
    """The collector of the work of the controllers, with the names of Kubernetes' work queues.

    Args:
        meter: of the controllers.
        failures: of the API server's reconcilers, by name.
    """

    def __init__(self, meter: WorkMeter, failures: Counter[str]) -> None:
        self._meter = meter
        self._failures = failures

    def collect(self) -> list[MetricFamily]:
        """Return the present counters."""
        labels = ("name",)
        depth = GaugeFamily("workqueue_depth", "Objects that a controller has still to look at.", labels=labels)
        retries = CounterFamily(
            "workqueue_retries", "Looks at an object that failed, or whose writes were refused.", labels=labels
        )
        work = HistogramFamily(
            "workqueue_work_duration_seconds",
            "Time from the look at an object to the end of the writes that follow.",
            labels=labels,
        )
        depths = self._meter.depths
        for kind, durations in self._meter.syncs.copy().items():
            name = kind.lower()
            depth.add_metric((name,), depths.get(kind, 0))
            retries.add_metric((name,), self._meter.retries[kind])
            work.add_metric((name,), durations.buckets(), durations.total)
        failures = CounterFamily(
            "cloudcore_reconciler_failures", "Times that a part of the embedded API server failed.", labels=labels
        )
        for name, count in self._failures.copy().items():
            failures.add_metric((name,), count)
        return [depth, retries, work, failures]


def exposition(hive: Hive, counters: Counters) -> str:
    """Return all metrics in Prometheus' text format."""
    now = hive.clock.monotonic()
    registry = CollectorRegistry()
    registry.register(HiveCollector(hive))
    registry.register(ProcessCollector("cloudcore"))
    registry.register(RefusalCollector(counters.refusals))
    registry.register(CloudcoresCollector(counters.known, counters.cloud))
    registry.register(AuditCollector(counters.audit))
    registry.register(CloudHubCollector(counters.cloudhub, now))
    registry.register(ApiCollector(counters.api, now))
    registry.register(DatabaseCollector(counters.meters))
    registry.register(NodeStateCollector(counters.node_states))
    registry.register(WorkCollector(counters.work, counters.reconcilers))
    return registry.text()


def _name(lane: RequestLane) -> str:
    return lane.name.lower()
