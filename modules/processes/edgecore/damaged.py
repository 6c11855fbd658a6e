"""Lists the damaged files that this node has set aside, for `edgecore doctor` and the metrics."""

from pathlib import Path

from beehive.exposition import MetricFamily, gauge
from beehive.files.damaged import all_set_aside
from modules.processes.edgecore.config import EdgeCoreConfig


def damaged_directories(config: EdgeCoreConfig) -> tuple[Path, ...]:
    """Return the directories below which edgecore sets damaged files aside."""
    edged = config.modules.edged.root_directory
    return tuple(dict.fromkeys((edged, config.container_runtime_root, config.outbox_path.parent)))


def damaged_paths(config: EdgeCoreConfig) -> tuple[str, ...]:
    """Return the paths of all files and directories that were set aside."""
    return tuple(str(path) for directory in damaged_directories(config) for path in all_set_aside(directory))


def damaged_metrics(config: EdgeCoreConfig) -> list[MetricFamily]:
    """Return the number of the files that were set aside and still exist."""
    text = "Files and directories that could not be read and were set aside, until they are removed."
    return [gauge("edgecore_damaged_entries", text, len(damaged_paths(config)))]
