"""The database's statistics for Prometheus."""

from pathlib import Path

from beehive.exposition import Collector, MetricFamily, counter, gauge
from metamanager.damage import all_set_aside
from metamanager.store import sqlite_path
from metamanager.store_health import StoreStatistics


class StoreCollector(Collector):
    """The collector that exports the statistics and the sizes of the files at each scrape.

    Args:
        statistics: of the database.
        source: `MetaSettings.data_source`; only a file has a size.
    """

    def __init__(self, statistics: StoreStatistics, source: str) -> None:
        self._statistics = statistics
        self._path = sqlite_path(source)

    def collect(self) -> list[MetricFamily]:
        """Return the present values."""
        failures = self._statistics.write_failures
        text = "1 while the database takes changes, 0 when its disk is full, read-only or broken."
        metrics: list[MetricFamily] = [
            counter("metamanager_store_write_failures", "Changes the database did not take.", failures),
            gauge("metamanager_store_takes_changes", text, self._statistics.takes_changes),
        ]
        if self._path is not None:
            bytes_ = sum(_size(self._path.with_name(self._path.name + side)) for side in ("", "-wal"))
            metrics.append(gauge("metamanager_store_bytes", "Size of the database and its write-ahead log.", bytes_))
            damaged = len(all_set_aside(self._path))
            metrics.append(gauge("metamanager_store_damaged_files", "Damaged databases that were set aside.", damaged))
        return metrics


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
