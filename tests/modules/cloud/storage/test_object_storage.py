"""The objects in memory: what a transaction that is undone leaves, and the index of the pods of nodes."""

import json
from typing import Any

from beehive.simulation import Simulation
from modules.apimachinery.kinds import key_of, uid_of
from modules.cloud.storage.object_storage import LARGE, Storage
from tests.modules.cloud.objects import pod


def on(node: str, **metadata: Any) -> dict[str, Any]:
    made = pod("web", nodeName=node)
    return {**made, "metadata": {**made["metadata"], **metadata}}


def test_undone_changes_are_not_undone_again() -> None:
    storage = Storage(Simulation(0).clock)
    storage.set_savepoint()
    made = storage.create(on("n1"))
    before = storage.version
    assert len(storage.roll_back()) == 1
    assert storage.roll_back() == []
    assert (storage.find(key_of(made)), storage.version, storage.take_events()) == (None, before - 1, [])
    storage.create(on("n1"))
    storage.set_savepoint()
    storage.replace(on("n1", labels={"a": "b"}))
    storage.roll_back()
    assert "labels" not in storage.get(key_of(made))["metadata"]


def test_each_change_of_the_pods_of_a_node_is_seen() -> None:
    """Also one that leaves the node as many pods as before."""
    storage, seen = Storage(Simulation(0).clock), list[int]()
    made = storage.create(on("n1"))
    key = key_of(made)
    seen.append(storage.changes_of_pods["n1"])
    storage.replace(on("n1", labels={"a": "b"}))
    seen.append(storage.changes_of_pods["n1"])
    storage.remove(key)
    assert (dict(storage.changes_of_pods), storage.nodes_of_pods(), storage.pods_of("n1")) == ({}, set(), frozenset())
    again = storage.create(on("n1"))
    seen.append(storage.changes_of_pods["n1"])
    other = storage.create({**on("n1"), "metadata": {"name": "other", "namespace": "default"}})
    seen.append(storage.changes_of_pods["n1"])
    storage.remove(key_of(other))
    seen.append(storage.changes_of_pods["n1"])
    assert seen == sorted(set(seen))
    assert uid_of(again) != uid_of(made)


def test_an_event_has_the_json_that_nodes_get_beside_the_stored_one() -> None:
    """Without `managedFields`, and the same where an object has none."""
    storage = Storage(Simulation(0).clock)
    storage.create(on("n1", managedFields=[{"manager": "kubectl"}]))
    storage.replace({**on("n1"), "status": {"phase": "Running"}})
    managed, bare = storage.take_events()
    stored, sent = json.loads(managed.body), json.loads(managed.bare)
    assert stored["metadata"].pop("managedFields") == [{"manager": "kubectl"}]
    assert stored == sent
    assert bare.bare is bare.body


def test_it_is_known_which_objects_are_large() -> None:
    """Through changes, and back when they are undone."""
    storage = Storage(Simulation(0).clock)
    key = key_of(storage.create(on("n1")))
    seen = [storage.is_large(key)]
    for annotations in ({"a": "x" * LARGE}, {}):
        storage.set_savepoint()
        storage.replace(on("n1", annotations=annotations))
        seen.append(storage.is_large(key))
    storage.roll_back()
    seen.append(storage.is_large(key))
    storage.remove(key)
    seen.append(storage.is_large(key))
    assert seen == [False, True, False, True, False]
