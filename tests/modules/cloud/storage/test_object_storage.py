"""The objects in memory: what a transaction that is undone leaves, and the index of the pods of nodes."""

import json
from itertools import count
from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.kinds import LAST_APPLIED, key_of, kind_named, uid_of
from modules.apimachinery.limits import OBJECT_BYTES
from modules.apimachinery.times import format_rfc3339
from modules.cloud.storage import past_states
from modules.cloud.storage.object_storage import LARGE, OBJECT_LEVELS, EventType, Storage, StoredChange
from modules.cloud.storage.past_states import BYTES, ForgottenError, PastStates
from tests.modules.cloud.objects import configmap, pod, service
from tests.support.failing import left_by_repeating


def on(node: str, **metadata: Any) -> dict[str, Any]:
    made = pod("web", nodeName=node)
    return {**made, "metadata": {**made["metadata"], **metadata}}


@pytest.fixture
def storage() -> Storage:
    return Storage(Simulation(0).clock)


def test_the_time_since_a_change_is_not_the_wall_clocks_and_that_of_a_creation_is() -> None:
    simulation = Simulation(0)
    storage = Storage(simulation.clock)
    key = key_of(storage.create(on("n1")))
    simulation.run_for(3.0)
    simulation.clock.jump_wall(-100.0)
    assert storage.unchanged_for(key) == 3.0
    created = storage.create(configmap())["metadata"]["creationTimestamp"]
    assert created == format_rfc3339(simulation.clock.now())


def test_undone_changes_are_not_undone_again(storage: Storage) -> None:
    storage.set_savepoint()
    made = storage.create(on("n1"))
    before = storage.version
    assert len(storage.roll_back()) == 1
    assert storage.roll_back() == []
    assert (storage.find(key_of(made)), storage.version, storage.drain_events()) == (None, before - 1, [])
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


def test_an_event_has_the_json_that_nodes_get_beside_the_stored_one(storage: Storage) -> None:
    """Without `managedFields`, and the same where an object has none."""
    storage.create(on("n1", managedFields=[{"manager": "kubectl"}]))
    storage.replace({**on("n1"), "status": {"phase": "Running"}})
    managed, bare = storage.drain_events()
    stored, sent = json.loads(managed.body), json.loads(managed.bare)
    assert stored["metadata"].pop("managedFields") == [{"manager": "kubectl"}]
    assert stored == sent
    assert bare.bare is bare.body


def test_it_is_known_which_objects_are_large(storage: Storage) -> None:
    """Through changes, and back when they are undone."""
    key = key_of(storage.create(on("n1")))
    seen = [key in storage.large]
    for annotations in ({"a": "x" * LARGE}, {}):
        storage.set_savepoint()
        storage.replace(on("n1", annotations=annotations))
        seen.append(key in storage.large)
    storage.roll_back()
    seen.append(key in storage.large)
    storage.remove(key)
    seen.append(key in storage.large)
    assert seen == [False, True, False, True, False]


def test_a_pod_that_is_deleted_waits_for_no_room_any_more(storage: Storage) -> None:
    """Nor does one that has got its node, whose nomination is undone, or that has none."""
    nominated = {**on(""), "status": {"nominatedNodeName": "n1"}}
    key = key_of(storage.create(nominated))
    storage.create(pod("another", nodeName=""))
    assert [key_of(each) for each in storage.nominated_pods()] == [key]
    storage.set_savepoint()
    storage.replace(on("n1"))
    assert storage.nominated_pods() == []
    storage.roll_back()
    assert [key_of(each) for each in storage.nominated_pods()] == [key]
    storage.remove(key)
    assert storage.nominated_pods() == []


def other_cloudcores(obj: dict[str, Any], version: int, uid: str) -> dict[str, Any]:
    """An object as another cloudcore has stored it."""
    return {**obj, "metadata": {**obj["metadata"], "uid": uid, "resourceVersion": str(version)}}


def test_an_object_that_others_have_made_again_was_deleted_before(storage: Storage) -> None:
    """So that watches, and what is kept by uid, do not take the second for the first."""
    first = other_cloudcores(on("n1"), 5, "u1")
    storage.adopt([(key_of(first), first)], 5, complete=False)
    storage.drain_events()
    second = other_cloudcores(on("n2"), 8, "u2")
    storage.adopt([(key_of(first), second)], 9, complete=False)
    deleted, added = storage.drain_events()
    assert (deleted.type, uid_of(deleted.new), deleted.new["metadata"]["resourceVersion"]) == ("DELETED", "u1", "7")
    assert (added.type, uid_of(added.new), added.old) == ("ADDED", "u2", None)
    assert (storage.pods_of("n1"), storage.pods_of("n2")) == (frozenset(), {key_of(first)})


