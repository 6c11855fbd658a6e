"""What the simulation is told of the cloud's objects and a node's store: who is told nothing finds nothing."""

import pytest

from beehive.clock import RealClock
from metamanager.rows import Row
from modules.apimachinery.kinds import JsonObject, key_of
from modules.lab.simulate.cloud_store import ObservedStore
from modules.lab.simulate.row_watch import RowWatch
from modules.lab.simulate.world import World

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}, "spec": {}, "status": {}}


def test_each_way_to_change_a_pod_is_told_and_another_cloudcores_change_is_not() -> None:
    """A status has a way of its own into the store, and was not told for a day: no seed could fail by one."""
    told, phases, clock = list[str](), ["Pending", "Running", "Failed"], RealClock()

    def changed(old: JsonObject, new: JsonObject) -> None:
        told.append(f"{old['status'].get('phase')} to {new['status'].get('phase')}")

    store = ObservedStore(clock, 1, changed, lambda change, *_: told.append(change))
    pod = store.create(POD)
    pod = store.change(key_of(pod), pod, {**pod, "status": {"phase": phases[0]}})
    pod = store.change_status(key_of(pod), pod, {"phase": phases[1]})
    other = {**pod, "metadata": {**pod["metadata"], "resourceVersion": "9"}, "status": {"phase": phases[2]}}
    store.adopt([(key_of(pod), other)], 9, complete=False)
    store.remove(key_of(pod))
    clock.close()
    assert told == ["ADDED", "None to Pending", "MODIFIED", "Pending to Running", "MODIFIED", "DELETED"]


@pytest.mark.parametrize("trusts", [True, False])
def test_an_object_does_not_come_back_after_its_successor(*, trusts: bool) -> None:
    """Its deletion need not be told, for the successor has its name. A cloud that has lost its objects may send it."""
    with World(1) as world:
        watch = RowWatch(world, "node-0")
        if not trusts:
            watch.distrust_deletions()
        for uid, version in (("first", 3), ("second", 5), ("first", 3)):
            watch.put(Row("default/secret/a", "secret", "{}", uid, version), taken=True)
        found = [each.invariant for each in world.violations]
    assert found == (["what was deleted does not come back"] if trusts else [])
