"""The discovery of the resources of a cluster."""

import pytest

from beehive.simulation import Simulation
from modules.cloud.client.calls import Answered, ApiCall, ApiResult
from modules.cloud.edgecontroller.cluster import resources
from modules.cloud.edgecontroller.cluster.resources import ClusterResources


class Discovery:
    """An API server with a resource in the version `a/v1`."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def send(self, call: ApiCall, answered: Answered, node: str = "") -> None:
        """Answer with the document of a version."""
        assert not node
        self.asked.append(call.name)
        thing = {"name": "things", "kind": "Thing", "namespaced": True, "verbs": ["watch"]}
        answered(ApiResult({"resources": [thing] if call.name == "apis/a/v1" else []}))


def test_a_version_that_is_read_again_takes_no_other_ones_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_MOST_VERSIONS", 2)
    simulation, api = Simulation(1), Discovery()
    found = ClusterResources(api, simulation.clock)
    for version in ("a/v1", "b/v1", "b/v1", "a/v1", "c/v1", "b/v1", "a/v1"):
        found.find(version, "things", lambda *_: None)
        simulation.run_for(resources._UNKNOWN_SECONDS)
    assert api.asked == [f"apis/{each}/v1" for each in "abbcba"], "the one that was read longest ago is forgotten"
