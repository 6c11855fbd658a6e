"""A namespace ends with its contents, as Kubernetes' namespace controller does it."""

from typing import Any

import pytest

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, ObjectKey
from tests.modules.cloud.apiserver.garbage_collector.world import POD, World

FINALIZER = "clean.example/up"


@pytest.fixture
def world() -> World:
    made = World()
    made("create", "namespaces", body={"metadata": {"name": "ns"}}, namespace="")
    return made


def delete(world: World) -> JsonObject:
    return world("delete", "namespaces", "ns", namespace="")


def conditions(world: World) -> dict[str, tuple[str, str, str]]:
    namespace = world.get("ns", "Namespace", "")
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in namespace["status"]["conditions"]}


def test_a_namespace_goes_with_its_objects(world: World) -> None:
    """The answer to the deletion is the namespace; what is elsewhere stays."""
    made = world.get("ns", "Namespace", "")
    assert (made["metadata"]["labels"], made["status"]) == ({"kubernetes.io/metadata.name": "ns"}, {"phase": "Active"})
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    world.make("c")
    world.make("c", namespace="other")
    marked = delete(world)
    assert (marked["kind"], marked["status"]["phase"]) == ("Namespace", "Terminating")
    assert marked["metadata"]["deletionTimestamp"]
    assert "deletionGracePeriodSeconds" not in marked["metadata"]
    assert world.get("ns", "Namespace", "") == {}
    assert world.names() == ["c"]


def test_pods_go_before_the_other_objects_of_their_namespace(world: World) -> None:
    """A pod may need them until its end (KEP-5080). The end of the last pod is enough to go on."""
    for name in ("p", "q"):
        world.make(name, plural="pods", body=POD, metadata={"finalizers": [FINALIZER]} if name == "q" else {})
    world.make("c")
    delete(world)
    assert all(world.get(name, "Pod")["metadata"]["deletionTimestamp"] for name in ("p", "q"))
    counted = "Some resources are remaining: pods. has 2 resource instances"
    assert conditions(world)["NamespaceContentRemaining"] == ("True", "SomeResourcesRemain", counted)
    for name in ("p", "q"):
        world("delete", "pods", name, options={"gracePeriodSeconds": 0})
        assert "deletionTimestamp" not in world.get("c")["metadata"]
    patch = {"metadata": {"finalizers": None}}
    world("patch", "pods", "q", patch, patch_type="application/merge-patch+json")
    assert world.names() == []
    assert world.get("ns", "Namespace", "") == {}


def test_a_namespace_waits_for_its_finalizers(world: World) -> None:
    """Its conditions name them. Nothing new gets in meanwhile."""
    for name in ("held", "too"):
        world.make(name, metadata={"finalizers": [FINALIZER]})
    theirs = {"type": "example.com/Checked", "status": "True", "reason": "ByHand", "message": ""}
    world.cluster.replace_status(ObjectKey("Namespace", "", "ns"), {"phase": "Active", "conditions": [theirs]})
    delete(world)
    told = conditions(world)
    assert told["example.com/Checked"] == ("True", "ByHand", "")
    assert told["NamespaceContentRemaining"] == (
        "True", "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 2 resource instances",
    )  # fmt: skip
    assert told["NamespaceFinalizersRemaining"] == (
        "True", "SomeFinalizersRemain",
        f"Some content in the namespace has finalizers remaining: {FINALIZER} in 2 resource instances",
    )  # fmt: skip
    assert told["NamespaceDeletionContentFailure"][:2] == ("False", "ContentDeleted")
    refused = world.make("new")
    assert (refused["code"], refused["reason"]) == (403, "Forbidden")
    why = "unable to create new content in namespace ns because it is being terminated"
    assert refused["message"] == f'configmaps "new" is forbidden: {why}'
    assert refused["details"]["causes"] == [
        {"reason": "NamespaceTerminating", "message": "namespace ns is being terminated", "field": "metadata.namespace"}
    ]
    version = world.get("ns", "Namespace", "")["metadata"]["resourceVersion"]
    assert delete(world)["metadata"]["resourceVersion"] == version
    patch = {"metadata": {"finalizers": None}}
    world("patch", "configmaps", "too", patch, patch_type="application/merge-patch+json")
    world.collector.overdue()
    world.settle()
    assert conditions(world)["NamespaceContentRemaining"][2].endswith("configmaps. has 1 resource instances")
    world("patch", "configmaps", "held", patch, patch_type="application/merge-patch+json")
    assert world.get("ns", "Namespace", "") == {}


def test_a_namespace_whose_contents_cannot_be_deleted_is_looked_at_again_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.make("c")
    deleted = world.cluster.delete

    def refused(key: ObjectKey, *args: Any, **options: Any) -> JsonObject:
        if key.kind == "ConfigMap":
            raise ForbiddenError("configmaps", key.name, "a rule keeps it")
        return deleted(key, *args, **options)

    monkeypatch.setattr(world.cluster, "delete", refused)
    delete(world)
    assert not world.collector.has_work
    monkeypatch.undo()
    world.collector.overdue()
    world.settle()
    assert world.get("ns", "Namespace", "") == {}


def test_an_update_changes_neither_the_finalizers_nor_the_phase_of_a_namespace(world: World) -> None:
    """Only its subresources do; `finalize` is what Kubernetes' own controller uses."""
    live = world.get("ns", "Namespace", "")
    changed = {**live, "spec": {"finalizers": []}, "status": {"phase": "Terminating"}}
    made = world("update", "namespaces", "ns", changed, namespace="")
    assert (made["spec"], made["status"]) == (live["spec"], live["status"])
    for name in ("own", "own.example/a b"):
        wrong = {**live, "spec": {"finalizers": [name]}}
        refused = world("update", "namespaces", "ns", wrong, namespace="", subresource="finalize")
        assert (refused["code"], refused["details"]["causes"][0]["field"]) == (422, "spec.finalizers[0]")
    more = {**live, "spec": {"finalizers": ["kubernetes", "own.example/one"]}}
    made = world("update", "namespaces", "ns", more, namespace="", subresource="finalize")
    assert made["spec"]["finalizers"] == ["kubernetes", "own.example/one"]
    delete(world)
    left = world.get("ns", "Namespace", "")
    assert left["spec"]["finalizers"] == ["own.example/one"]
    assert world("get", "namespaces", "ns", namespace="", subresource="finalize")["code"] == 405
    world("update", "namespaces", "ns", {**left, "spec": {}}, namespace="", subresource="finalize")
    assert world.get("ns", "Namespace", "") == {}


def test_a_large_namespace_is_emptied_in_parts(world: World) -> None:
    for number in range(1000):
        world.make(f"c{number}")
    world.rounds = 0
    delete(world)
    assert 4 <= world.rounds <= 20
    assert world.names() == []
