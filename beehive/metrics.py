"""Prometheus metrics of the bus: one tap, and what is read off the hive when somebody asks.

Nothing in the bus knows of it. The tap is called for every message, so it does no more than add to numbers of its own
under one lock; the client library's counters and histograms cost more than the whole rest of a delivery. They are made
into its metric families when they are collected. Labels are bounded: operation, resource type and source of a message
come from outside, so what is not a known name counts as `other`.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from beehive.cache import are_short
from beehive.delivery import DropReason, Outcome, Record
from beehive.hive import Hive
from beehive.names import ModuleName, Operation, ResourceType, Source
from beehive.resource import Side, type_of
from beehive.slot import State

BUCKETS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)
"""Upper bounds of the histograms, in seconds."""

_OPERATIONS = frozenset(Operation)
_TYPES = frozenset(ResourceType)
_SOURCES = frozenset(ModuleName) | frozenset(Source)
_SHORT = BUCKETS[0]
_OTHER = "other"
_HANDLED = Outcome.HANDLED
_NOWHERE = frozenset({DropReason.NO_MODULE, DropReason.NO_GROUP})
_CACHE_LIMIT = 1024


class _Histogram:
    """Counts by bucket, the last for what is above all bounds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulated, as the exposition wants them."""
        bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
        return [(bound, float(count)) for bound, count in zip(bounds, accumulate(self.counts), strict=True)]


class _Cell:
    """A counter of messages that have all labels in common, and the histograms of their module."""

    __slots__ = ("count", "handling", "waiting")

    def __init__(self, handling: _Histogram, waiting: _Histogram) -> None:
        self.count = 0
        self.handling = handling
        self.waiting = waiting


class BusMetrics(Collector):
    """A tap that counts; put it among a hive's taps.

    Args:
        registry: where the metrics are collected.
        side: whose resource strings the hive carries.
    """

    def __init__(self, registry: CollectorRegistry, side: Side = Side.EDGE) -> None:
        self._side = side
        self._lock = threading.Lock()
        self._cells: dict[tuple[str, ...], _Cell] = {}
        self._found: dict[tuple[str, ...], _Cell] = {}
        self._drops: dict[tuple[str, str], int] = {}
        self._histograms: dict[str, tuple[_Histogram, _Histogram]] = {}
        registry.register(self)

    def delivered(self, record: Record) -> None:
        """Count one delivery."""
        route = record.message.route
        key = (route.source, route.resource, route.operation, record.module, record.outcome)
        with self._lock:
            cell = self._found.get(key) or self._find(record, key)
            cell.count += 1
            if record.outcome is _HANDLED:
                histogram, seconds = cell.handling, record.handled
                histogram.counts[0 if seconds <= _SHORT else bisect_left(BUCKETS, seconds)] += 1
                histogram.total += seconds
                histogram, seconds = cell.waiting, record.waited
                histogram.counts[0 if seconds <= _SHORT else bisect_left(BUCKETS, seconds)] += 1
                histogram.total += seconds
            if record.reason is not None:
                drop = (_module(record), record.reason.value)
                self._drops[drop] = self._drops.get(drop, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """The metric families of this moment."""
        labels = ("source", "module", "type", "operation", "outcome")
        messages = CounterMetricFamily("beehive_messages", "Messages by route and outcome.", labels=labels)
        drops = CounterMetricFamily("beehive_drops", "Messages not handled.", labels=("module", "reason"))
        handling = HistogramMetricFamily("beehive_handling_seconds", "Time in the handler.", labels=("module",))
        waiting = HistogramMetricFamily("beehive_waiting_seconds", "Time in the inbox.", labels=("module",))
        with self._lock:
            for values, cell in self._cells.items():
                messages.add_metric(values, cell.count)
            for values, count in self._drops.items():
                drops.add_metric(values, count)
            for module, (handled, waited) in self._histograms.items():
                handling.add_metric([module], handled.buckets(), handled.total)
                waiting.add_metric([module], waited.buckets(), waited.total)
        yield from (messages, drops, handling, waiting)

    def _find(self, record: Record, key: tuple[str, ...]) -> _Cell:
        """The cell of a record; resources have names, so what was looked up is remembered only up to a limit."""
        labels = self._labels(record)
        cell = self._cells.get(labels)
        if cell is None:
            cell = self._cells[labels] = _Cell(*self._histograms_of(record))
        if are_short(*key):
            if len(self._found) >= _CACHE_LIMIT:
                self._found.clear()
            self._found[key] = cell
        return cell

    def _labels(self, record: Record) -> tuple[str, ...]:
        route = record.message.route
        kind = type_of(route.resource, self._side)
        return (
            route.source if route.source in _SOURCES else _OTHER,
            _module(record),
            kind if kind in _TYPES else _OTHER,
            route.operation if route.operation in _OPERATIONS else _OTHER,
            record.outcome.value,
        )

    def _histograms_of(self, record: Record) -> tuple[_Histogram, _Histogram]:
        if not record.module:
            return _Histogram(), _Histogram()
        return self._histograms.setdefault(record.module, (_Histogram(), _Histogram()))


def _module(record: Record) -> str:
    """Whom the message was for; a name that no module has may come from outside as well."""
    return _OTHER if record.reason in _NOWHERE else record.module


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
        for reason, count in list(self._hive.waiters.unmatched.items()):
            unmatched.add_metric([reason.value], count)
        requests.add_metric([], len(self._hive.waiters))
        return [depth, ready, restarts, unmatched, requests]
