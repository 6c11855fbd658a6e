"""Metrics are written byte for byte as prometheus_client writes them."""

import math
import threading
from collections.abc import Iterable, Sequence

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import metrics_core
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector as LibraryCollector

from beehive.exposition import CollectorRegistry, CounterFamily, GaugeFamily, HistogramFamily

Samples = Sequence[tuple[tuple[str, str], float]]

TEXT = 'A "help" text: \\ and\nsecond line, µs.'
LABELS = ("zone", "kind")
BOUNDS = ("0.0001", "1.0", "+Inf")

NUMBERS = st.one_of(
    st.floats(),
    st.integers(-(10**18), 10**18),
    st.sampled_from((0, 1, -0.0, 999_999, 1_000_000, 1_234_567.5, 1e15, 1e16, 1e22, math.inf, -math.inf, math.nan)),
)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(('"', "\\", "\n", '\\n"', ""))
SAMPLES = st.lists(st.tuples(st.tuples(VALUES, VALUES), NUMBERS), max_size=4)


class LibraryFamilies(LibraryCollector):
    """A collector of fixed families for the registry of prometheus_client."""

    def __init__(self, *families: metrics_core.Metric) -> None:
        self._families = families

    def collect(self) -> Iterable[metrics_core.Metric]:
        return self._families


def ours(samples: Samples) -> str:
    """Write the samples as a counter, a gauge, a histogram, and the numbers as gauges without labels."""
    counter, gauge = CounterFamily("a_requests", TEXT, LABELS), GaugeFamily("a_depth", TEXT, labels=LABELS)
    histogram, plain = HistogramFamily("a_seconds", TEXT, list(LABELS)), GaugeFamily("a_plain", "Plain.")
    for values, number in samples:
        counter.add_metric(values, number)
        gauge.add_metric(list(values), number)
        histogram.add_metric(values, [(bound, number) for bound in BOUNDS], number)
        plain.add_metric([], number)
    registry = CollectorRegistry()
    registry.register(lambda: (counter, gauge))
    registry.register(lambda: (histogram, plain))
    return registry.text()


def library(samples: Samples) -> str:
    """Write the same with prometheus_client."""
    counter = metrics_core.CounterMetricFamily("a_requests", TEXT, labels=LABELS)
    gauge = metrics_core.GaugeMetricFamily("a_depth", TEXT, labels=LABELS)
    histogram = metrics_core.HistogramMetricFamily("a_seconds", TEXT, labels=LABELS)
    plain = metrics_core.GaugeMetricFamily("a_plain", "Plain.")
    for values, number in samples:
        counter.add_metric(values, number)
        gauge.add_metric(values, number)
        histogram.add_metric(values, [(bound, number) for bound in BOUNDS], number)
        plain.add_metric([], number)
    registry = prometheus_client.CollectorRegistry()
    registry.register(LibraryFamilies(counter, gauge))
    registry.register(LibraryFamilies(histogram, plain))
    return prometheus_client.generate_latest(registry).decode()


@given(SAMPLES)
def test_the_text_equals_prometheus_clients(samples: Samples) -> None:
    assert ours(samples) == library(samples)


def test_a_counter_a_gauge_and_a_histogram_as_text() -> None:
    assert ours([(("z\n", 'k"'), 2_500_000)]).splitlines() == [
        '# HELP a_requests_total A "help" text: \\\\ and\\nsecond line, µs.',
        "# TYPE a_requests_total counter",
        'a_requests_total{kind="k\\"",zone="z\\n"} 2.5e+06',
        '# HELP a_depth A "help" text: \\\\ and\\nsecond line, µs.',
        "# TYPE a_depth gauge",
        'a_depth{kind="k\\"",zone="z\\n"} 2.5e+06',
        '# HELP a_seconds A "help" text: \\\\ and\\nsecond line, µs.',
        "# TYPE a_seconds histogram",
        'a_seconds_bucket{kind="k\\"",le="0.0001",zone="z\\n"} 2.5e+06',
        'a_seconds_bucket{kind="k\\"",le="1.0",zone="z\\n"} 2.5e+06',
        'a_seconds_bucket{kind="k\\"",le="+Inf",zone="z\\n"} 2.5e+06',
        'a_seconds_count{kind="k\\"",zone="z\\n"} 2.5e+06',
        'a_seconds_sum{kind="k\\"",zone="z\\n"} 2.5e+06',
        "# HELP a_plain Plain.",
        "# TYPE a_plain gauge",
        "a_plain 2.5e+06",
    ]


def test_a_parser_reads_names_types_and_labels_back() -> None:
    families = {family.name: family for family in text_string_to_metric_families(ours([(("z\n", '\\"'), 7)]))}
    assert {name: family.type for name, family in families.items()} == {
        "a_requests": "counter",
        "a_depth": "gauge",
        "a_seconds": "histogram",
        "a_plain": "gauge",
    }
    [sample] = families["a_depth"].samples
    assert (sample.labels, sample.value) == ({"zone": "z\n", "kind": '\\"'}, 7.0)


def test_a_family_without_samples_has_its_help_and_type() -> None:
    assert CounterFamily("a_requests", "Requests.", LABELS).text() == (
        "# HELP a_requests_total Requests.\n# TYPE a_requests_total counter\n"
    )


def test_a_wrong_number_of_label_values_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"a_depth has labels \('zone', 'kind'\), got values \['z'\]"):
        GaugeFamily("a_depth", "Depth.", LABELS).add_metric(["z"], 1)


def test_collectors_may_be_registered_while_another_thread_reads() -> None:
    registry, family = CollectorRegistry(), GaugeFamily("a_depth", "Depth.")
    reader = threading.Thread(target=lambda: [registry.text() for _ in range(200)])
    reader.start()
    for _ in range(500):
        registry.register(lambda: (family,))
    reader.join(60)
    assert registry.text() == family.text() * 500
