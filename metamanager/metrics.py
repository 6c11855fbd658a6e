"""The database's statistics for Prometheus."""

from pathlib import Path

from beehive.exposition import MetricFamily, counter, gauge
from metamanager.damage import all_set_aside
from metamanager.store import sqlite_path
from metamanager.store_health import StoreStatistics


def store_metrics(statistics: StoreStatistics, source: str) -> list[MetricFamily]:
    """Return the present statistics and, of a file (`MetaSettings.data_source`), the sizes."""
    failures, path = statistics.write_failures, sqlite_path(source)
    text = "1 while the database takes changes, 0 when its disk is full, read-only or broken."
    metrics: list[MetricFamily] = [
        counter("metamanager_store_write_failures", "Changes the database did not take.", failures),
        gauge("metamanager_store_takes_changes", text, statistics.takes_changes),
    ]
    if path is not None:
        bytes_ = sum(_size(path.with_name(path.name + side)) for side in ("", "-wal"))
        metrics.append(gauge("metamanager_store_bytes", "Size of the database and its write-ahead log.", bytes_))
        damaged = len(all_set_aside(path))
        metrics.append(gauge("metamanager_store_damaged_files", "Damaged databases that were set aside.", damaged))
    return metrics


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
