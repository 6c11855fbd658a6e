"""Prometheus metrics of the bus: a tap that counts deliveries, and the metrics of the state of a hive."""

import threading
from bisect import bisect_left

from beehive.cache import are_short
from beehive.delivery import DeliveryRecord, DropReason, Outcome
from beehive.exposition import (
    CollectorRegistry,
    Histogram,
    MetricFamily,
    counters_by,
    counters_with,
    gauge,
    gauges_by,
    histograms_by,
)
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


class _Cell:
    """A counter of messages that have all labels in common, and the histograms of their module."""

    __slots__ = ("count", "handling", "waiting")

    def __init__(self, handling: Histogram, waiting: Histogram) -> None:
        self.count = 0
        self.handling = handling
        self.waiting = waiting


class BusMetrics:
    """A tap that counts deliveries and their times: `Hive(runtime, taps=(BusMetrics(registry),))`.

    It is called for every message, so it only adds to numbers of its own under one lock. Metric families are made when
    they are collected.
    Labels are bounded: operation, resource type and source come from outside, so an unknown name counts as `other`.

    Args:
        registry: collects the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lock = threading.Lock()
        self._cells: dict[tuple[str, ...], _Cell] = {}
        self._found: dict[tuple[str, ...], _Cell] = {}
        self._drops: dict[tuple[str, str], int] = {}
        self._histograms: dict[str, tuple[Histogram, Histogram]] = {}
        registry.register(self.collect)

    def delivered(self, record: DeliveryRecord) -> None:
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

    def collect(self) -> list[MetricFamily]:
        """Return the metric families with their present values."""
        labels = ("source", "module", "type", "operation", "outcome")
        with self._lock:
            counts = {values: cell.count for values, cell in self._cells.items()}
            handled = {module: handling for module, (handling, _) in self._histograms.items()}
            waited = {module: waiting for module, (_, waiting) in self._histograms.items()}
            return [
                counters_with(labels, "beehive_messages", "Messages by route and outcome.", counts),
                counters_with(("module", "reason"), "beehive_drops", "Messages not handled.", self._drops),
                histograms_by("module", "beehive_handling_seconds", "Time in the handler.", handled),
                histograms_by("module", "beehive_waiting_seconds", "Time in the inbox.", waited),
            ]

    def _find(self, record: DeliveryRecord, key: tuple[str, ...]) -> _Cell:
        """Return the cell of a record. Resources have names, so the cache of lookups is bounded."""
        labels = self._labels(record)
        cell = self._cells.get(labels)
        if cell is None:
            cell = self._cells[labels] = _Cell(*self._histograms_of(record))
        if are_short(*key):
            if len(self._found) >= _CACHE_LIMIT:
                self._found.clear()
            self._found[key] = cell
        return cell

    def _labels(self, record: DeliveryRecord) -> tuple[str, ...]:
        route = record.message.route
        kind = type_of(route.resource, Side.EDGE)
        return (
            route.source if route.source in _SOURCES else _OTHER,
            _module(record),
            kind if kind in _TYPES else _OTHER,
            route.operation if route.operation in _OPERATIONS else _OTHER,
            record.outcome.value,
        )

    def _histograms_of(self, record: DeliveryRecord) -> tuple[Histogram, Histogram]:
        if not record.module:
            return Histogram(BUCKETS), Histogram(BUCKETS)
        return self._histograms.setdefault(record.module, (Histogram(BUCKETS), Histogram(BUCKETS)))


def _module(record: DeliveryRecord) -> str:
    """Return the label of the receiving module; a name that no module has may come from outside."""
    return _OTHER if record.reason in _NOWHERE else record.module


def hive_metrics(hive: Hive) -> list[MetricFamily]:
    """Return the state of a hive: queue depths, readiness, restarts, unmatched answers, open requests."""
    ready = {module: float(each.state is State.READY) for module, each in hive.readiness().items()}
    requests = hive.pending_requests
    unmatched = requests.unmatched
    return [
        gauges_by("module", "beehive_queue_depth", "Items waiting in a module's inbox.", hive.depths()),
        gauges_by("module", "beehive_module_ready", "1 when the module is ready.", ready),
        counters_by("module", "beehive_module_restarts", "Restarts after a failure.", hive.restarts()),
        counters_by("reason", "beehive_unmatched_answers", "Answers nobody waits for.", unmatched),
        gauge("beehive_open_requests", "Requests waiting for an answer.", len(requests)),
    ]
