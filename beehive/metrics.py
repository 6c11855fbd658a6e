"""Prometheus metrics of the bus: a tap that counts deliveries, and a collector that reads the state of a hive."""

import threading
from bisect import bisect_left
from collections.abc import Iterator

from beehive.cache import are_short
from beehive.delivery import DeliveryRecord, DropReason, Outcome
from beehive.exposition import (
    Collector,
    CollectorRegistry,
    CounterFamily,
    GaugeFamily,
    Histogram,
    HistogramFamily,
    MetricFamily,
    gauge,
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


class BusMetrics(Collector):
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
        registry.register(self)

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

    def collect(self) -> Iterator[MetricFamily]:
        """Yield the metric families with their present values."""
        labels = ("source", "module", "type", "operation", "outcome")
        messages = CounterFamily("beehive_messages", "Messages by route and outcome.", labels=labels)
        drops = CounterFamily("beehive_drops", "Messages not handled.", labels=("module", "reason"))
        handling = HistogramFamily("beehive_handling_seconds", "Time in the handler.", labels=("module",))
        waiting = HistogramFamily("beehive_waiting_seconds", "Time in the inbox.", labels=("module",))
        with self._lock:
            for values, cell in self._cells.items():
                messages.add_metric(values, cell.count)
            for values, count in self._drops.items():
                drops.add_metric(values, count)
            for module, (handled, waited) in self._histograms.items():
                handling.add_metric([module], handled.buckets(), handled.total)
                waiting.add_metric([module], waited.buckets(), waited.total)
        yield from (messages, drops, handling, waiting)

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


class HiveCollector(Collector):
    """The collector of the state of a hive: queue depths, readiness, restarts, unmatched answers, open requests."""

    def __init__(self, hive: Hive) -> None:
        self._hive = hive

    def collect(self) -> list[MetricFamily]:
        """Return the gauges and counters with their present values."""
        depth = GaugeFamily("beehive_queue_depth", "Items waiting in a module's inbox.", labels=["module"])
        ready = GaugeFamily("beehive_module_ready", "1 when the module is ready.", labels=["module"])
        restarts = CounterFamily("beehive_module_restarts", "Restarts after a failure.", labels=["module"])
        unmatched = CounterFamily("beehive_unmatched_answers", "Answers nobody waits for.", labels=["reason"])
        for module, count in self._hive.depths().items():
            depth.add_metric([module], count)
        for module, readiness in self._hive.readiness().items():
            ready.add_metric([module], float(readiness.state is State.READY))
        for module, count in self._hive.restarts().items():
            restarts.add_metric([module], count)
        for reason, count in self._hive.pending_requests.unmatched.copy().items():
            unmatched.add_metric([reason.value], count)
        requests = gauge("beehive_open_requests", "Requests waiting for an answer.", len(self._hive.pending_requests))
        return [depth, ready, restarts, unmatched, requests]
