"""Lists in parts: in order, each part as long as was asked for, while objects come and go."""

import random
from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named
from modules.cloud.apiserver.api_calls import serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import ApiCall
from modules.cloud.storage.object_storage import Storage
from modules.cloud.storage.past_states import BYTES, CHANGES
from tests.modules.cloud.objects import configmap, pod
from tests.support.presence import present

_MAP = kind_named("ConfigMap")


def _listed(cluster: Cluster, namespace: str = "", **options: object) -> JsonObject:
    call = ApiCall(verb="list", api_version="v1", plural="configmaps", namespace=namespace, options=options)
    return present(serve(cluster, call).object)


def _refused(cluster: Cluster, **options: object) -> JsonObject:
    call = ApiCall(verb="list", api_version="v1", plural="configmaps", options=options)
    return present(serve(cluster, call).refusal)


def _names(objects: list[JsonObject]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def _cluster(*names: str) -> Cluster:
    cluster = Cluster(Simulation().clock)
    for name in names:
        cluster.storage.create(configmap(name))
    return cluster


_MATCH = "resourceVersionMatch"
_NO_VERSION = f"Forbidden: {_MATCH} is forbidden unless resourceVersion is provided"
_TOKEN = f"Forbidden: {_MATCH} is forbidden when continue is provided"
_EXACT = f'Forbidden: {_MATCH} "exact" is forbidden for resourceVersion "0"'
_UNKNOWN = 'Unsupported value: "Bad": supported values: "Exact", "NotOlderThan", ""'


@pytest.mark.parametrize(
    ("options", "causes"),
    [
        ({_MATCH: "Exact"}, [_NO_VERSION]),
        ({_MATCH: "Bad"}, [_NO_VERSION, _UNKNOWN]),
        ({_MATCH: "Bad", "continue": "x"}, [_NO_VERSION, _TOKEN, _UNKNOWN]),
        ({_MATCH: "Bad", "continue": "x", "resourceVersion": "1"}, [_TOKEN, _UNKNOWN]),
        ({_MATCH: "Exact", "resourceVersion": "0"}, [_EXACT]),
    ],
)  # fmt: skip
def test_all_faults_of_the_options_are_told(options: dict[str, str], causes: list[str]) -> None:
    refused = _refused(_cluster(), **options)
    assert (refused["code"], [each["message"] for each in refused["details"]["causes"]]) == (422, causes)


@pytest.mark.parametrize(
    ("version", "why"), [("bad", "invalid syntax"), ("-1", "invalid syntax"), ("9" * 20, "value out of range")]
)
def test_a_version_that_is_no_number(version: str, why: str) -> None:
    said = f'invalid resource version: resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing '
    assert _refused(_cluster(), resourceVersion=version)["message"] == f'{said}"{version}": {why}'


def test_a_deleted_collection_is_shown_as_it_was() -> None:
    """Also objects that stay for their finalizers, as at kube-apiserver."""
    cluster = Cluster(Simulation().clock)
    made = configmap("a")
    before = cluster.create({**made, "metadata": {**made["metadata"], "finalizers": ["example.org/a"]}})
    call = ApiCall(verb="deletecollection", api_version="v1", plural="configmaps", namespace="default")
    assert present(serve(cluster, call).object)["items"] == [before]
    assert cluster.storage.get(ObjectKey("ConfigMap", "default", "a"))["metadata"]["deletionTimestamp"]


def test_parts_of_a_list_are_in_order_and_say_how_many_objects_follow() -> None:
    """The last part has no token, also when it is full."""
    cluster = _cluster("d", "a", "c", "b")
    first = _listed(cluster, limit=2)
    assert (_names(first["items"]), first["metadata"]["remainingItemCount"]) == (["a", "b"], 2)
    second = _listed(cluster, limit=2, **{"continue": first["metadata"]["continue"]})
    assert _names(second["items"]) == ["c", "d"]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


def test_a_part_of_a_list_has_fewer_objects_when_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five hundred, as kubectl asks for, would be half a gigabyte."""
    monkeypatch.setattr("modules.cloud.apiserver.api_lists.PART_BYTES", 1000)
    cluster = Cluster(Simulation().clock)
    for name in "abcde":
        cluster.storage.create(configmap(name, a="x" * 600))
    parts: list[list[str]] = []
    token = ""
    while token or not parts:
        part = _listed(cluster, limit=500, **{"continue": token})
        parts.append(_names(part["items"]))
        token = part["metadata"].get("continue", "")
    assert parts == [["a", "b"], ["c", "d"], ["e"]]
    assert _names(_listed(cluster)["items"]) == [*"abcde"]


def test_all_parts_of_a_list_are_of_one_version() -> None:
    """What is made, changed and removed meanwhile is not in the later parts; a new list has it."""
    cluster = _cluster("a", "b", "d", "e")
    first = _listed(cluster, limit=2)
    for name in ("b", "e"):
        cluster.storage.remove(ObjectKey("ConfigMap", "default", name))
    for name in ("aa", "c"):
        cluster.storage.create(configmap(name))
    cluster.storage.replace({**configmap("d"), "data": {"new": "1"}})
    second = _listed(cluster, limit=2, **{"continue": first["metadata"]["continue"]})
    assert _names(second["items"]) == ["d", "e"]
    assert second["items"][0]["data"] == configmap("d")["data"]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}
    assert _names(_listed(cluster)["items"]) == ["a", "aa", "c", "d"]


@pytest.mark.parametrize("seed", range(5))
def test_an_earlier_state_is_read_as_it_was(seed: int) -> None:
    """After any changes and rollbacks, by an exact list, whole and in parts."""
    source, storage = Simulation(seed).clock.random, Storage(Simulation(seed).clock)
    cluster = Cluster(Simulation(seed).clock, storage=storage)
    states: dict[int, list[JsonObject]] = {}
    for _ in range(60):
        storage.drain_events()
        storage.set_savepoint()
        for _ in range(source.randint(1, 3)):
            _change(storage, f"m{source.randrange(8)}", source)
        if source.random() < 0.3:
            storage.roll_back()
        states[storage.version] = storage.list(_MAP)
    for version, objects in states.items():
        exact: dict[str, Any] = {"resourceVersion": str(version), "resourceVersionMatch": "Exact"}
        whole = _listed(cluster, **exact)
        assert (whole["items"], whole["metadata"]) == (objects, {"resourceVersion": str(version)})
        part = _listed(cluster, limit=3, **exact)
        read = part["items"]
        while "continue" in part["metadata"]:
            part = _listed(cluster, limit=3, **{"continue": part["metadata"]["continue"]})
            read += part["items"]
        assert read == objects


def _change(storage: Storage, name: str, source: random.Random) -> None:
    if storage.find(ObjectKey("ConfigMap", "default", name)) is None:
        storage.create(configmap(name))
    elif source.random() < 0.5:
        storage.replace({**configmap(name), "data": {"value": str(source.random())}})
    else:
        storage.remove(ObjectKey("ConfigMap", "default", name))


def test_a_list_whose_state_is_forgotten_has_expired() -> None:
    """The refusal of a part brings a token, which goes on with the present objects; an exact list's brings none."""
    cluster = _cluster("a", "b", "d")
    first = _listed(cluster, limit=2)
    cluster.storage.create(configmap("c"))
    cluster.storage.forget_past()
    refusal = _refused(cluster, limit=2, **{"continue": first["metadata"]["continue"]})
    assert (refusal["code"], refusal["reason"]) == (410, "Expired")
    rest = _listed(cluster, limit=2, **{"continue": refusal["metadata"]["continue"]})
    assert _names(rest["items"]) == ["c", "d"]
    assert rest["metadata"]["resourceVersion"] == str(cluster.storage.version)
    version = first["metadata"]["resourceVersion"]
    assert _refused(cluster, limit=2, resourceVersion=version)["metadata"] == {}


def test_a_state_is_forgotten_after_some_compactions() -> None:
    """Also where hardly anything changes, as by the compaction of etcd; the state of the oldest one is still known."""
    cluster = _cluster("a", "b", "d")
    token = _listed(cluster, limit=2)["metadata"]["continue"]
    cluster.storage.create(configmap("c"))
    kept = _listed(cluster, limit=3)["metadata"]["continue"]
    for _ in range(3):
        cluster.storage.compact()
        cluster.storage.create(configmap("e"))
        cluster.storage.remove(ObjectKey("ConfigMap", "default", "e"))
        assert _names(_listed(cluster, **{"continue": token})["items"]) == ["d"]
    cluster.storage.compact()
    refusal = _refused(cluster, **{"continue": token})
    assert refusal["code"] == 410
    assert _names(_listed(cluster, **{"continue": refusal["metadata"]["continue"]})["items"]) == ["c", "d"]
    assert _names(_listed(cluster, **{"continue": kept})["items"]) == ["d"]


def test_the_past_is_bounded() -> None:
    """By the number of changes and by their bytes, for each kind; other kinds keep theirs."""
    cluster = _cluster("a", "b")
    token = _listed(cluster, limit=1)["metadata"]["continue"]
    for number in range(CHANGES):
        cluster.storage.replace({**configmap("a"), "data": {"value": str(number)}})
    assert _names(_listed(cluster, **{"continue": token})["items"]) == ["b"]
    cluster.storage.create(configmap("c"))
    assert _refused(cluster, **{"continue": token})["code"] == 410
    token = _listed(cluster, limit=1)["metadata"]["continue"]
    for number in range(4):
        cluster.storage.replace({**configmap("b"), "data": {"value": f"{number}" * (BYTES // 4)}})
    assert _refused(cluster, **{"continue": token})["code"] == 410


def test_of_the_changes_of_another_cloudcore_only_the_last_state_is_known() -> None:
    """A list of a version in between has expired; one of the version before is read."""
    cluster = _cluster("a", "b")
    storage = cluster.storage
    before, other = storage.version, storage.get(ObjectKey("ConfigMap", "default", "b"))
    changed = {**other, "metadata": {**other["metadata"], "resourceVersion": str(before + 3)}, "data": {"new": "1"}}
    storage.drain_events()
    storage.adopt([(ObjectKey("ConfigMap", "default", "b"), changed)], before + 3, complete=False)
    exact = {"resourceVersionMatch": "Exact"}
    assert _listed(cluster, resourceVersion=str(before), **exact)["items"][1] == other
    assert _listed(cluster, resourceVersion=str(before + 3), **exact)["items"][1] == changed
    assert _refused(cluster, resourceVersion=str(before + 1), **exact)["code"] == 410


def test_a_selected_list_has_full_parts_and_no_count() -> None:
    """As an API server's: it would have to look at all objects."""
    cluster = _cluster("a", "b", "c", "d")
    listed = _listed(cluster, limit=2, fieldSelector="metadata.name!=b")
    assert _names(listed["items"]) == ["a", "c"]
    assert set(listed["metadata"]) == {"resourceVersion", "continue"}


def test_a_list_of_a_namespace_counts_its_objects() -> None:
    """Objects of other namespaces are neither listed nor counted."""
    cluster = _cluster("a", "b", "c")
    other = configmap("a")
    cluster.storage.create({**other, "metadata": {"name": "a", "namespace": "z"}})
    listed = _listed(cluster, "default", limit=2)
    assert (_names(listed["items"]), listed["metadata"]["remainingItemCount"]) == (["a", "b"], 1)
    assert _names(_listed(cluster, "z", limit=2)["items"]) == ["a"]


def test_the_order_follows_objects_that_come_and_go() -> None:
    """Also when a change is undone."""
    storage = Storage(Simulation().clock)
    for name in ("c", "a"):
        storage.create(configmap(name))
    assert _names(storage.list(_MAP)) == ["a", "c"]
    storage.drain_events()
    storage.set_savepoint()
    storage.create(configmap("b"))
    storage.remove(ObjectKey("ConfigMap", "default", "a"))
    assert _names(storage.list(_MAP)) == ["b", "c"]
    storage.roll_back()
    assert _names(storage.list(_MAP)) == ["a", "c"]


@pytest.mark.parametrize("seed", range(8))
def test_selected_lists_and_counts_equal_a_walk_through_all_objects(seed: int) -> None:
    """By node in parts, by name and by namespace, at the present and at an earlier version, after any changes."""
    source, cluster = Simulation(seed).clock.random, Cluster(Simulation(seed).clock)
    past = [(cluster.storage.version, list[JsonObject]())]
    for _ in range(40):
        _change_pod(cluster.storage, source)
        cluster.storage.drain_events()
        cluster.storage.set_savepoint()
        _change_pod(cluster.storage, source)
        if source.random() < 0.3:
            cluster.storage.roll_back()
        past.append((cluster.storage.version, cluster.storage.list(kind_named("Pod"))))
    for version, pods in (past[-1], source.choice(past[1:])):
        exact = {"resourceVersion": str(version), "resourceVersionMatch": "Exact"}
        for namespace in ("", "a", "b"):
            there = [pod for pod in pods if namespace in ("", pod["metadata"]["namespace"])]
            for node in ("", "n1", "n2", "unknown"):
                found = _listed_in_parts(cluster, namespace, f"spec.nodeName={node}", exact)
                assert found == [pod for pod in there if pod["spec"].get("nodeName", "") == node]
            named = _listed_pods(cluster, namespace, fieldSelector="metadata.name=p1", **exact)
            assert named["items"] == [pod for pod in there if pod["metadata"]["name"] == "p1"]
            part = _listed_pods(cluster, namespace, limit=2, **exact)
            assert part["metadata"].get("remainingItemCount", 0) == max(0, len(there) - 2)


def _listed_pods(cluster: Cluster, namespace: str, **options: object) -> JsonObject:
    call = ApiCall(verb="list", api_version="v1", plural="pods", namespace=namespace, options=options)
    return present(serve(cluster, call).object)


def _listed_in_parts(cluster: Cluster, namespace: str, selector: str, options: dict[str, str]) -> list[JsonObject]:
    found = list[JsonObject]()
    while options:
        part = _listed_pods(cluster, namespace, fieldSelector=selector, limit=2, **options)
        found += part["items"]
        options = {name: token for name, token in part["metadata"].items() if name == "continue"}
    return found


def _change_pod(storage: Storage, source: random.Random) -> None:
    """Makes a pod, binds it to another node, or removes it."""
    key = ObjectKey("Pod", source.choice("ab"), f"p{source.randrange(5)}")
    live, node = storage.find(key), source.choice(("", "n1", "n2"))
    if live is None:
        made = pod(key.name, nodeName=node)
        storage.create({**made, "metadata": {"name": key.name, "namespace": key.namespace}})
    elif source.random() < 0.6:
        storage.replace({**live, "spec": {**live["spec"], "nodeName": node}})
    else:
        storage.remove(key)
