"""The mirror of a cluster: compact, complete, with the same events and savepoints as the embedded API server."""

import json
import logging
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named
from modules.apimachinery.lister import Revision
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.edgecontroller.mirror.mirror import Mirror
from modules.cloud.edgecontroller.mirror.mirrored_bodies import compact
from modules.cloud.storage.object_storage import Storage
from modules.cloud.storage.object_store import ObjectStore
from tests.modules.cloud.objects import configmap
from tests.support.presence import present

_MAP = kind_named("ConfigMap")
_POD = kind_named("Pod")
_KEY = ObjectKey("ConfigMap", "default", "settings")


def _observed(version: str, uid: str = "u1", name: str = "settings", /, **more: Any) -> ObservedObject:
    meta = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": version}
    body = json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, **more}).encode()
    return ObservedObject("default", name, uid, version, body)


class _OfStorage:
    """Changes of a configmap in the embedded API server's storage."""

    def __init__(self) -> None:
        self.storage = Storage(Simulation().clock)
        self.store: ObjectStore = self.storage

    def write(self, value: str) -> None:
        change = self.storage.create if self.storage.find(_KEY) is None else self.storage.replace
        change(configmap(value=value))

    def remove(self) -> None:
        self.storage.remove(_KEY)


class _OfMirror:
    """The same changes as an API server tells of them."""

    def __init__(self) -> None:
        self.mirror = Mirror()
        self.store: ObjectStore = self.mirror
        self._version = 1

    def write(self, value: str) -> None:
        self._version += 1
        self.mirror.observe(_MAP, _observed(str(self._version), data={"value": value}))

    def remove(self) -> None:
        self._version += 1
        self.mirror.remove(_KEY, str(self._version))


_Made = Callable[[], _OfStorage | _OfMirror]
_both = pytest.mark.parametrize("made", [_OfStorage, _OfMirror])


def _value(obj: JsonObject | None) -> str | None:
    return None if obj is None else obj["data"]["value"]


