"""Claims and volumes that are used are kept."""

from __future__ import annotations

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, key_of, kind_named
from modules.cloud.apiserver.admission.chain import PLUGINS
from modules.cloud.apiserver.built_in_controllers import release_volumes
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.volume_protection import FINALIZERS, may_end_use
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from tests.modules.cloud.apiserver.test_volume_binder import claim, volume
from tests.modules.cloud.objects import pod


@pytest.mark.parametrize(("obj", "kind"), [(claim(), "PersistentVolumeClaim"), (volume("v"), "PersistentVolume")])
def test_a_new_one_has_its_finalizer_beside_others(obj: JsonObject, kind: str) -> None:
    cluster = Cluster(Simulation().clock, plugins=PLUGINS)
    cluster.create({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "default"}})
    made = cluster.create({**obj, "metadata": {**obj["metadata"], "finalizers": ["a.b/c"]}})
    assert made["metadata"]["finalizers"] == ["a.b/c", FINALIZERS[kind]]
    freed = cluster.update({**made, "metadata": {**made["metadata"], "finalizers": []}})
    assert not freed["metadata"].get("finalizers"), "a person may take it away"


def test_one_that_is_not_used_goes_at_once() -> None:
    cluster = Cluster(Simulation().clock, plugins=PLUGINS)
    cluster.create({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "default"}})
    for obj in (claim(), volume("other", storage="1Mi")):
        made = cluster.create(obj)
        assert not list(_deleted(cluster, made)), made["kind"]


def _deleted(cluster: Cluster, obj: JsonObject) -> list[JsonObject]:
    gone = cluster.delete(key_of(obj))
    assert gone["metadata"]["deletionTimestamp"]
    release_volumes(cluster)
    return list(cluster.storage.list(kind_named(obj["kind"])))


def test_a_pod_that_waits_for_a_node_keeps_no_claim() -> None:
    """It could not be placed any more, and the deletion would not end."""
    cluster = Cluster(Simulation().clock)
    made = cluster.create(
        {**claim(), "metadata": {"name": "data", "finalizers": [FINALIZERS["PersistentVolumeClaim"]]}}
    )
    waiting = pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    del waiting["spec"]["nodeName"]
    cluster.create(waiting)
    assert not _deleted(cluster, made)


@pytest.mark.parametrize(
    ("type_", "obj", "may_end"),
    [
        (EventType.DELETED, pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]), True),
        (EventType.DELETED, pod(volumes=[{"name": "v", "emptyDir": {}}]), False),
        (EventType.MODIFIED, pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]), False),
        (EventType.MODIFIED, claim(), False),
    ],
    ids=["a user", "no user", "still a user", "not deleted"],
)
def test_which_changes_may_end_a_use(type_: EventType, obj: JsonObject, *, may_end: bool) -> None:
    assert may_end_use(ObjectEvent(type_, key_of(obj), obj)) is may_end
