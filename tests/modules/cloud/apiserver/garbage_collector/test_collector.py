"""Dependents of deleted owners, and the policies of deletions, as in Kubernetes."""

from typing import Any

import pytest

from modules.apimachinery.graceful_deletion import finalizers_for_deletion
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.apiserver.garbage_collector.collector import GarbageCollector
from modules.cloud.apiserver.garbage_collector.owners import references_of
from tests.modules.cloud.apiserver.garbage_collector.world import POD, World

FINALIZER = "clean.example/up"

_VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/v"}}


def owners_of(obj: JsonObject) -> list[str]:
    return [one["name"] for one in obj["metadata"].get("ownerReferences", [])]


@pytest.fixture
def world() -> World:
    return World()


def delete(world: World, name: str, policy: str | None = None, **options: Any) -> JsonObject:
    asked = {"propagationPolicy": policy} if policy else {}
    return world("delete", "configmaps", name, options={**asked, **options})


def patch(world: World, name: str, **metadata: Any) -> None:
    """Merge fields into the metadata of a ConfigMap."""
    body = {"metadata": metadata}
    world("patch", "configmaps", name, body, patch_type="application/merge-patch+json")


@pytest.mark.parametrize("options", [{}, {"propagationPolicy": "Background"}, {"orphanDependents": False}])
def test_dependents_go_after_their_owner(world: World, options: JsonObject) -> None:
    """And theirs; what others own, and what is not owned, stays."""
    owner, other = world.make("owner"), world.make("other")
    child = world.make("child", owner)
    world.make("grandchild", child)
    world.make("shared", owner, other)
    assert delete(world, "owner", **options)["status"] == "Success"
    assert world.names() == ["other", "shared"]
    assert owners_of(world.get("shared")) == ["other"]


def test_an_owner_whose_deletion_was_rolled_back_is_not_gone(world: World) -> None:
    child = world.make("child", world.make("owner"))
    world.cluster.delete(ObjectKey("ConfigMap", "ns", "owner"))
    for event in world.cluster.storage.drain_events():
        world.collector.handle_event(event)
    for event in world.cluster.storage.roll_back():
        world.collector.roll_back(event)
    (reference,) = references_of(child)
    assert not world.collector.is_gone(reference, "ns")
    world.settle()
    assert world.names() == ["child", "owner"]


