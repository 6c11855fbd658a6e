"""Metric families, and the registry that writes them in Prometheus' text format, version 0.0.4.

The text equals prometheus_client's, byte for byte. That library loads an HTTP server
and WSGI, almost 3 MB of memory in every process.
"""

import math
from abc import ABC
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import ClassVar, TypeAlias, TypeVar

import msgspec

K = TypeVar("K", bound=str)
L = TypeVar("L", bound=tuple[str, ...])


class _Sample(msgspec.Struct, frozen=True):
    suffix: str
    values: Sequence[str]
    more: tuple[tuple[str, str], ...]
    """Labels of this sample alone: the bound of a bucket."""
    number: float


class MetricFamily(ABC):
    """A metric's name, help text and type, and one sample for each combination of label values.

    Names and help text are constants of the program. Label values may come from outside: they are escaped, and the
    collector bounds their number.

    Args:
        name: without the suffix of a sample (`_total`, `_bucket`).
        text: the help text.
        labels: the names of the labels.
    """

    kind: ClassVar[str]
    """The type on the TYPE line."""
    suffix: ClassVar[str] = ""
    """Ends the name on the HELP and TYPE lines."""

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self._name = name
        self._labels = tuple(labels)
        self._help = text
        self._samples: list[_Sample] = []

    def text(self) -> str:
        """Return the HELP and TYPE lines, and the samples in the order that they were added."""
        title = f"{self._name}{self.suffix}"
        escaped = self._help.replace("\\", r"\\").replace("\n", r"\n")
        return f"# HELP {title} {escaped}\n# TYPE {title} {self.kind}\n" + "".join(map(self._line, self._samples))

    def _add(self, suffix: str, values: Sequence[str], number: float, *more: tuple[str, str]) -> None:
        """Add a sample with the label values and `more` labels. Collectors do this under locks: text is made later."""
        if len(values) != len(self._labels):
            raise ValueError(f"{self._name} has labels {self._labels}, got values {values}")
        self._samples.append(_Sample(suffix, values, more, number))

    def _line(self, sample: _Sample) -> str:
        pairs = sorted((*zip(self._labels, sample.values, strict=True), *sample.more))
        labels = ",".join(f'{label}="{_escape(value)}"' for label, value in pairs)
        return f"{self._name}{sample.suffix}{f'{{{labels}}}' if labels else ''} {_number(sample.number)}\n"


class CounterFamily(MetricFamily):
    """Numbers that only grow while the process runs; their name ends in `_total`, which `name` leaves out."""

    kind = "counter"
    suffix = "_total"

    def add_metric(self, values: Sequence[str], number: float) -> None:
        """Add the counter with these label values, one for each label."""
        self._add(self.suffix, values, number)


class GaugeFamily(MetricFamily):
    """Numbers that grow and shrink."""

    kind = "gauge"

    def add_metric(self, values: Sequence[str], number: float) -> None:
        """Add the gauge with these label values, one for each label."""
        self._add("", values, number)


class Histogram:
    """Numbers of durations by bucket, the last one for those above all bounds. One thread writes; any may read, and
    then finds all but perhaps the newest.

    Args:
        bounds: upper bounds of the buckets, in seconds.
    """

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """The sum of the durations, in seconds."""

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(self._bounds, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative counts by upper bound, in the form of `HistogramFamily.add_metric`."""
        bounds = [*map(str, self._bounds), "+Inf"]
        return [(bound, float(count)) for bound, count in zip(bounds, accumulate(self.counts), strict=True)]


class HistogramFamily(MetricFamily):
    """Distributions of observed values over buckets."""

    kind = "histogram"

    def add_metric(self, values: Sequence[str], buckets: Sequence[tuple[str, float]], total: float) -> None:
        """Add the histogram with these label values, one for each label.

        Args:
            values: the label values.
            buckets: upper bound and cumulative count of each bucket, in ascending order; the last bound is `+Inf`.
            total: sum of the observed values.
        """
        for bound, count in buckets:
            self._add("_bucket", values, count, ("le", bound))
        self._add("_count", values, buckets[-1][1])
        self._add("_sum", values, total)


def counter(name: str, text: str, value: float) -> CounterFamily:
    """Return a counter without labels."""
    family = CounterFamily(name, text)
    family.add_metric((), value)
    return family


def counters_by(label: str, name: str, text: str, values: Mapping[K, float]) -> CounterFamily:
    """Return counters with one label. Other threads may count meanwhile."""
    family = CounterFamily(name, text, (label,))
    for value, number in dict(values).items():
        family.add_metric((str(value),), number)
    return family


def counters_with(labels: tuple[str, ...], name: str, text: str, values: Mapping[L, float]) -> CounterFamily:
    """Return counters with several labels. Other threads may count meanwhile."""
    family = CounterFamily(name, text, labels)
    for key, number in dict(values).items():
        family.add_metric(key, number)
    return family


def gauge(name: str, text: str, value: float) -> GaugeFamily:
    """Return a gauge without labels."""
    family = GaugeFamily(name, text)
    family.add_metric((), value)
    return family


def gauges_by(label: str, name: str, text: str, values: Mapping[str, float]) -> GaugeFamily:
    """Return gauges with one label. Other threads may change them meanwhile."""
    family = GaugeFamily(name, text, (label,))
    for value, number in dict(values).items():
        family.add_metric((value,), number)
    return family


def histograms_by(label: str, name: str, text: str, values: Mapping[str, Histogram]) -> HistogramFamily:
    """Return histograms with one label. Other threads may count meanwhile."""
    family = HistogramFamily(name, text, (label,))
    for value, histogram in dict(values).items():
        family.add_metric((value,), histogram.buckets(), histogram.total)
    return family


Collector: TypeAlias = Callable[[], Iterable[MetricFamily]]
"""Returns metric families with their present samples."""


def text_of(families: Iterable[MetricFamily]) -> str:
    """Return families in Prometheus' text format."""
    return "".join(family.text() for family in families)


class CollectorRegistry:
    """Collectors whose metrics a process shows together. Any thread may register a collector or read the text."""

    def __init__(self) -> None:
        self._collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        """Add a collector; its families come after the families of earlier collectors."""
        self._collectors.append(collector)

    def text(self) -> str:
        """Collect all metrics and return them in Prometheus' text format."""
        return text_of(family for collector in tuple(self._collectors) for family in collector())


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    """Write a number as prometheus_client does: as Python, but with an exponent from a million on, as Go."""
    number = float(value)
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if math.isnan(number):
        return "NaN"
    text = repr(number)
    point = text.find(".")
    if number <= 0 or point <= 6:
        return text
    digits = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
    return f"{digits}e+{point - 1:02d}"
