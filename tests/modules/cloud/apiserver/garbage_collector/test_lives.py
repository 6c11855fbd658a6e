"""Laws of garbage collection over random lives: owners, policies, finalizers, cloudcores, transactions without room.

Nothing is deleted that has a living owner, a deletion in the foreground ends after the dependents that block it, and at
rest nothing is left whose owners are gone.
"""

from random import Random
from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.graceful_deletion import FINALIZER_OF, FOREGROUND, ORPHAN, finalizers_of
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, metadata_of, uid_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.custom_resource_controller import CLEANUP
from modules.cloud.apiserver.garbage_collector import collector, plan
from modules.cloud.apiserver.garbage_collector.collector import GarbageCollector
from modules.cloud.apiserver.garbage_collector.owners import OwnerReference, references_of
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from tests.modules.cloud.apiserver.garbage_collector.world import POD, World

_FINALIZER = "clean.example/up"
_GROUP = "shop.example/v1"
_DEFINITIONS = {"api_version": "apiextensions.k8s.io/v1", "namespace": ""}
_MERGE = {"patch_type": "application/merge-patch+json"}
_VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/v"}}
_PLURALS = {
    "ConfigMap": "configmaps",
    "Pod": "pods",
    "PersistentVolume": "persistentvolumes",
    "Robot": "robots",
    "Namespace": "namespaces",
}


