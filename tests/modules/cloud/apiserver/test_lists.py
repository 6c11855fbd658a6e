"""Lists in parts: in order, each part as long as was asked for, while objects come and go."""

from beehive.simulation import Simulation
from modules.cloud.apiserver.api_calls import serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.kinds import JsonObject, ObjectKey, kind_named
from modules.cloud.apiserver.storage import Storage
from modules.cloud.client.calls import ApiCall
from tests.modules.cloud.objects import configmap

_MAP = kind_named("ConfigMap")


def _listed(cluster: Cluster, namespace: str = "", **options: object) -> JsonObject:
    call = ApiCall(verb="list", api_version="v1", plural="configmaps", namespace=namespace, options=options)
    listed = serve(cluster, call).object
    assert listed is not None
    return listed


def _names(objects: list[JsonObject]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def _cluster(*names: str) -> Cluster:
    cluster = Cluster(Simulation().clock)
    for name in names:
        cluster.storage.create(configmap(name))
    return cluster


def test_parts_of_a_list_are_in_order_and_say_how_many_objects_follow() -> None:
    """The last part has no token, also when it is full."""
    cluster = _cluster("d", "a", "c", "b")
    first = _listed(cluster, limit=2)
    assert (_names(first["items"]), first["metadata"]["remainingItemCount"]) == (["a", "b"], 2)
    second = _listed(cluster, limit=2, **{"continue": first["metadata"]["continue"]})
    assert _names(second["items"]) == ["c", "d"]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


def test_a_part_begins_after_the_last_object_of_the_one_before_although_that_is_gone() -> None:
    """What was made meanwhile, and belongs there, is in it."""
    cluster = _cluster("a", "b", "d")
    first = _listed(cluster, limit=2)
    cluster.storage.remove(ObjectKey("ConfigMap", "default", "b"))
    for name in ("aa", "c"):
        cluster.storage.create(configmap(name))
    second = _listed(cluster, limit=2, **{"continue": first["metadata"]["continue"]})
    assert _names(second["items"]) == ["c", "d"]


def test_a_selected_list_has_full_parts_and_no_count() -> None:
    """As an API server's: it would have to look at all objects."""
    cluster = _cluster("a", "b", "c", "d")
    listed = _listed(cluster, limit=2, fieldSelector="metadata.name!=b")
    assert _names(listed["items"]) == ["a", "c"]
    assert set(listed["metadata"]) == {"resourceVersion", "continue"}


def test_a_list_of_a_namespace_counts_what_is_in_it() -> None:
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
    storage.take_events()
    storage.set_savepoint()
    storage.create(configmap("b"))
    storage.remove(ObjectKey("ConfigMap", "default", "a"))
    assert _names(storage.list(_MAP)) == ["b", "c"]
    storage.roll_back()
    assert _names(storage.list(_MAP)) == ["a", "c"]
