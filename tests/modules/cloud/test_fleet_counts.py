"""Nodes that are not ready, pods that do not run and silent devices, as metrics count them."""

from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import key_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.devices import DEVICE_STATUS
from modules.cloud.fleet_counts import PATIENCE, FleetCounts
from modules.cloud.storage.object_storage import EventType, ObjectEvent

Json = dict[str, Any]


class Fleet:
    """Counts in virtual time."""

    def __init__(self) -> None:
        self.simulation = Simulation()
        self.counts = FleetCounts(self.simulation.clock, DEVICE_STATUS)

    def put(self, obj: Json, *, is_deleted: bool = False) -> None:
        """Tell a change."""
        kind = EventType.DELETED if is_deleted else EventType.MODIFIED
        self.counts.handle_event(ObjectEvent(kind, key_of(obj), obj, obj))

    def later(self, seconds: float) -> int:
        """Let time pass, and return the number of pods that do not run."""
        self.simulation.run_for(seconds)
        return self.counts.pods_not_running()


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def _object(kind: str, name: str, ready: str = "", api_version: str = "v1", **more: Any) -> Json:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    metadata = {"name": name, "namespace": "" if kind == "Node" else "default", **more.pop("metadata", {})}
    status = {"conditions": conditions, **more.pop("status", {})}
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata, "spec": {}, **more, "status": status}


def test_nodes_are_counted_by_their_condition_but_those_that_are_cordoned(fleet: Fleet) -> None:
    nodes = [_object("Node", "a", "True"), _object("Node", "b", "Unknown"), _object("Node", "c", "False")]
    fleet.counts.load([*nodes, _object("Node", "new"), _object("Node", "d", "False", spec={"unschedulable": True})])
    assert fleet.counts.nodes() == {"True": 1, "False": 1, "Unknown": 2}
    fleet.put(_object("Node", "c", "False", spec={"unschedulable": True}))
    fleet.put(_object("Node", "b", "True"))
    fleet.put(_object("Node", "new"), is_deleted=True)
    assert fleet.counts.nodes() == {"True": 2, "False": 0, "Unknown": 0}
    fleet.counts.load(nodes[:1])
    assert fleet.counts.nodes() == {"True": 1, "False": 0, "Unknown": 0}


@pytest.mark.parametrize(
    ("pod", "is_counted"),
    [
        (_object("Pod", "p"), True), (_object("Pod", "p", "False"), True), (_object("Pod", "p", "True"), False),
        (_object("Pod", "p", "False", status={"phase": "Succeeded"}), False),
        (_object("Pod", "p", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), False),
        (_object("Pod", "p", status={"phase": "Failed"}), True),
        (_object("Pod", "p", status={"phase": "Failed"}, metadata={"ownerReferences": [{"kind": "Job"}]}), False),
    ],
)  # fmt: skip
def test_a_pod_that_is_to_run_and_does_not_is_counted_after_a_while(fleet: Fleet, pod: Json, is_counted: bool) -> None:
    fleet.put(pod)
    assert fleet.later(PATIENCE - 1) == 0
    assert fleet.later(1) == is_counted
    fleet.put(pod, is_deleted=True)
    assert fleet.counts.pods_not_running() == 0


def test_a_pod_that_crashes_again_and_again_does_not_run(fleet: Fleet) -> None:
    """Though it is ready for some seconds each time; one that runs for five minutes does."""
    for _ in range(6):
        fleet.put(_object("Pod", "p", "False"))
        fleet.later(60)
        fleet.put(_object("Pod", "p", "True"))
        fleet.later(5)
    assert fleet.counts.pods_not_running() == 1
    assert fleet.later(PATIENCE) == 0
    fleet.put(_object("Pod", "p", "False"))
    assert fleet.later(PATIENCE - 1) == 0
    assert fleet.later(1) == 1


def test_a_restarted_cloud_knows_since_when_a_pod_does_not_run(fleet: Fleet) -> None:
    since = format_rfc3339(fleet.simulation.clock.now() - 200)
    fleet.counts.load([_object("Pod", "p", metadata={"creationTimestamp": since})])
    assert fleet.later(99) == 0
    assert fleet.later(2) == 1


def test_a_pod_that_went_while_the_api_server_was_away_is_counted_no_more(fleet: Fleet) -> None:
    fleet.put(_object("Pod", "p", "False"))
    assert fleet.later(PATIENCE) == 1
    fleet.counts.load([])
    assert fleet.counts.pods_not_running() == 0


def test_a_pod_of_a_node_whose_clock_is_ahead_is_counted_after_a_while(fleet: Fleet) -> None:
    ahead = format_rfc3339(fleet.simulation.clock.now() + 3600)
    fleet.put(_object("Pod", "p", metadata={"creationTimestamp": ahead}))
    assert fleet.later(PATIENCE) == 1


def test_devices_are_counted_by_state(fleet: Fleet) -> None:
    states = ("Online", "ok", "offline", "UNHEALTHY", "unknown", "", "odd")
    for number, state in enumerate(states):
        fleet.put(_object(DEVICE_STATUS.name, f"d{number}", "", DEVICE_STATUS.api_version, status={"state": state}))
    assert fleet.counts.devices() == {"online": 2, "ok": 1, "offline": 1, "unhealthy": 1, "unknown": 2}