@pytest.mark.parametrize("options", [{"propagationPolicy": "Orphan"}, {"orphanDependents": True}])
def test_orphans_stay_without_their_owner(world: World, options: JsonObject) -> None:
    """The answer is the object, which the finalizer has held until its dependents were free."""
    owner, other = world.make("owner"), world.make("other")
    world.make("child", owner)
    world.make("shared", owner, other)
    marked = delete(world, "owner", **options)
    assert marked["metadata"]["finalizers"] == ["orphan"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert world.names() == ["child", "other", "shared"]
    assert "ownerReferences" not in world.get("child")["metadata"]
    assert owners_of(world.get("shared")) == ["other"]


def test_an_owner_that_is_deleted_in_the_foreground_stays_until_its_dependents_are_gone(world: World) -> None:
    """Only blocking dependents hold it; the others are deleted, too."""
    owner = world.make("owner")
    world.make("blocks", owner, blocks=True, metadata={"finalizers": [FINALIZER]})
    world.make("other", owner, metadata={"finalizers": [FINALIZER]})
    assert delete(world, "owner", "Foreground")["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert world.get("blocks")["metadata"]["deletionTimestamp"]
    assert world.get("other")["metadata"]["deletionTimestamp"]
    patch(world, "blocks", finalizers=None)
    assert world.names() == ["other"]


def test_a_deletion_in_the_background_ends_one_in_the_foreground(world: World) -> None:
    """Its answer is the one of an object that is gone."""
    owner = world.make("owner")
    world.make("blocks", owner, blocks=True, metadata={"finalizers": [FINALIZER]})
    assert delete(world, "owner", "Foreground")["kind"] == "ConfigMap"
    assert delete(world, "owner", "Background")["kind"] == "Status"
    assert world.names() == ["blocks"]


@pytest.mark.parametrize("is_owned", [False, True])
def test_an_owner_waits_no_longer_for_a_dependent_that_blocks_it_no_more(world: World, is_owned: bool) -> None:
    owner = world.make("owner")
    world.make("child", owner, blocks=True, metadata={"finalizers": [FINALIZER]})
    delete(world, "owner", "Foreground")
    assert world.names() == ["child", "owner"]
    references = world.get("child")["metadata"]["ownerReferences"]
    free = {**references[0], "blockOwnerDeletion": False}
    patch(world, "child", ownerReferences=[free] if is_owned else None)
    assert world.names() == ["child"]


def test_a_dependent_with_dependents_is_deleted_in_the_foreground_with_its_owner(world: World) -> None:
    owner = world.make("owner")
    child = world.make("child", owner, blocks=True)
    world.make("grandchild", child, blocks=True, metadata={"finalizers": [FINALIZER]})
    delete(world, "owner", "Foreground")
    assert world.get("child")["metadata"]["finalizers"] == ["foregroundDeletion"]
    patch(world, "grandchild", finalizers=None)
    assert world.names() == []


def test_a_circle_that_is_deleted_in_the_foreground_goes(world: World) -> None:
    one = world.make("one")
    two = world.make("two", one, blocks=True)
    world.make("leaf", two, blocks=True)
    named = {"apiVersion": "v1", "kind": "ConfigMap", "name": "two", "uid": two["metadata"]["uid"]}
    reference = {**named, "blockOwnerDeletion": True}
    patch(world, "one", ownerReferences=[reference])
    delete(world, "one", "Foreground")
    assert world.names() == []


@pytest.mark.parametrize("wrong", ["owner", None, {"name": ""}, {"kind": None}, {"uid": ""}, {"name": None}])
def test_a_reference_that_names_no_owner_has_none(wrong: Any) -> None:
    """Such a reference may be stored since an earlier version; its object is not taken for an orphan."""
    right = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u"}
    both = [{**right, **wrong} if isinstance(wrong, dict) else wrong, right]
    assert [one.uid for one in references_of({"metadata": {"ownerReferences": both}})] == ["u"]
    assert references_of({"metadata": {"ownerReferences": both[:1]}}) == ()


def test_a_pod_ends_gracefully_with_its_owner(world: World) -> None:
    owner = world.make("owner")
    world.make("pod", owner, plural="pods", body=POD)
    delete(world, "owner")
    assert world.get("pod", "Pod")["metadata"]["deletionGracePeriodSeconds"] == 30


def test_a_pod_keeps_the_finalizers_of_its_first_deletion(world: World) -> None:
    """One that is under way is shortened only; an object of another kind takes the policy of each deletion."""
    world.make("pod", plural="pods", body=POD)
    marked = world("delete", "pods", "pod", options={"propagationPolicy": "Foreground"})
    assert (marked["metadata"]["finalizers"], marked["metadata"]["generation"]) == (["foregroundDeletion"], 2)
    again = world("delete", "pods", "pod", options={"propagationPolicy": "Orphan"})
    assert again["metadata"]["generation"] == 2
    assert "orphan" not in again["metadata"].get("finalizers", [])
    world.make("kept", plural="pods", body=POD, metadata={"finalizers": [FINALIZER]})
    world("delete", "pods", "kept", options={"gracePeriodSeconds": 0})
    kept = world.get("kept", "Pod")
    assert kept["metadata"]["finalizers"] == [FINALIZER], "also without a grace period"
    added = {**kept, "metadata": {**kept["metadata"], "finalizers": [FINALIZER, "more.example/up"]}}
    assert "no new finalizers can be added" in world("update", "pods", "kept", body=added)["message"]
    world.make("held", metadata={"finalizers": [FINALIZER]})
    world.make("child", world.get("held"), blocks=True, metadata={"finalizers": [FINALIZER]})
    assert delete(world, "held", "Foreground")["metadata"]["finalizers"] == [FINALIZER, "foregroundDeletion"]
    assert delete(world, "held", "Orphan")["metadata"]["finalizers"] == [FINALIZER, "orphan"]
    assert owners_of(world.get("child")) == []


def test_a_finalizer_of_the_object_is_its_policy(world: World) -> None:
    """Unless the deletion has another one."""
    for name in ("by-finalizer", "by-option"):
        made = world.make(name, metadata={"finalizers": ["orphan"]})
        world.make(f"child-{name}", made)
    delete(world, "by-finalizer")
    delete(world, "by-option", "Background")
    assert world.names() == ["child-by-finalizer"]


def test_a_collection_is_deleted_with_a_policy(world: World) -> None:
    world.make("child", world.make("owner", metadata={"labels": {"a": "b"}}))
    options = {"labelSelector": "a=b", "propagationPolicy": "Orphan"}
    world("deletecollection", "configmaps", options=options)
    assert world.names() == ["child"]


def test_an_object_whose_owner_never_was_is_deleted(world: World) -> None:
    """Also one whose owner's name somebody else has by now."""
    world.make("owner")
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "uid": "of-another"}}
    assert world.make("child", ghost)["metadata"]["name"] == "child"
    assert world.names() == ["owner"]


def test_an_owner_in_another_namespace_counts_as_absent(world: World) -> None:
    """And an Event says why, as of kube-controller-manager."""
    world("create", "namespaces", body={"metadata": {"name": "there"}}, namespace="")
    owner = world.make("owner", namespace="there")
    world.make("child", owner)
    assert world.names() == ["owner"]
    (event,) = [world.cluster.storage.get(key) for key in world.cluster.storage if key.kind == "Event"]
    uid = owner["metadata"]["uid"]
    told = f'ownerRef [v1/ConfigMap, namespace: ns, name: owner, uid: {uid}] does not exist in namespace "ns"'
    assert (event["reason"], event["type"], event["message"]) == ("OwnerRefInvalidNamespace", "Warning", told)
    assert event["involvedObject"]["name"] == "child"