class Life(World):
    """Users' calls, each in a transaction of one of the cloudcores, whose collectors act now or later."""

    def __init__(self, seed: int, cloudcores: int) -> None:
        self.simulation = Simulation(0)
        self.cluster = Cluster(self.simulation.clock)
        self.collectors = [GarbageCollector(self.cluster) for _ in range(cloudcores)]
        self.collector = self.collectors[0]
        """Of the cloudcore that has the next call."""
        self.random = Random(seed)  # noqa: S311 - reproducible
        self.objects: dict[ObjectKey, JsonObject] = {}
        """As of the last event."""
        self.gone: list[JsonObject] = []
        """Former objects, which may be named as owners."""

    def settle(self, most: int = 3) -> None:
        """End the transaction of a call: with some parts of the garbage collection, and perhaps without room."""
        acting, others = self.collector, [one for one in self.collectors if one is not self.collector]
        self.collector = self.random.choice(self.collectors)
        before = dict(self.objects)
        events = self._noted(acting, is_collected=False)
        for _ in range(self.random.randint(0, most)):
            acting.collect()
            events += self._noted(acting, is_collected=True)
        if events and self.random.random() < 0.1 and most == 3:
            for event in self.cluster.storage.roll_back():
                acting.roll_back(event)
            self.objects = before
        else:
            for other in others:
                for event in events:
                    other.handle_event(event)
            self.cluster.storage.set_savepoint()
        ending = {key.name for key, obj in self.objects.items() if key.kind == "Namespace" and is_being_deleted(obj)}
        assert [one._terminating for one in self.collectors] == [ending for _ in self.collectors]

    def rest(self) -> None:
        """Collect what is left, and check what is there then."""
        for _ in range(200):
            if not any(one.has_work for one in self.collectors):
                break
            self.settle(9)
        assert not any(one.has_work for one in self.collectors)
        for key, obj in self.objects.items():
            self._check_rest(key, obj)

    def step(self) -> None:
        """One call."""
        self.simulation.run_for(1)
        present = [obj for obj in self.objects.values() if obj["kind"] in _PLURALS]
        match self.random.randrange(12):
            case 0 | 1 | 2 | 3 | 4:
                self._make()
            case 5 | 6 | 7 if present:
                obj = self.random.choice(present)
                policy = self.random.choice(("Background", "Foreground", "Orphan"))
                dry = self.random.choice(([], [], [], ["All"]))
                self._call("delete", obj, options={"propagationPolicy": policy, "dryRun": dry})
            case 8 if present:
                obj = self.random.choice(present)
                references = [self._reference(one) for one in self._owners(metadata_of(obj).get("namespace", ""))]
                self._call("patch", obj, {"metadata": {"ownerReferences": references or None}}, **_MERGE)
            case 9 | 10:
                for obj in [one for one in present if _FINALIZER in finalizers_of(one)][:2]:
                    kept = [name for name in finalizers_of(obj) if name != _FINALIZER]
                    self._call("patch", obj, {"metadata": {"finalizers": kept or None}}, **_MERGE)
                for obj in [one for one in present if one["kind"] == "Pod" and is_being_deleted(one)][:1]:
                    self._call("delete", obj, options={"gracePeriodSeconds": 0})
            case 11:
                self._begin_again()

    def _call(self, verb: str, obj: JsonObject, body: Any = None, **fields: Any) -> None:
        metadata = metadata_of(obj)
        self(verb, _PLURALS[obj["kind"]], metadata["name"], body, namespace=metadata.get("namespace", ""),
             api_version=obj["apiVersion"], **fields)  # fmt: skip

    def _begin_again(self) -> None:
        """A cloudcore begins again, a custom kind goes or comes, or conditions of namespaces are brought up to date."""
        match self.random.randrange(3):
            case 0 if len(self.collectors) > 1:
                self.collectors[1] = self.collector = GarbageCollector(self.cluster)
                for key, obj in self.objects.items():
                    self.collectors[1].add(key, obj)
            case 1 if ObjectKey("CustomResourceDefinition", "", "robots.shop.example") in self.objects:
                self("delete", "customresourcedefinitions", "robots.shop.example", **_DEFINITIONS)
            case 1:
                self.make_kind()
            case _:
                for one in self.collectors:
                    one.overdue()

    def make_kind(self) -> None:
        """Make a namespace, and a custom kind."""
        self("create", "namespaces", body={"metadata": {"name": "there"}}, namespace="")
        names = {"kind": "Robot", "plural": "robots", "singular": "robot", "listKind": "RobotList"}
        schema = {"openAPIV3Schema": {"type": "object"}}
        versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
        spec = {"group": "shop.example", "scope": "Namespaced", "names": names, "versions": versions}
        body = {"metadata": {"name": "robots.shop.example"}, "spec": spec}
        self("create", "customresourcedefinitions", body=body, **_DEFINITIONS)

    def _make(self) -> None:
        namespace = self.random.choice(("ns", "ns", "ns", "there"))
        name, finalizers = f"o{self.random.randrange(12)}", self.random.choice(([], [], [], [_FINALIZER]))
        owners = self._owners(namespace)
        fields: dict[str, Any] = {"namespace": namespace}
        match self.random.randrange(8):
            case 0:
                fields |= {"plural": "robots", "api_version": _GROUP}
            case 1:
                fields, owners = {"plural": "persistentvolumes", "namespace": "", "body": {"spec": _VOLUME}}, []
            case 2:
                fields |= {"plural": "pods", "body": POD}
        self.make(name, *owners, blocks=self.random.random() < 0.5, metadata={"finalizers": finalizers}, **fields)

    def _owners(self, namespace: str) -> list[JsonObject]:
        """Draw some owners for an object in a namespace."""
        found = [obj for obj in self.objects.values()
                 if obj["kind"] in ("ConfigMap", "Robot", "PersistentVolume")
                 and metadata_of(obj).get("namespace", namespace) == namespace]  # fmt: skip
        ghosts = (
            self.random.sample(self.gone, min(len(self.gone), self.random.choice((0, 0, 0, 0, 1)))) if namespace else []
        )
        found = sorted(found, key=lambda obj: obj["kind"] != "Robot")[:3]  # few: some have more dependents than a plan
        return [*self.random.sample(found, min(len(found), self.random.choice((0, 1, 1, 2)))), *ghosts]

    def _reference(self, owner: JsonObject) -> JsonObject:
        about = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
        return {**about, "uid": uid_of(owner), "blockOwnerDeletion": self.random.random() < 0.5}

    def _noted(self, acting: GarbageCollector, *, is_collected: bool) -> list[ObjectEvent]:
        events = self.cluster.storage.drain_events()
        for event in events:
            acting.handle_event(event)
            if is_collected and event.old is not None:
                self._check_change(event, event.old)
            if event.key.kind == "Namespace" and event.old is not None:
                self._check_conditions(event.new, event.old)
            if event.type is EventType.DELETED:
                gone = self.objects.pop(event.key)
                self.gone += [gone] if gone["kind"] == "ConfigMap" else []
            else:
                self.objects[event.key] = event.new
        return events

    def _owner(self, key: ObjectKey, reference: OwnerReference) -> JsonObject | None:
        kinds = (reference.kind, f"{reference.kind}.shop.example")
        places = (ObjectKey(kind, place, reference.name) for kind in kinds for place in (key.namespace, ""))
        found = (self.objects.get(place) for place in places)
        return next((one for one in found if one is not None and uid_of(one) == reference.uid), None)

    def _dependents(self, uid: str, namespace: str = "", *, blocking: bool = False) -> list[JsonObject]:
        return [obj for key, obj in self.objects.items()
                if (not namespace or key.namespace == namespace)
                and any(one.uid == uid and (one.blocks or not blocking) for one in references_of(obj))]  # fmt: skip

    def _lives(self, key: ObjectKey, reference: OwnerReference) -> bool:
        owner = self._owner(key, reference)
        return owner is not None and not _waits(owner)

    def _check_change(self, event: ObjectEvent, old: JsonObject) -> None:
        """Check a change that a collector has made."""
        key, new, uid = event.key, event.new, uid_of(event.new)
        begins = not is_being_deleted(old) and (event.type is EventType.DELETED or is_being_deleted(new))
        namespace = self.objects.get(ObjectKey("Namespace", "", key.namespace))
        added, dropped = ({*finalizers_of(one)} - {*finalizers_of(other)} for one, other in ((new, old), (old, new)))
        if begins and not (namespace and is_being_deleted(namespace)):
            assert references_of(old), f"{key} has no owner that could be gone"
            assert not any(self._lives(key, one) for one in references_of(old)), f"{key} has a living owner"
            if FINALIZER_OF[FOREGROUND] in added:
                assert self._dependents(uid), f"{key} has nothing to wait for"
        assert _FINALIZER not in dropped
        if FINALIZER_OF[ORPHAN] in dropped:
            assert not self._dependents(uid), f"{key} ends before its orphans are free"
        if FINALIZER_OF[FOREGROUND] in dropped:
            assert not self._dependents(uid, key.namespace, blocking=True), f"{key} ends before its dependents"

    def _check_conditions(self, new: JsonObject, old: JsonObject) -> None:
        """The time of a namespace's condition is that of the last change of its status."""
        before = {one["type"]: one for one in (old.get("status") or {}).get("conditions", [])}
        for one in (new.get("status") or {}).get("conditions", []):
            was = before.get(one["type"], {})
            is_kept = was.get("status") == one["status"]
            now = format_rfc3339(self.simulation.clock.now())
            assert one["lastTransitionTime"] == (was["lastTransitionTime"] if is_kept else now)

    def _check_rest(self, key: ObjectKey, obj: JsonObject) -> None:
        """Check an object when the collectors have nothing left to do."""
        finalizers, waits_for = {*finalizers_of(obj)}, self._dependents(uid_of(obj), key.namespace, blocking=True)
        if not is_being_deleted(obj):
            for one in references_of(obj):
                assert self._lives(key, one), f"{key} has an owner that is gone: {one}"
            namespace = self.objects.get(ObjectKey("Namespace", "", key.namespace))
            assert namespace is None or not is_being_deleted(namespace)
            return
        assert FINALIZER_OF[ORPHAN] not in finalizers, f"{key} waits for its orphans"
        if FINALIZER_OF[FOREGROUND] in finalizers:
            assert any(is_being_deleted(one) for one in waits_for), f"{key} waits for nothing"
        elif CLEANUP in finalizers:
            assert any(other.kind == "Robot.shop.example" for other in self.objects), f"{key} waits for nothing"
        elif key.kind == "Namespace":
            assert any(other.namespace == key.name for other in self.objects), f"{key} waits for nothing"
        else:
            assert _FINALIZER in finalizers or key.kind == "Pod", f"{key} waits for nothing"


def _waits(obj: JsonObject) -> bool:
    return is_being_deleted(obj) and FINALIZER_OF[FOREGROUND] in finalizers_of(obj)


@pytest.mark.parametrize("cloudcores", [1, 2])
def test_the_laws_hold(cloudcores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (collector, plan):
        monkeypatch.setattr(module, "MOST", 2)  # few objects are more than one plan has room for
    for seed in range(15):
        life = Life(seed, cloudcores)
        life.make_kind()
        for number in range(100):
            life.step()
            if number % 10 == 9:
                life.rest()
