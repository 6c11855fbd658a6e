"""What this node has found spoilt and set aside: one list for the doctor and the metrics."""

from pathlib import Path

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from beehive.files.damaged import all_set_aside
from modules.edgecore.config import EdgeCoreConfig


def places(config: EdgeCoreConfig) -> tuple[Path, ...]:
    """The directories below which the parts of the node set aside what they cannot read."""
    edged = config.modules.edged.root_directory
    return tuple(dict.fromkeys((edged, config.embedded_runtime_root, config.outbox_path.parent)))


def damaged(config: EdgeCoreConfig) -> tuple[str, ...]:
    """The paths of what is there."""
    return tuple(str(path) for place in places(config) for path in all_set_aside(place))


class DamagedCollector(Collector):
    """Counts, when somebody asks, what has been set aside and is still there."""

    def __init__(self, config: EdgeCoreConfig) -> None:
        self._config = config

    def collect(self) -> list[Metric]:
        """The value of this moment."""
        text = "Files and directories that could not be read and were set aside, until they are removed."
        family = GaugeMetricFamily("edgecore_damaged_entries", text)
        family.add_metric([], len(damaged(self._config)))
        return [family]
