"""Nodes whose lease has run out."""

from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.kinds import JsonObject, kind_named

NODE: JsonObject = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "n1"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("spec", "seconds", "status"),
    [
        ({"renewTime": "2026-11-20T01:54:49.500000Z", "leaseDurationSeconds": 40}, 39.0, "True"),
        ({"renewTime": "2027-11-20T01:54:49.500000Z", "leaseDurationSeconds": 40}, 41.0, "Unknown"),
        ({"renewTime": "1999-11-20T01:54:49.500000Z", "leaseDurationSeconds": 40}, 39.0, "True"),
        ({"leaseDurationSeconds": 2_000_000_000}, 301.0, "Unknown"),
        ({}, 41.0, "Unknown"),
    ],
    ids=[
        "a lease that is renewed",
        "a clock that is a year ahead",
        "a clock that is decades behind",
        "a lease for ever",
        "a lease that says nothing",
    ],
)
def test_a_dead_node_is_not_ready_whatever_its_clock_says(spec: dict[str, Any], seconds: float, status: str) -> None:
    simulation = Simulation(0)
    cluster = Cluster(simulation.clock)
    cluster.create(NODE)
    metadata = {"name": "n1", "namespace": "kube-node-lease"}
    cluster.create({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata, "spec": spec})
    simulation.run_for(seconds)
    (shown,) = cluster.shown(kind_named("Node"))
    assert shown["status"]["conditions"][0]["status"] == status
    (kept,) = cluster.list(kind_named("Node"))
    assert kept["status"]["conditions"][0]["status"] == "True", "what is kept is what the node said last"


def test_a_node_without_a_lease_is_what_it_said() -> None:
    cluster = Cluster(Simulation(0).clock)
    cluster.create(NODE)
    assert list(cluster.shown(kind_named("Node"))) == cluster.list(kind_named("Node"))
