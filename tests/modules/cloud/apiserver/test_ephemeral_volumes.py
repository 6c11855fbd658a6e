"""Generic ephemeral volumes have claims made for them, as by kube-controller-manager 1.32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, kind_named
from modules.cloud.apiserver.admission.chain import PLUGINS
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.ephemeral_volumes import EphemeralVolumes
from modules.cloud.apiserver.volume_protection import FINALIZERS
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from tests.modules.cloud.apiserver.quotas.test_ledger import World
from tests.modules.cloud.apiserver.test_reconcilers import attempt
from tests.modules.cloud.apiserver.test_volume_binder import claim, volume
from tests.modules.cloud.objects import namespace, node, pod

if TYPE_CHECKING:
    from collections.abc import Iterator

CLAIM = ObjectKey("PersistentVolumeClaim", "default", "web-scratch")
SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def with_scratch(name: str = "web", **metadata: Any) -> JsonObject:
    """A pod with the ephemeral volume `scratch`."""
    template = {"metadata": metadata, "spec": SPEC}
    return pod(name, nodeName="", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(Simulation().clock, plugins=PLUGINS)
    made.create(namespace("default"))
    return made


@pytest.fixture
def volumes(cluster: Cluster) -> EphemeralVolumes:
    return EphemeralVolumes(cluster)


def changed(volumes: EphemeralVolumes, obj: JsonObject, type_: EventType = EventType.ADDED) -> None:
    volumes.handle_own(ObjectEvent(type_, key_of(obj), obj, None))
    assert not volumes.reconcile(attempt, is_turn=False)


def said(cluster: Cluster) -> Iterator[str]:
    for event in cluster.storage.list(kind_named("Event")):
        if event["source"]["component"] == "ephemeral_volume":
            assert (event["type"], event["involvedObject"]["kind"]) == ("Warning", "Pod")
            yield f"{event['reason']}: {event['message']}"


def test_the_claim_is_the_templates_and_its_pod_owns_it(cluster: Cluster, volumes: EphemeralVolumes) -> None:
    made = cluster.create(with_scratch(labels={"l": "m"}, annotations={"a": "b"}))
    changed(volumes, made)
    found = cluster.storage.get(CLAIM)
    meta = found["metadata"]
    assert (meta["labels"], meta["annotations"]) == ({"l": "m"}, {"a": "b"})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": made["metadata"]["uid"]}
    assert meta["ownerReferences"] == [{**owner, "controller": True, "blockOwnerDeletion": True}]
    assert meta["finalizers"] == [FINALIZERS["PersistentVolumeClaim"]]
    assert {field: found["spec"][field] for field in SPEC} == SPEC
    changed(volumes, made)
    assert cluster.storage.get(CLAIM) is found
    assert not list(said(cluster))


def test_a_pod_of_before_gets_its_claim_at_the_start(cluster: Cluster, volumes: EphemeralVolumes) -> None:
    cluster.create(with_scratch())
    cluster.create(pod("other", volumes=[{"name": "v", "emptyDir": {}}]))
    volumes.load()
    volumes.reconcile(attempt, is_turn=False)
    assert [key_of(each) for each in cluster.storage.list(kind_named(CLAIM.kind))] == [CLAIM]


def test_a_pod_gets_its_node_once_its_claim_has_a_volume(cluster: Cluster, volumes: EphemeralVolumes) -> None:
    cluster.create({**node(), "kind": "Node", "apiVersion": "v1"})
    made = cluster.create(with_scratch())
    (condition,) = [each for each in made["status"]["conditions"] if each["type"] == "PodScheduled"]
    waits = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "web-scratch"'
    assert condition["message"] == f"0/1 nodes are available: {waits}."
    changed(volumes, made)
    cluster.scheduler.place_waiting_pods()
    (condition,) = cluster.storage.get(key_of(made))["status"]["conditions"]
    assert "unbound immediate PersistentVolumeClaims" in condition["message"]
    cluster.create(volume("v"))
    cluster.scheduler.place_waiting_pods()
    assert cluster.storage.get(key_of(made))["spec"]["nodeName"] == "n1"


def test_a_claim_of_somebody_else_stays_and_the_pod_waits(cluster: Cluster, volumes: EphemeralVolumes) -> None:
    cluster.create({**node(), "kind": "Node", "apiVersion": "v1"})
    foreign = cluster.create(claim("web-scratch"))
    cluster.create(volume("v"))
    made = cluster.create(with_scratch())
    why = "PVC default/web-scratch was not created for pod default/web (pod is not owner)"
    (condition,) = made["status"]["conditions"]
    assert condition["message"] == f"0/1 nodes are available: {why}."
    changed(volumes, made)
    assert list(said(cluster)) == [f"FailedBinding: ephemeral volume scratch: {why}"]
    cluster.storage.remove(CLAIM)
    changed(volumes, foreign, EventType.DELETED)
    assert cluster.storage.get(CLAIM)["metadata"]["ownerReferences"][0]["name"] == "web"


def test_a_claim_beyond_the_quota_is_made_when_the_quota_grows() -> None:
    cluster = World(Simulation().clock, plugins=PLUGINS)
    cluster.create(namespace("default"))
    volumes = EphemeralVolumes(cluster)
    quota = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q", "namespace": "default"}}
    hard = cluster.create({**quota, "spec": {"hard": {"persistentvolumeclaims": "0"}}})
    cluster.settle()
    made = cluster.create(with_scratch())
    changed(volumes, made)
    (event,) = said(cluster)
    assert event.startswith('FailedBinding: ephemeral volume scratch: create PVC web-scratch: persistentvolumeclaims "')
    assert "exceeded quota" in event
    assert cluster.storage.find(CLAIM) is None
    changed(volumes, {**hard, "metadata": {**hard["metadata"], "namespace": "elsewhere"}}, EventType.MODIFIED)
    assert cluster.storage.find(CLAIM) is None
    more = cluster.update({**quota, "spec": {"hard": {"persistentvolumeclaims": "1"}}})
    cluster.settle()
    changed(volumes, more, EventType.MODIFIED)
    assert cluster.storage.find(CLAIM) is not None
    assert not volumes._refused, "it is not looked at with each further change"


def test_a_pod_that_is_being_deleted_gets_none(cluster: Cluster, volumes: EphemeralVolumes) -> None:
    made = cluster.create({**with_scratch(), "metadata": {"name": "web", "finalizers": ["a.b/c"]}})
    cluster.delete(key_of(made))
    changed(volumes, made)
    assert cluster.storage.find(CLAIM) is None


def test_refused_pods_that_are_gone_take_no_room() -> None:
    """Whoever makes and deletes pods beyond a quota would fill the memory."""
    cluster = World(Simulation().clock, plugins=PLUGINS)
    cluster.create(namespace("default"))
    volumes = EphemeralVolumes(cluster)
    quota = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q", "namespace": "default"}}
    cluster.create({**quota, "spec": {"hard": {"persistentvolumeclaims": "0"}}})
    cluster.settle()
    made = cluster.create(with_scratch())
    changed(volumes, made)
    assert volumes._refused == {key_of(made)}
    volumes.handle_event(ObjectEvent(EventType.MODIFIED, key_of(made), made, made))
    assert volumes._refused == {key_of(made)}
    volumes.handle_event(ObjectEvent(EventType.DELETED, key_of(made), made, made))
    assert volumes._refused == set()