@_both
def test_each_change_is_an_event_with_the_object_before_and_after(made: _Made) -> None:
    """Added, modified, deleted, with a higher version each time; a deleted object's event has its last state."""
    changes = made()
    changes.write("a")
    changes.write("b")
    changes.remove()
    events = changes.store.drain_events()
    assert [event.type.value for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [(_value(event.old), _value(event.new)) for event in events] == [(None, "a"), ("a", "b"), ("b", "b")]
    versions = [int(event.new["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert changes.store.find(_KEY) is None
    assert changes.store.drain_events() == []


@_both
def test_changes_are_undone_to_the_savepoint(made: _Made) -> None:
    """Those before it stay, also of the same object; the undone ones are returned, newest first."""
    changes = made()
    changes.write("a")
    changes.store.drain_events()
    changes.store.set_savepoint()
    before = changes.store.revision_of(_KEY)
    changes.write("b")
    changes.remove()
    changes.write("c")
    undone = changes.store.roll_back()
    assert [event.type.value for event in undone] == ["ADDED", "DELETED", "MODIFIED"]
    assert _value(changes.store.find(_KEY)) == "a"
    assert changes.store.revision_of(_KEY) == before
    assert changes.store.drain_events() == []


@_both
def test_an_object_that_was_made_since_the_savepoint_is_gone_after_it_is_undone(made: _Made) -> None:
    """It can be made again."""
    changes = made()
    changes.store.set_savepoint()
    changes.write("a")
    changes.store.roll_back()
    assert changes.store.find(_KEY) is None
    assert changes.store.list(_MAP) == []
    changes.write("b")
    assert [event.type.value for event in changes.store.drain_events()] == ["ADDED"]


@_both
def test_a_revision_is_the_uid_and_version_of_the_object(made: _Made) -> None:
    """None for an object that is not there."""
    changes = made()
    assert changes.store.revision_of(_KEY) is None
    changes.write("a")
    meta = (changes.store.find(_KEY) or {})["metadata"]
    assert changes.store.revision_of(_KEY) == Revision(meta["uid"], meta["resourceVersion"])


@_both
def test_a_version_is_given_once(made: _Made) -> None:
    """Above other cloudcores' versions, and again after it was undone."""
    store = made().store
    store.adopt([], 41, complete=False)
    assert store.next_version() == 42
    store.roll_back()
    assert (store.version, store.next_version()) == (41, 42)


@pytest.fixture
def mirror() -> Mirror:
    return Mirror()


def test_fields_that_nobody_knows_survive(mirror: Mirror) -> None:
    """All but `managedFields`, numbers and order included."""
    odd = {"x": [1, 1.5, None, {"y": "é\u2028"}], "large": 2**63, "data": {"a": ""}}
    mirror.observe(_MAP, _observed("5", **odd))
    found = present(mirror.find(_KEY))
    assert {name: found[name] for name in odd} == odd


def test_managed_fields_are_not_kept() -> None:
    """They are a third of an object, and no node needs them."""
    body = (
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","managedFields":[{"a":1}],"uid":"u"},"data":{}}'
    )
    read = present(compact(_MAP, ObservedObject("", "c", "u", "1", body)))
    obj, kept = read
    assert json.loads(kept) == obj
    assert obj == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c", "uid": "u"}, "data": {}}


def test_an_object_of_the_same_process_stays_as_it_is() -> None:
    """The API server has it, too; the mirror keeps it without `managedFields`."""
    metadata = {"name": "c", "uid": "u", "managedFields": msgspec.Raw(b"[{}]")}
    shared: dict[str, Any] = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"a": "1"}}
    read = present(compact(_MAP, ObservedObject("", "c", "u", "1", shared=shared)))
    assert read[0] == json.loads(read[1]) == {**shared, "metadata": {"name": "c", "uid": "u"}}
    assert shared["metadata"] is metadata
    assert "managedFields" in metadata
    at_hand = ObservedObject("", "c", "u", "1", read[1], shared)
    assert (compact(_MAP, at_hand) or ({}, b""))[1] is read[1], "its JSON is not made again"


def test_what_only_looks_like_managed_fields_is_kept() -> None:
    """The word in an annotation, or in another part of the object."""
    body = (
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"},"data":{"managedFields":"\\"managedFields\\""}}'
    )
    read = present(compact(_MAP, ObservedObject("", "c", "u", "1", body)))
    assert read[0] == json.loads(body) == json.loads(read[1])


def test_an_object_gets_the_kind_that_was_asked_for() -> None:
    """Whatever the server calls it: edgecontroller finds it by its kind."""
    read = present(compact(_MAP, ObservedObject("", "c", "u", "1", b'{"apiVersion":"v2","metadata":{"name":"c"}}')))
    assert json.loads(read[1]) == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"metadata":[]}',
        b'{"metadata":["managedFields"]}',
        b'{"managedFields":1}',
        b"{",
        b'"\xff"',
        b'{"metadata":{},"a":' + b"[" * 5000,
    ],
)
def test_other_values_than_objects_change_nothing(
    mirror: Mirror, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The object that was there stays."""
    mirror.observe(_MAP, _observed("5", data={"value": "a"}))
    mirror.drain_events()
    with caplog.at_level(logging.CRITICAL):
        mirror.observe(_MAP, ObservedObject("default", "settings", "u1", "6", body))
    assert mirror.drain_events() == []
    assert mirror.revision_of(_KEY) == Revision("u1", "5")


def test_another_object_of_the_name_ends_the_one_before(mirror: Mirror) -> None:
    """A deletion with the last version, and an addition."""
    mirror.observe(_MAP, _observed("5", "u1"))
    mirror.drain_events()
    mirror.observe(_MAP, _observed("9", "u2"))
    events = [(event.type.value, event.new["metadata"]["uid"]) for event in mirror.drain_events()]
    assert events == [("DELETED", "u1"), ("ADDED", "u2")]
    mirror.roll_back()
    assert mirror.find(_KEY) is None


def test_an_equal_state_is_no_change(mirror: Mirror) -> None:
    """As after a restored etcd, when all objects are reported again."""
    mirror.observe(_MAP, _observed("5", data={"value": "a"}))
    mirror.drain_events()
    mirror.observe(_MAP, _observed("5", data={"value": "a"}))
    assert mirror.drain_events() == []


def test_many_objects_are_listed_in_order_and_found_each(mirror: Mirror) -> None:
    """More than are kept decoded; of one namespace and of all."""
    names = [f"c{number}" for number in range(200)]
    for number, name in enumerate(names):
        mirror.observe(_MAP, _observed(str(number + 1), f"u{number}", name, data={"value": name}))
    assert [obj["metadata"]["name"] for obj in mirror.list(_MAP)] == sorted(names)
    assert mirror.list(_MAP, "other") == []
    for name in names:
        assert _value(mirror.find(ObjectKey("ConfigMap", "default", name))) == name


def test_objects_in_the_database_of_a_cluster_are_not_taken_over(
    mirror: Mirror, caplog: pytest.LogCaptureFixture
) -> None:
    """The database may be one of an embedded API server by mistake."""
    mirror.adopt([(_KEY, configmap())], 7, complete=False)
    assert mirror.find(_KEY) is None
    assert mirror.version == 7
    assert "are not used" in caplog.text


@_both
def test_an_event_knows_whether_the_spec_is_another(made: _Made) -> None:
    """A configmap has no spec, so a change keeps it; creation and removal do not."""
    changes = made()
    changes.write("a")
    changes.write("b")
    changes.remove()
    assert [event.keeps_spec for event in changes.store.drain_events()] == [False, True, False]


def test_a_changed_spec_is_not_kept(mirror: Mirror) -> None:
    """A pod is bound: from then on its node needs what it refers to."""
    for version, spec in enumerate(({}, {"nodeName": "n1"}, {"nodeName": "n1"}), start=1):
        mirror.observe(_MAP, _observed(str(version), spec=spec))
    assert [event.keeps_spec for event in mirror.drain_events()] == [False, False, True]


@pytest.mark.parametrize("managed", [[], [{"manager": "kubectl"}]], ids=["without managers", "with managers"])
def test_a_status_from_the_same_process_shares_the_rest_of_its_pod(managed: list[JsonObject]) -> None:
    """Nothing that the status leaves as it is is copied; the mirror has the object itself, and its JSON when it is
    sent, also when that is no longer at hand. Managers are not sent.
    """
    storage, mirror = Storage(Simulation().clock), Mirror()
    pod: JsonObject = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"a": [1]},
    }
    old = storage.create({**pod, "metadata": {**pod["metadata"], "managedFields": managed}})
    status = {"phase": "Running"}
    new = storage.replace({**old, "status": status})
    assert new["spec"] is old["spec"]
    assert new["status"] is not status
    (_, event) = storage.drain_events()
    assert msgspec.json.decode(event.body) == msgspec.json.decode(msgspec.json.encode(new))
    key, version = ObjectKey("Pod", "default", "web"), new["metadata"]["resourceVersion"]
    observed = ObservedObject("default", "web", new["metadata"]["uid"], version, event.bare, new)
    mirror.observe(kind_named("Pod"), observed)
    found, sent = mirror.find(key), {**new, "metadata": {**new["metadata"]}}
    sent["metadata"].pop("managedFields", None)
    assert found is not None
    assert found["status"] is new["status"]
    for _ in range(2):
        assert msgspec.json.decode(mirror.bodies.body_of(key, version) or b"") == sent
        for number in range(100):  # more than are at hand
            mirror.observe(_MAP, _observed("7", "u7", f"m{number}"))
            mirror.find(ObjectKey("ConfigMap", "default", f"m{number}"))


def test_whether_a_pod_is_kept_whole_is_not_asked_for_each_status() -> None:
    """Another node would be another change."""
    asked = list[ObjectKey]()

    def keeps(key: ObjectKey, _obj: JsonObject, _size: int) -> bool:
        asked.append(key)
        return True

    mirror = Mirror(keeps)
    for version, before in (("5", ""), ("6", "5"), ("9", "8")):
        pod: JsonObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default", "uid": "u1", "resourceVersion": version},
            "spec": {"nodeName": "n1"},
        }
        mirror.observe(_POD, ObservedObject("default", "web", "u1", version, b"", pod, before))
    assert len(asked) == 2, "for the first state, and for one that does not follow the known one"
    assert [event.is_of_status for event in mirror.drain_events()] == [False, True, False]


@pytest.mark.parametrize("is_whole", [True, False])
def test_no_room_is_kept_behind_the_json_of_objects(*, is_whole: bool) -> None:
    kind, mirror, number = kind_named("ConfigMap"), Mirror(lambda *_: is_whole), 600
    body = msgspec.json.encode(
        {
            "kind": "ConfigMap", "apiVersion": "v1", "data": {"key": "x" * 1000},
            "metadata": {"name": "settings", "uid": "u" * 500, "managedFields": [{"manager": "kubectl"}]},
        }
    )  # fmt: skip
    mirror.observe(kind, ObservedObject("default", "first", "u", "1", body))  # what is made once is not counted
    tracemalloc.start()
    try:
        for at in range(number):
            mirror.observe(kind, ObservedObject("default", f"settings-{at}", "u", "1", body))
        mirror.drain_events()
        mirror.set_savepoint()
        mirror.bodies._at_hand.clear()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept = sum(len(present(mirror.bodies.get(key)).body) for key in (*mirror.bodies._objects["ConfigMap"],))
    assert taken < kept + 400 * number