def test_what_others_have_changed_is_told_in_the_order_of_its_versions(storage: Storage) -> None:
    """Also of objects whose single changes were left out on a full disk: a watch that ended after a deletion went on
    with a version above those of the events behind it, and never got them.
    """
    names = ("stays", "goes", "goes-later", "again")
    objects = {
        name: other_cloudcores({**on("n1"), "metadata": {"name": name, "namespace": "default"}}, number + 2, name)
        for number, name in enumerate(names)
    }
    storage.adopt([(key_of(obj), obj) for obj in objects.values()], 5, complete=False)
    storage.drain_events()
    goes, later = key_of(objects["goes"]), key_of(objects["goes-later"])
    changed, again = other_cloudcores(objects["stays"], 8, "stays"), other_cloudcores(objects["again"], 12, "again-2")
    found = [(later, None), (key_of(again), again), (goes, None), (key_of(changed), changed)]
    secret = other_cloudcores(
        {**objects["stays"], "kind": "Secret", "metadata": {"name": "s", "namespace": "d"}}, 9, "s"
    )
    changes = [StoredChange(9, key_of(secret), EventType.ADDED, json.dumps(secret).encode())]
    storage.adopt(found, 12, complete=False, changes=changes, deleted={goes: 7, later: 10}, has_gap=True)
    told = [
        (event.type, event.key.name, int(event.new["metadata"]["resourceVersion"])) for event in storage.drain_events()
    ]
    assert told == [
        ("DELETED", "goes", 7),
        ("MODIFIED", "stays", 8),
        ("ADDED", "s", 9),
        ("DELETED", "goes-later", 10),
        ("DELETED", "again", 11),
        ("ADDED", "again", 12),
    ]


def test_a_change_that_is_known_already_is_not_taken_back_by_an_earlier_one(storage: Storage) -> None:
    """The changes of others may be read again from before, after a transaction that was not committed."""
    newest = other_cloudcores(on("n2"), 9, "u1")
    storage.adopt([(key_of(newest), newest)], 9, complete=False)
    storage.drain_events()
    body = json.dumps(other_cloudcores(on("n1"), 7, "u1")).encode()
    earlier = [
        StoredChange(7, key_of(newest), EventType.MODIFIED, body),
        StoredChange(8, key_of(newest), EventType.DELETED, body),
        StoredChange(9, key_of(newest), EventType.MODIFIED, json.dumps(newest).encode()),
    ]
    storage.adopt([], 9, complete=False, changes=earlier)
    assert storage.drain_events() == []
    assert storage.get(key_of(newest))["spec"]["nodeName"] == "n2"


def test_no_list_is_of_a_version_between_changes_of_others_that_are_not_all_known() -> None:
    """The next part of a list would have objects of two versions."""
    storage, kind = Storage(Simulation(0).clock), kind_named("Pod")
    storage.create(on("n1"))
    before = storage.version
    made = other_cloudcores({**on("n1"), "metadata": {"name": "other", "namespace": "default"}}, before + 5, "u2")
    storage.adopt([(key_of(made), made)], before + 5, complete=False)
    names = [each["metadata"]["name"] for each in storage.list_after(kind, None, ("", ""), before)]
    assert names == ["web"]
    with pytest.raises(ForgottenError):
        storage.list_after(kind, None, ("", ""), before + 3)
    assert len([*storage.list_after(kind, None, ("", ""), before + 5)]) == 2
    storage.create({**on("n1"), "metadata": {"name": "third", "namespace": "default"}})
    assert len([*storage.list_after(kind, None, ("", ""), before + 5)]) == 2


@pytest.mark.parametrize("namespace", [None, "default"])
def test_a_list_goes_on_after_the_last_object_of_its_part(namespace: str | None) -> None:
    """Each object is in one part, also in a namespace, and as many follow as are counted."""
    storage, kind = Storage(Simulation(0).clock), kind_named("Pod")
    for where, name in (("before", "z"), ("default", "a"), ("default", "b"), ("default", "c"), ("later", "a")):
        storage.create({**on("n1"), "metadata": {"name": name, "namespace": where}})
    place, parts = ("", ""), list[tuple[str, str]]()
    for _ in range(5):
        following = [*storage.list_after(kind, namespace, place)]
        if not following:
            break
        assert storage.count_after(kind, namespace, place, storage.version) == len(following)
        place = (following[0]["metadata"]["namespace"], following[0]["metadata"]["name"])
        parts.append(place)
    in_it = [("default", "a"), ("default", "b"), ("default", "c")]
    assert parts == (in_it if namespace else [("before", "z"), *in_it, ("later", "a")])


