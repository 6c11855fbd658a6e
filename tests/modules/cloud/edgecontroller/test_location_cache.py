"""The nodes that are sent an object: while their pods refer to it."""

from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.edgecontroller.downstream.location_cache import LocationCache

KEY = ObjectKey("Secret", "default", "key")
PULL: dict[str, Any] = {"imagePullSecrets": [{"name": "key"}]}


def pod(node: str = "n1", **spec: Any) -> JsonObject:
    """A bound pod."""
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": {"nodeName": node, **spec}}


def key(name: str) -> ObjectKey:
    """The key of a pod."""
    return ObjectKey("Pod", "default", name)


@pytest.fixture
def cache() -> LocationCache:
    return LocationCache()


def test_a_node_leaves_with_its_last_pod(cache: LocationCache) -> None:
    """The others stay."""
    for name in ("a", "b"):
        cache.add_or_update_pod(key(name), pod(**PULL))
    cache.add_or_update_pod(key("c"), pod("n2", **PULL))
    cache.remove_pod(key("a"), "n1")
    assert cache.nodes_of(KEY) == ["n1", "n2"]
    cache.remove_pod(key("b"), "n1")
    assert cache.nodes_of(KEY) == ["n2"]
    assert cache.count("n1") == 0
    cache.remove_pod(key("c"), "n2")
    cache.add_or_update_pod(key("d"), pod(""))
    cache.add_or_update_pod(key("d"), pod("n1"))
    cache.remove_pod(key("d"), "n1")
    assert not cache._nodes
    assert not cache._keys, "nothing grows with the pods that come and go"
    assert not any(cache._pods.values())


def test_a_node_leaves_when_its_pod_refers_to_the_object_no_more(cache: LocationCache) -> None:
    cache.add_or_update_pod(key("a"), pod(**PULL))
    cache.add_or_update_pod(key("a"), pod())
    assert cache.nodes_of(KEY) == []


def test_a_node_that_has_only_asked_stays_until_it_is_forgotten(cache: LocationCache) -> None:
    cache.add(KEY, "n1")
    cache.remove_pod(key("a"), "n1")
    assert cache.nodes_of(KEY) == ["n1"]
    cache.forget_queries("n1")
    assert cache.nodes_of(KEY) == []


def test_references_of_a_nodes_pods_are_not_forgotten_with_its_queries(cache: LocationCache) -> None:
    other = ObjectKey("ConfigMap", "default", "asked-for")
    cache.add_or_update_pod(key("a"), pod(**PULL))
    cache.add(other, "n1")
    cache.forget_queries("n1")
    assert (cache.nodes_of(KEY), cache.nodes_of(other)) == (["n1"], [])


def test_the_nodes_whose_pods_name_a_deleted_object_wait_for_a_new_one(cache: LocationCache) -> None:
    cache.add_or_update_pod(key("a"), pod(**PULL))
    cache.add(KEY, "n2")
    cache.forget(KEY)
    assert cache.nodes_of(KEY) == ["n1"]
