"""Law of the indexes that follow changes: after any changes, also undone ones, each answers as one that was made of the
objects that there are.
"""

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, kind_named
from modules.apimachinery.lister import Lister
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.cloud.apiserver.garbage_collector.owners import OwnerIndex
from modules.cloud.apiserver.scheduling.rooms import NodeRooms
from modules.cloud.authentication.users import User
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.rbac.index import KINDS, RbacIndex
from modules.cloud.storage.object_storage import EventType, ObjectEvent

_SPACES = ("a", "b")
_NODES = ("n1", "n2")
_USERS = (User("ann"), User("system:serviceaccount:a:robot"), User("bob", groups=("team",)))
_SECRETS = [ObjectKey("Secret", space, name) for space in (*_SPACES, "default") for name in ("s1", "s2")]


class Life:
    """Objects that come, change and go at random."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - reproducible
        self.objects: dict[ObjectKey, JsonObject] = {}
        self.storage = cast("Lister", SimpleNamespace(find=self.objects.get))
        self._count = 0

    def change(self) -> ObjectEvent:
        """Create, change or delete an object."""
        made = self.random.choice((self._role, self._binding, self._pod, self._volume))()
        key = key_of(made)
        old = self.objects.get(key)
        if old is not None and self.random.random() < 0.3:
            del self.objects[key]
            return ObjectEvent(EventType.DELETED, key, old, old)
        if old is not None and self.random.random() < 0.3:
            made = {**made, "spec": old.get("spec"), "metadata": {**made["metadata"], "labels": {"only": "these"}}}
        self.objects[key] = made
        return ObjectEvent(EventType.MODIFIED if old is not None else EventType.ADDED, key, made, old)

    def undo(self, event: ObjectEvent) -> None:
        """Take a change back; the newest comes first."""
        if event.old is None:
            del self.objects[event.key]
        else:
            self.objects[event.key] = event.old

    def _one(self, *of: Any) -> Any:
        return self.random.choice(of)

    def _object(self, kind: str, name: str, **fields: Any) -> JsonObject:
        found = kind_named(kind)
        self._count += 1
        metadata: JsonObject = {"name": name, "uid": f"u{self._count}"}
        if found.namespaced:
            metadata["namespace"] = self._one(*_SPACES)
        if self.random.random() < 0.5:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": "p1", "uid": f"u{self.random.randint(1, 6)}"}
            metadata["ownerReferences"] = [{**owner, "blockOwnerDeletion": self.random.random() < 0.5}]
        return {"kind": kind, "apiVersion": found.api_version, "metadata": metadata, **fields}

    def _role(self) -> JsonObject:
        rules = [{"verbs": [self._one("get", "list")], "apiGroups": [""], "resources": [self._one("pods", "secrets")]}]
        return self._object(self._one("Role", "ClusterRole"), self._one("r1", "r2"), rules=rules)

    def _binding(self) -> JsonObject:
        subjects: list[JsonObject] = [
            {"kind": "User", "name": self._one("ann", "bob")},
            {"kind": "Group", "name": "team"},
            {"kind": "ServiceAccount", "name": "robot", **self._one({}, {"namespace": "a"}, {"namespace": "b"})},
        ]
        kind = self._one("RoleBinding", "ClusterRoleBinding")
        role = {"kind": self._one("Role", "ClusterRole") if kind == "RoleBinding" else "ClusterRole", "name": "r1"}
        chosen = self.random.sample(subjects, self.random.randint(0, 3))
        return self._object(kind, self._one("b1", "b2"), subjects=chosen, roleRef=role)

    def _pod(self) -> JsonObject:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": self._one("1", "2", "x")}}}
        spec: JsonObject = {"containers": [container], "priority": self._one(0, 0, 7)}
        if self.random.random() < 0.8:
            spec["nodeName"] = self._one(*_NODES)
        volume = self._one(
            {"secret": {"secretName": "s1"}}, {"persistentVolumeClaim": {"claimName": self._one("c1", "c2")}}, {}
        )
        spec["volumes"] = [{"name": "v", **volume}]
        pod = self._object("Pod", self._one("p1", "p2", "p3"), spec=spec)
        pod["status"] = {"phase": self._one("Pending", "Running", "Failed"), "message": "x" * self.random.randint(0, 9)}
        if self.random.random() < 0.3:
            pod["metadata"]["annotations"] = {CONFIG_MIRROR: "y"}
        return pod

    def _volume(self) -> JsonObject:
        secret = {"name": self._one("s1", "s2"), **self._one({}, {"namespace": "a"}, {"namespace": "b"})}
        source = self._one(
            {"csi": {"driver": "d", "nodePublishSecretRef": secret}},
            {"azureFile": {"secretName": "s1", **self._one({}, {"secretNamespace": "b"})}},
        )
        claim = {"namespace": self._one(*_SPACES), "name": self._one("c1", "c2")}
        return self._object("PersistentVolume", self._one("v1", "v2"), spec={**source, "claimRef": claim})


def _of_rbac(index: RbacIndex) -> Any:
    spaces = ("", *_SPACES)
    return [sorted(map(repr, index.grants(user, space))) for user in _USERS for space in spaces]


def _of_graph(graph: NodeGraph) -> Any:
    keys = [
        *_SECRETS,
        *(ObjectKey("PersistentVolume", "", name) for name in ("v1", "v2")),
        *(ObjectKey("PersistentVolumeClaim", space, name) for space in _SPACES for name in ("c1", "c2")),
    ]
    accounts = graph.accounts
    return (
        [(node, key) for node in _NODES for key in keys if graph.refers(node, key)],
        [dict(counter) for counter in (accounts._cost, accounts._mirrors, accounts._bound)],
    )


def _of_owners(index: OwnerIndex) -> Any:
    uids = [f"u{number}" for number in range(1, 7)]
    blocked = [(uid, space) for uid in uids for space in ("", *_SPACES) if index.is_blocked(uid, space)]
    return [sorted(index.dependents_of(uid)) for uid in uids], blocked


def _of_rooms(rooms: NodeRooms) -> Any:
    return [
        (
            room.name, {name: amount for name, amount in room.used.items() if amount}, dict(room.counted),
            room.lowest_priority, room.is_readable, sorted(map(key_of, room.pods)),
        )
        for room in rooms.rooms.values()
    ]  # fmt: skip


def _made_of(life: Life, simulation: Simulation) -> Iterator[Any]:
    objects = [*life.objects.values()]
    rbac, graph, owners = RbacIndex(), NodeGraph(life.storage, simulation.clock), OwnerIndex()
    rbac.load(each for each in objects if each["kind"] in KINDS)
    graph.add_objects(objects)
    for key, obj in life.objects.items():
        owners.change(key, None, obj)
    yield from (_of_rbac(rbac), _of_graph(graph), _of_owners(owners), _of_rooms(_filled(NodeRooms(), life)))


def _filled(rooms: NodeRooms, life: Life) -> NodeRooms:
    rooms.set_nodes([{"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}} for name in _NODES])
    for name in _NODES:
        pods = [each for each in life.objects.values() if each["kind"] == "Pod"]
        rooms.set_pods(name, [each for each in pods if each["spec"].get("nodeName") == name])
    return rooms


@pytest.mark.parametrize("seed", range(12))
def test_an_index_that_follows_changes_is_as_one_made_of_the_objects(seed: int) -> None:
    life, simulation = Life(seed), Simulation()
    rbac, graph, owners, rooms = RbacIndex(), NodeGraph(life.storage, simulation.clock), OwnerIndex(), NodeRooms()
    for _ in range(40):
        events = [life.change() for _ in range(life.random.randint(1, 3))]
        for event in events:
            graph.handle_event(event)
            owners.change(event.key, event.old, None if event.type is EventType.DELETED else event.new)
        if life.random.random() < 0.3:  # the transaction fails
            for event in reversed(events):
                life.undo(event)
                graph.roll_back(event)
                owners.change(event.key, None if event.type is EventType.DELETED else event.new, event.old)
        else:
            for event in events:  # RBAC follows what was committed
                rbac.handle_event(event)
        _filled(rooms, life)
        followed = (_of_rbac(rbac), _of_graph(graph), _of_owners(owners), _of_rooms(rooms))
        for ours, made in zip(followed, _made_of(life, simulation), strict=True):
            assert ours == made
