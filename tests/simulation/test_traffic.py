"""The traffic of an idle node in a day; none of it is periodic but the necessary messages."""

import pytest

from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config_commands import saver
from tests.simulation.traffic import measured

DEFAULT = EdgeCoreConfig.default()


@pytest.mark.parametrize(
    ("config", "most"),
    [pytest.param(DEFAULT, 12.0, marks=pytest.mark.slow), (saver(DEFAULT), 4.0)],
    ids=["default", "saver"],
)
def test_an_idle_node_with_five_pods_stays_within_its_budget(config: EdgeCoreConfig, most: float) -> None:
    """In 10^6 bytes a day, both ways, before compression. Five pods add nothing to what no pod costs."""
    usage = measured(config, 1.0)
    assert 0.5 < usage.megabytes <= most
    kinds = {what.kind for what in usage.payload}
    assert {"lease", "node"} <= kinds <= {"lease", "node", "nodepatch"}, "lease, keepalive, and now and then the status"
