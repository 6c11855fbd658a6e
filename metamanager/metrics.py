"""The database's figures for Prometheus; imported only by a process that serves metrics."""

from pathlib import Path

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from metamanager.damage import all_set_aside
from metamanager.figures import StoreFigures
from metamanager.store import sqlite_path


class StoreCollector(Collector):
    """Reads the figures, and the sizes of the files, when somebody asks.

    Args:
        figures: those of the module.
        source: `MetaSettings.data_source`; only a file has a size.
    """

    def __init__(self, figures: StoreFigures, source: str) -> None:
        self._figures = figures
        self._path = sqlite_path(source)

    def collect(self) -> list[Metric]:
        """The values of this moment."""
        failures = CounterMetricFamily("metamanager_store_write_failures", "Changes the database did not take.")
        failures.add_metric([], self._figures.write_failures)
        text = "1 while the database takes changes, 0 when its disk is full, read-only or broken."
        metrics: list[Metric] = [failures, _gauge("metamanager_store_takes_changes", text, self._figures.takes_changes)]
        if self._path is not None:
            bytes_ = sum(_size(self._path.with_name(self._path.name + side)) for side in ("", "-wal"))
            metrics.append(_gauge("metamanager_store_bytes", "Size of the database and its write-ahead log.", bytes_))
            damaged = len(all_set_aside(self._path))
            metrics.append(_gauge("metamanager_store_damaged_files", "Damaged databases that were set aside.", damaged))
        return metrics


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], value)
    return family


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