def test_objects_that_are_gone_take_no_memory() -> None:
    """Their namespace's quota would be used up by what is not there."""
    storage, numbers = Storage(Simulation(0).clock), count()

    def cycle() -> None:
        waiting = {**pod(nodeName=""), "status": {"nominatedNodeName": "n1"}}
        made = (waiting, on(f"n{storage.version}"), configmap(text="x" * LARGE), service())
        keys = []
        for number, obj in zip(numbers, made):  # noqa: B905 - the numbers do not end
            obj["metadata"] = {"name": f"one-{number}", "namespace": f"in-{number}"}
            keys.append(key_of(storage.create(obj)))
            storage.list(kind_named(obj["kind"]))
        assert all(map(storage.sizes.of, (key.namespace for key in keys)))
        for key in keys:
            storage.remove(key)
        assert not any(map(storage.sizes.of, (key.namespace for key in keys)))
        storage.drain_events()
        storage.set_savepoint()
        storage.forget_past()

    left = left_by_repeating(cycle, storage)
    assert not [one for one in left if "_texts." not in one], "the number of known texts is bounded"


def test_past_states_beyond_their_bounds_are_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is with the changes of other cloudcores, between which no state is known."""
    monkeypatch.setattr(past_states, "_ADOPTIONS", 1)
    past, key = PastStates(0), key_of(pod())
    past.record_adoption(1, 3)
    past.record_adoption(4, 6)
    for version in (7, 8):
        past.record(version, key, {"before": version}, BYTES)
    assert past.changed_since(key.kind, 7, 8) == {key: {"before": 8}}
    for unknown in (2, 5, 6):
        with pytest.raises(ForgottenError):
            past.changed_since(key.kind, unknown, 8)
    assert past.changed_since("Node", 3, 8) == past.changed_since("Node", 6, 8) == {}
    for unknown in (2, 5):
        with pytest.raises(ForgottenError):
            past.changed_since("Node", unknown, 8)


def test_past_states_that_are_gone_leave_their_room_to_others() -> None:
    """A list that is read in parts would begin anew each time otherwise."""
    past, key = PastStates(0), key_of(pod())
    version = 0
    for _ in range(3):
        past.record(version + 1, key, None, BYTES)
        past.undo(key.kind)
        past.record(version + 1, key, None, BYTES)
        for _ in range(4):
            past.compact(version + 1)
        past.record(version + 2, key, {"a": version}, BYTES // 2)
        past.record(version + 3, key, None, BYTES // 2)
        version += 3
        assert past.changed_since(key.kind, version - 2, version) == {key: {"a": version - 3}}
        with pytest.raises(ForgottenError):
            past.changed_since(key.kind, version - 3, version)
        for _ in range(4):
            past.compact(version)


def test_a_past_state_is_known_for_four_compactions() -> None:
    past, key = PastStates(0), key_of(pod())
    past.record(1, key, None, 1)
    for _ in range(4):
        assert past.changed_since(key.kind, 0, 1) == {key: None}
        past.compact(1)
    with pytest.raises(ForgottenError):
        past.changed_since(key.kind, 0, 1)


@pytest.mark.parametrize("namespace", [None, "a", "b"])
def test_as_many_objects_are_counted_as_are_listed_of_an_earlier_version(
    storage: Storage, namespace: str | None
) -> None:
    """In one namespace or in all, with objects that have come and gone since."""
    kind = kind_named("ConfigMap")

    def made(name: str, of: str) -> dict[str, Any]:
        found = configmap(name)
        return storage.create({**found, "metadata": {**found["metadata"], "namespace": of}})

    gone = [made("x", of) for of in "ab"]
    version = storage.version
    for each in gone:
        storage.remove(key_of(each))
    for of in "abb":
        made(f"y{storage.version}", of)
    for place in (("", ""), ("a", "x"), ("b", "")):
        listed = [*storage.list_after(kind, namespace, place, version)]
        assert storage.count_after(kind, namespace, place, version) == len(listed)


def test_the_manifest_of_kubectl_takes_no_room_of_the_object(storage: Storage) -> None:
    large = configmap(text="x" * (OBJECT_BYTES // 2))
    large["metadata"]["annotations"] = {LAST_APPLIED: "y" * (OBJECT_BYTES // 2)}
    assert storage.create(large)["data"]


@pytest.mark.parametrize("opens", ["list", "object"])
def test_an_object_is_no_deeper_than_its_readers_take(storage: Storage, opens: str) -> None:
    value: Any = "x"
    for _ in range(OBJECT_LEVELS):
        value = [value] if opens == "list" else {"a": value}
    with pytest.raises(BadRequestError, match="nested"):
        storage.create({**configmap(), "extra": value})
