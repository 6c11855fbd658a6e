"""A node that has lost its store under a cloud that, as KubeEdge's, does not send again what was acknowledged."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from metamanager.pod_list import PodList
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.lab.simulate import run
from modules.lab.simulate.draw import FaultProfile
from modules.lab.simulate.seeds import SeedSettings, run_seed

_SETTINGS = SeedSettings(profile=FaultProfile.DISK)
_SEEDS = 300


@pytest.fixture(autouse=True)
def _the_cloud_trusts_its_records() -> Iterator[None]:
    with patch.object(ObjectSyncs, "node_restarted", lambda *_args: None):
        yield


def test_its_pods_come_back_through_the_list() -> None:
    """The first seed that loses a pod when the list is not asked for loses none when it is."""
    with (
        patch.object(PodList, "connection_changed", lambda *_, **_connected: None),
        patch.object(run, "CONVERGE_WITHIN", 300.0),
    ):
        lost = (seed for seed in range(_SEEDS) if run_seed(seed, _SETTINGS).violation is not None)
        seed = next(lost, None)
    assert seed is not None, f"the list was not needed with any of {_SEEDS} seeds"
    assert run_seed(seed, _SETTINGS).violation is None