def test_a_dependent_in_another_namespace_keeps_no_owner(world: World) -> None:
    """Whoever may write in another namespace could hold an object here for ever."""
    world("create", "namespaces", body={"metadata": {"name": "there"}}, namespace="")
    owner = world.make("owner")
    world.make("hold", owner, blocks=True, namespace="there", metadata={"finalizers": [FINALIZER]})
    delete(world, "owner", "Foreground")
    assert world.names() == ["hold"]
    volume = world.make("volume", plural="persistentvolumes", namespace="", body={"spec": _VOLUME})
    world.make("child", volume, blocks=True, metadata={"finalizers": [FINALIZER]})
    world("delete", "persistentvolumes", "volume", namespace="", options={"propagationPolicy": "Foreground"})
    assert world.names() == ["child", "hold", "volume"]


def test_a_cluster_scoped_owner_is_found_from_every_namespace(world: World) -> None:
    owner = world.make("volume", plural="persistentvolumes", namespace="", body={"spec": _VOLUME})
    world.make("child", owner)
    assert world.names() == ["child", "volume"]
    world("delete", "persistentvolumes", "volume", namespace="")
    assert world.names() == []


def test_who_cannot_be_judged_stays(world: World) -> None:
    """An object with an owner of a kind that is not served, also if the uid is a deleted object's; a cluster-scoped
    object with a namespaced owner, about which an Event tells.
    """
    owner = world.make("owner")
    uid = owner["metadata"]["uid"]
    for name, named in (("of-stranger", "u"), ("of-deleted", uid)):
        stranger = {"apiVersion": "apps.example/v1", "kind": "Robot", "metadata": {"name": "r", "uid": named}}
        world.make(name, stranger)
    world.make("volume", owner, plural="persistentvolumes", namespace="", body={"spec": _VOLUME})
    delete(world, "owner")
    assert world.names() == ["of-deleted", "of-stranger", "volume"]
    reasons = [world.cluster.storage.get(key)["reason"] for key in world.cluster.storage if key.kind == "Event"]
    assert {*reasons} == {"OwnerRefInvalidNamespace"}


def test_a_dry_run_collects_nothing(world: World) -> None:
    owner = world.make("owner")
    world.make("child", owner)
    delete(world, "owner", dryRun=["All"])
    assert world.names() == ["child", "owner"]
    world.make("later", owner)
    assert world.names() == ["child", "later", "owner"]


def test_a_deleted_job_orphans_its_dependents_by_default() -> None:
    job: JsonObject = {"kind": "Job", "metadata": {"name": "j"}}
    assert finalizers_for_deletion(job, None) == ["orphan"]
    assert finalizers_for_deletion(job, "Background") == []
    assert finalizers_for_deletion({"kind": "Event", "metadata": {}}, "Foreground") == []


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_a_thousand_dependents_cost_a_bounded_part_each_time(world: World, policy: str) -> None:
    owner = world.make("owner")
    for number in range(1000):
        world.make(f"child-{number}", owner, blocks=True)
    world.rounds = 0
    delete(world, "owner", policy)
    assert 4 <= world.rounds <= 20
    assert len(world.names()) == (1000 if policy == "Orphan" else 0)


@pytest.mark.parametrize("is_known", [True, False])
def test_dependents_stay_when_the_kind_of_their_owner_is_no_longer_served(*, is_known: bool) -> None:
    """Only those go whose owners were seen to be deleted with their CustomResourceDefinition: cloudcore may have begun
    after that.
    """
    world = World()
    group, version = "shop.example", "v1"
    names = {"kind": "Robot", "plural": "robots", "singular": "robot", "listKind": "RobotList"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [{"name": version, "served": True, "storage": True, "schema": schema}]
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    definitions = {"api_version": "apiextensions.k8s.io/v1", "namespace": ""}
    definition = {"metadata": {"name": f"robots.{group}"}, "spec": spec}
    world("create", "customresourcedefinitions", body=definition, **definitions)
    robot = world("create", "robots", body={"metadata": {"name": "r"}}, api_version=f"{group}/{version}")
    world.make("child", robot)
    if not is_known:
        world.collector = GarbageCollector(world.cluster)
    world("delete", "customresourcedefinitions", f"robots.{group}", **definitions)
    assert world("list", "robots", api_version=f"{group}/{version}")["code"] == 404
    assert ("child" in world.names()) is not is_known
    world.make("later", robot)
    assert "later" in world.names(), "nobody can say whether such an owner is there"
