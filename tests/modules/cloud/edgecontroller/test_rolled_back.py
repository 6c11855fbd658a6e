"""What a transaction has changed in memory is taken back whole when it is lost."""

from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, kind_named
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.edgecontroller.mirror.mirror import Mirror
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from tests.modules.cloud.edgecontroller.controller import lone_downstream

Change = tuple[str, str, int, str, bool]
"""Kind and name of an object, its uid, what it refers to, and whether it is deleted."""
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["Pod", "ConfigMap", "Secret", "PersistentVolume", "Node"]),
        st.sampled_from("ab"),
        st.integers(1, 2),
        st.sampled_from("abc"),
        st.booleans(),
    ),
    max_size=8,
)


def made(change: Change, version: int) -> JsonObject:
    """Return the object of a change."""
    kind, name, uid, other, _ = change
    of = kind_named(kind)
    metadata = {"name": name, "uid": f"{kind}-{name}-{uid}", "resourceVersion": str(version)}
    if of.namespaced:
        metadata["namespace"] = "default"
    spec: JsonObject = {}
    if kind == "Pod":
        volumes = [{"secret": {"secretName": other}}, {"configMap": {"name": other}}]
        volume = {"name": "v", **volumes[uid - 1]}
        spec = {"nodeName": f"node-{other}", "containers": [{"name": "c"}], "volumes": [volume]}
    elif kind == "PersistentVolume":
        spec = {"csi": {"nodePublishSecretRef": {"name": other, "namespace": "default"}}}
    return {"kind": kind, "apiVersion": of.api_version, "metadata": metadata, "spec": spec}


class Books:
    """The mirror, and what follows from it: the graph of the authorizer and the places of objects."""

    def __init__(self) -> None:
        self.mirror = Mirror()
        self.graph = NodeGraph(self.mirror, Simulation().clock)
        syncs = ObjectSyncs(lambda _node, _uid, _sync: None)
        self.downstream = lone_downstream(self.mirror, syncs)
        self._version = 0

    def change(self, changes: list[Change]) -> None:
        """Take changes as edgecontroller does in a transaction."""
        for each in changes:
            self._version += 1
            self.mirror.next_version()
            obj = made(each, self._version)
            if each[-1]:
                self.mirror.remove(key_of(obj), str(self._version))
            else:
                meta = obj["metadata"]
                body = msgspec.json.encode(obj)
                namespace = meta.get("namespace", "")
                seen = ObservedObject(namespace, meta["name"], meta["uid"], meta["resourceVersion"], body)
                self.mirror.observe(kind_named(each[0]), seen)
            for event in self.mirror.drain_events():
                self.graph.handle_event(event)
                self.downstream.handle_event(event)

    def begin(self) -> None:
        """Begin a transaction."""
        self.mirror.set_savepoint()

    def roll_back(self) -> None:
        """Lose the transaction."""
        for event in self.mirror.roll_back():
            self.graph.roll_back(event)
            self.downstream.roll_back(event)

    def all(self) -> dict[str, Any]:
        """Return everything in them; of the places what pods say, as nobody has asked for an object."""
        locations = self.downstream.locations
        places = {"references": locations._references, "pods": locations._pods, "holders": locations._nodes}
        version = self.mirror.version
        return {
            "version": version,
            "mirror": plain(self.mirror.bodies._objects),
            "graph": plain(self.graph),
            **plain(places),
        }


def plain(thing: Any) -> Any:
    """Return an object of the product as plain dictionaries, without the empty ones that a look leaves."""
    if isinstance(thing, Mapping):
        found = {key: plain(value) for key, value in thing.items()}
        return {key: value for key, value in found.items() if value != {}}
    if isinstance(thing, msgspec.Struct | tuple | list | str | int | bytes) or thing is None:
        return thing
    if type(thing).__module__.startswith("modules.") and not isinstance(thing, Mirror):
        return plain({name: value for name, value in vars(thing).items() if not callable(value)})
    return ""


@settings(max_examples=150, deadline=None)
@given(before=CHANGES, lost=CHANGES)
def test_a_lost_transaction_leaves_all_books_as_they_were(before: list[Change], lost: list[Change]) -> None:
    books = Books()
    books.change(before)
    books.begin()
    was = books.all()
    books.change(lost)
    books.roll_back()
    assert books.all() == was


def test_the_books_that_are_compared_have_content() -> None:
    books = Books()
    books.change(
        [("Pod", "a", 1, "b", False), ("Secret", "b", 1, "a", False), ("PersistentVolume", "a", 1, "c", False)]
    )
    found = books.all()
    assert all(found.values()), found
    assert ObjectKey("Secret", "default", "b") in found["holders"]
