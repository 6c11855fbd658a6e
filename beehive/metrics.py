"""Prometheus metrics of the bus, as one tap; nothing in the bus knows of it.

Label children are kept, because looking them up costs more than counting. The labels are bounded: the operation and
the resource type of a message come from outside, so what is not a known name counts as `other`.
"""

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from beehive.delivery import Outcome, Record
from beehive.hive import Hive
from beehive.names import ModuleName, Operation, ResourceType, Source
from beehive.resource import Side, type_of
from beehive.slot import State

_BUCKETS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)
_OPERATIONS = frozenset(Operation)
_TYPES = frozenset(ResourceType)
_SOURCES = frozenset(ModuleName) | frozenset(Source)
_OTHER = "other"


class BusMetrics:
    """A tap that counts; register it with `hive.taps.append`.

    Args:
        registry: where the metrics are collected.
        side: whose resource strings the hive carries.
    """

    def __init__(self, registry: CollectorRegistry, side: Side = Side.EDGE) -> None:
        self._side = side
        self._messages = Counter(
            "beehive_messages", "Messages by route and outcome.",
            ("source", "module", "type", "operation", "outcome"), registry=registry,
        )  # fmt: skip
        self._drops = Counter("beehive_drops", "Messages not handled.", ("module", "reason"), registry=registry)
        self._handling = Histogram(
            "beehive_handling_seconds", "Time in the handler.", ("module",), buckets=_BUCKETS, registry=registry
        )
        self._waiting = Histogram(
            "beehive_waiting_seconds", "Time in the inbox.", ("module",), buckets=_BUCKETS, registry=registry
        )
        self._children: dict[tuple[str, ...], Counter] = {}
        self._by_module: dict[str, tuple[Histogram, Histogram]] = {}

    def delivered(self, record: Record) -> None:
        """Count one delivery."""
        self._child(record).inc()
        if record.reason is not None:
            self._drops.labels(record.module, record.reason.value).inc()
        if record.outcome is Outcome.HANDLED and record.module:
            handling, waiting = self._histograms(record.module)
            handling.observe(record.handled)
            waiting.observe(record.waited)

    def _child(self, record: Record) -> Counter:
        route = record.message.route
        key = (
            route.source if route.source in _SOURCES else _OTHER,
            record.module,
            kind if (kind := type_of(route.resource, self._side)) in _TYPES else _OTHER,
            route.operation if route.operation in _OPERATIONS else _OTHER,
            record.outcome.value,
        )
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._messages.labels(*key)
        return child

    def _histograms(self, module: str) -> tuple[Histogram, Histogram]:
        pair = self._by_module.get(module)
        if pair is None:
            pair = self._by_module[module] = (self._handling.labels(module), self._waiting.labels(module))
        return pair


class HiveCollector(Collector):
    """What is read off a hive when somebody asks: queue depths, restarts, readiness, open requests."""

    def __init__(self, hive: Hive) -> None:
        self._hive = hive

    def collect(self) -> list[Metric]:
        """The gauges and counters of this moment."""
        depth = GaugeMetricFamily("beehive_queue_depth", "Items waiting in a module's inbox.", labels=["module"])
        ready = GaugeMetricFamily("beehive_module_ready", "1 when the module is ready.", labels=["module"])
        restarts = CounterMetricFamily("beehive_module_restarts", "Restarts after a failure.", labels=["module"])
        unmatched = CounterMetricFamily("beehive_unmatched_answers", "Answers nobody waits for.", labels=["reason"])
        requests = GaugeMetricFamily("beehive_open_requests", "Requests waiting for an answer.")
        for module, count in self._hive.depths().items():
            depth.add_metric([module], count)
        for module, readiness in self._hive.readiness().items():
            ready.add_metric([module], float(readiness.state is State.READY))
        for module, count in self._hive.restarts().items():
            restarts.add_metric([module], count)
        for reason, count in self._hive.waiters.unmatched.items():
            unmatched.add_metric([reason.value], count)
        requests.add_metric([], len(self._hive.waiters))
        return [depth, ready, restarts, unmatched, requests]
