"""A start with a database that nodes have filled."""

from typing import Any

import msgspec

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.cloud.apiserver.loading import LoadedObjects

MIB = 1024 * 1024


def taken(loaded: LoadedObjects, obj: JsonObject) -> JsonObject | None:
    return loaded.admit(key_of(obj), obj, len(msgspec.json.encode(obj)))


def made(kind: str, name: str, *, mirror: bool = False, node: str = "", **members: Any) -> JsonObject:
    metadata = {"namespace": "default", "name": name, "annotations": {CONFIG_MIRROR: "x"} if mirror else {}}
    return {"kind": kind, "metadata": metadata, "spec": {"nodeName": node} if node else {}, **members}


def test_mirror_pods_beyond_the_quota_are_left_out() -> None:
    """The review's database: hundreds of 1.4 MB; another node's pods and all other objects stay."""
    loaded = LoadedObjects(lambda: None, Simulation().clock)
    large = [made("Pod", str(number), mirror=True, node="n1", status={"m": "x" * MIB}) for number in range(5)]
    assert [taken(loaded, each) for each in large] == [large[0], None, None, None, None]
    others = [
        made("Pod", "other", mirror=True, node="n2", status={"m": "x" * MIB}),
        made("Pod", "small", mirror=True, node="n1"),
        made("ConfigMap", "c", data={"a": "x" * MIB}),
        made("Pod", "waiting"),
        made("Event", "e"),
    ]
    assert [taken(loaded, each) for each in others] == others
    assert loaded.left_out == [ObjectKey("Pod", "default", str(number)) for number in range(1, 5)]


def test_of_statuses_beyond_the_quota_the_rest_of_the_object_stays() -> None:
    loaded = LoadedObjects(lambda: None, Simulation().clock)
    bound = [made("Pod", str(number), node="n1", status={"m": "x" * MIB}) for number in range(3)]
    assert [taken(loaded, each) for each in bound] == [bound[0], *({**each, "status": {}} for each in bound[1:])]
    large = {"kind": "Node", "metadata": {"name": "n2"}, "status": {"images": [{}] * 100_000}}
    assert taken(loaded, large) == {**large, "status": {}}
    assert loaded.left_out == []


def test_large_events_and_requests_are_left_out() -> None:
    loaded = LoadedObjects(lambda: None, Simulation().clock)
    for kind in ("Event", "CertificateSigningRequest"):
        assert taken(loaded, made(kind, "a", message="x" * MIB)) is None
    assert len(loaded.left_out) == 2
