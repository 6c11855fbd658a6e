"""Deployments and their ReplicaSets, in virtual time."""

import json
from typing import Any

import pytest

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_of, uid_of
from modules.apimachinery.pods.objects import is_active, node_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.apiserver import pod_defaults
from modules.cloud.apiserver.kind_defaults import with_defaults
from modules.cloud.apiserver.silent_nodes import UNREACHABLE
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.controllers import node_pods
from modules.cloud.controllers.deployment_sets import (
    HISTORY,
    REVISION,
    annotations_for,
    proportional_sizes,
    revision_of,
)
from modules.cloud.controllers.deployment_status import times_out_at
from modules.cloud.controllers.plan import NOTHING
from modules.cloud.controllers.pods import owner_reference, with_same_template
from modules.cloud.controllers.replica_set import pause_ends, reconcile, surplus_ended, to_delete
from modules.cloud.controllers.view import View, controller_of
from tests.modules.cloud.controllers.site import Site, image_of, new_image, site_of, workload, written_status

OF_REPLICAS = {"ReplicaSet": "replicaset-controller", "ReplicationController": "replication-controller"}
"""The kinds of one controller, with its name in Events (KCM's)."""


def deployment(replicas: int = 3, **spec: Any) -> JsonObject:
    return workload("Deployment", replicas=replicas, **spec)


def rolled_out(replicas: int, seed: int = 0, nodes: tuple[str, ...] = ("n1", "n2", "n3"), **spec: Any) -> Site:
    """Return a site with a Deployment whose pods are all available."""
    site = site_of(deployment(replicas, **spec), seconds=30, seed=seed, nodes=nodes)
    assert site.get("Deployment", "web")["status"].get("availableReplicas", 0) == replicas
    return site


def lone_pod() -> JsonObject:
    """Return a pod that matches and has no owner."""
    spec = {"containers": [{"name": "main", "image": "app:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone", "labels": {"app": "web"}}, "spec": spec}


def images(site: Site) -> list[str]:
    return sorted(map(image_of, site.pods()))


def progress(site: Site) -> tuple[str, str]:
    found = site.get("Deployment", "web")["status"]["conditions"]
    one = next(each for each in found if each["type"] == "Progressing")
    return one["status"], one["reason"]


def bounded(most: int, least: int) -> Any:
    """Return the check that pods are never more, and available ones never fewer."""

    def check(site: Site) -> None:
        active = [pod for pod in site.all("Pod") if is_active(pod)]
        assert len(active) <= most
        assert sum(map(is_ready, active)) >= least

    return check


def test_pods_are_made_and_counted_in_the_status() -> None:
    site = site_of(deployment(3))
    (replica_set,) = site.all("ReplicaSet")
    assert len(site.pods()) == 3
    suffix = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{suffix}"
    for pod in site.pods():
        assert pod["metadata"]["labels"] == {"app": "web", "pod-template-hash": suffix}
        assert pod["metadata"]["name"].startswith(f"web-{suffix}-")
    site.run_for(5)
    status = site.get("Deployment", "web")["status"]
    assert {name: status[name] for name in status if name != "conditions"} == {
        "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
    }  # fmt: skip
    assert progress(site) == ("True", "NewReplicaSetAvailable")
    events = site.events()
    assert ("ScalingReplicaSet", f"Scaled up replica set web-{suffix} from 0 to 3") in events
    assert sum(reason == "SuccessfulCreate" for reason, _ in events) == 3
    assert site.get("Deployment", "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"


@pytest.mark.parametrize("seed", range(3))
def test_a_rolling_update_keeps_its_bounds(seed: int) -> None:
    site = rolled_out(10, seed=seed)
    site.checks.append(bounded(13, 8))
    site.patch(site.get("Deployment", "web"), new_image("app:2"), seconds=60)
    assert images(site) == ["app:2"] * 10
    assert progress(site) == ("True", "NewReplicaSetAvailable")
    sizes = [message for reason, message in site.events() if reason == "ScalingReplicaSet"][1:]
    assert [message.split(" ", 1)[1].partition(" replica")[0] for message in sizes[:3]] == ["up", "down", "up"]
    assert sizes[0].endswith("from 0 to 3")
    assert sizes[1].endswith("from 10 to 8")
    assert sizes[2].endswith("from 3 to 5")


def test_a_rollout_times_out_a_second_after_its_deadline() -> None:
    """Times are written in whole seconds."""
    one = {"type": "Progressing", "reason": "ReplicaSetUpdated", "lastUpdateTime": format_rfc3339(1_800_000_000.0)}
    wanted = deployment(1, progressDeadlineSeconds=10)
    assert times_out_at(wanted, {"conditions": [one]}) == 1_800_000_011.0
    assert times_out_at(wanted, {"conditions": [{**one, "reason": "NewReplicaSetAvailable"}]}) is None


def test_a_deployment_without_a_deadline_has_no_condition_of_its_progress() -> None:
    site = rolled_out(1, progressDeadlineSeconds=2**31 - 1)
    assert [one["type"] for one in site.get("Deployment", "web")["status"]["conditions"]] == ["Available"]


def test_the_status_settles_without_further_writes() -> None:
    site = rolled_out(3)
    assert site.is_settled()


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "most", "least"),
    [(1, "25%", "25%", 2, 1), (3, 0, "10%", 3, 2), (4, 2, 0, 6, 4), (5, "100%", "100%", 10, 0)],
)
def test_bounds_are_rounded_as_kubernetes_does(
    replicas: int, surge: Any, unavailable: Any, most: int, least: int
) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    site = rolled_out(replicas, strategy=strategy)
    site.checks.append(bounded(most, least))
    site.patch(site.get("Deployment", "web"), new_image("app:2"), seconds=60)
    assert images(site) == ["app:2"] * replicas


def test_a_broken_image_stops_at_the_budget_and_undo_restores() -> None:
    site = rolled_out(4)
    site.ready_after = lambda pod: None if image_of(pod) == "app:broken" else 1.0
    site.checks.append(bounded(5, 3))
    site.patch(site.get("Deployment", "web"), new_image("app:broken"), seconds=700)
    assert images(site) == ["app:1"] * 3 + ["app:broken"] * 2
    assert progress(site) == ("False", "ProgressDeadlineExceeded")
    site.patch(site.get("Deployment", "web"), new_image("app:1"), seconds=60)
    assert images(site) == ["app:1"] * 4
    assert progress(site) == ("True", "NewReplicaSetAvailable")
    old = next(one for one in site.all("ReplicaSet") if one["spec"]["replicas"] == 4)
    annotations = old["metadata"]["annotations"]
    assert annotations["deployment.kubernetes.io/revision"] == "3"
    assert annotations["deployment.kubernetes.io/revision-history"] == "1"


def test_an_undo_never_shows_the_former_revision_as_the_present_one() -> None:
    site = rolled_out(1)
    for image in ("app:2", "app:1"):
        site.patch(site.get("Deployment", "web"), new_image(image), seconds=30)
    bodies = [call.body or {} for call in site.writes if call.plural == "deployments"]
    found = (body["metadata"].get("annotations", {}).get(REVISION) for body in bodies)
    told = [revision for revision in found if revision]
    assert list(dict.fromkeys(told)) == ["1", "2", "3"]
    assert told == sorted(told)


def test_a_third_template_in_the_middle() -> None:
    site = rolled_out(10)
    site.checks.append(bounded(13, 8))
    site.patch(site.get("Deployment", "web"), new_image("app:2"), seconds=1)
    site.patch(site.get("Deployment", "web"), new_image("app:3"), seconds=120)
    assert images(site) == ["app:3"] * 10
    assert len(site.all("ReplicaSet")) == 3


def test_scaling_in_the_middle_is_proportional() -> None:
    site = rolled_out(10)
    site.ready_after = lambda pod: None if image_of(pod) == "app:2" else 1.0
    site.patch(site.get("Deployment", "web"), new_image("app:2"), seconds=5)
    assert sorted(one["spec"]["replicas"] for one in site.all("ReplicaSet")) == [5, 8]
    site.patch(site.get("Deployment", "web"), {"spec": {"replicas": 20}}, seconds=5)
    assert sorted(one["spec"]["replicas"] for one in site.all("ReplicaSet")) == [10, 15]


@pytest.mark.parametrize(
    ("sizes", "replicas", "surge", "expected"),
    [
        ((3, 2, 2), 8, 0, [4, 2, 2]),
        ((2, 3, 2), 8, 0, [2, 4, 2]),
        ((1, 1, 1), 4, 0, [1, 1, 2]),
        ((3, 3, 3), 8, 0, [2, 3, 3]),
        ((2, 3, 3), 1, "25%", [1, 0, 1]),
        ((1, 1, 1), 7, 0, [2, 2, 3]),
        ((1, 1, 1), 8, 0, [2, 3, 3]),
        ((7, 6, 5), 20, 0, [8, 7, 5]),
    ],
    ids=["the largest", "also if it is not the oldest", "the newest grows", "the oldest shrinks", "a half is a whole",
         "a third is none", "no more than there are", "the smallest gets what is left"],
)  # fmt: skip
def test_the_largest_gets_the_rest_of_the_proportions(
    sizes: tuple[int, ...], replicas: int, surge: int | str, expected: list[int]
) -> None:
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1}}
    sets = []
    for age, size in enumerate(sizes):
        made = workload("ReplicaSet", f"web-{age}", replicas=size)
        made["metadata"]["creationTimestamp"] = format_rfc3339(1e9 + age)
        made["metadata"]["annotations"] = {"deployment.kubernetes.io/max-replicas": str(sum(sizes))}
        sets.append(made)
    found = proportional_sizes(deployment(replicas, strategy=strategy), sets)
    assert [found[one["metadata"]["name"]] for one in sets] == expected


@pytest.mark.parametrize(("replicas", "expected"), [(4, {"a": 1, "b": 1, "c": 2}), (8, {"a": 2, "b": 3, "c": 3})])
@pytest.mark.parametrize("names", ["abc", "cab", "bca"])
def test_of_replica_sets_of_one_second_the_name_tells_the_oldest(
    names: str, replicas: int, expected: dict[str, int]
) -> None:
    """In whatever order they are stored; as the sets of four seconds above."""
    size = 1 if replicas == 4 else 3
    sets = []
    for name in names:
        made = workload("ReplicaSet", name, replicas=size)
        made["metadata"]["creationTimestamp"] = format_rfc3339(1e9)
        made["metadata"]["annotations"] = {"deployment.kubernetes.io/max-replicas": str(3 * size)}
        sets.append(made)
    strategy = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    assert proportional_sizes(deployment(replicas, strategy=strategy), sets) == expected


def test_a_pause_gathers_edits() -> None:
    site = rolled_out(2, progressDeadlineSeconds=60)
    site.patch(site.get("Deployment", "web"), {"spec": {"paused": True}})
    for image in ("app:2", "app:3", "app:4"):
        site.patch(site.get("Deployment", "web"), new_image(image))
    site.run_for(600)
    assert progress(site) == ("Unknown", "DeploymentPaused")
    assert images(site) == ["app:1"] * 2
    site.patch(site.get("Deployment", "web"), {"spec": {"paused": False}}, seconds=60)
    assert images(site) == ["app:4"] * 2
    assert len(site.all("ReplicaSet")) == 2


def test_the_replica_set_follows_a_paused_deployment_in_what_makes_no_pod() -> None:
    site = rolled_out(1)
    changes = {"metadata": {"annotations": {"note": "x"}}, "spec": {"paused": True, "minReadySeconds": 5}}
    site.patch(site.get("Deployment", "web"), changes)
    (replica_set,) = site.all("ReplicaSet")
    assert replica_set["metadata"]["annotations"]["note"] == "x"
    assert replica_set["spec"]["minReadySeconds"] == 5


def test_recreate_never_has_both() -> None:
    site = rolled_out(3, strategy={"type": "Recreate"})

    def check(site: Site) -> None:
        assert len(set(map(image_of, site.all("Pod")))) <= 1

    site.checks.append(check)
    site.patch(site.get("Deployment", "web"), new_image("app:2"), seconds=60)
    assert images(site) == ["app:2"] * 3


@pytest.mark.parametrize("limit", [0, 2])
def test_history_is_kept_up_to_its_limit(limit: int) -> None:
    site = rolled_out(1, revisionHistoryLimit=limit)
    for number in range(2, 7):
        site.patch(site.get("Deployment", "web"), new_image(f"app:{number}"), seconds=30)
    old = [one for one in site.all("ReplicaSet") if not one["spec"]["replicas"]]
    assert sorted(revision_of(one) for one in old) == [4, 5][:limit]
    assert site.get("Deployment", "web")["metadata"]["annotations"][REVISION] == "6"
    assert images(site) == ["app:6"]


def test_history_with_pods_is_kept_whatever_its_limit() -> None:
    site = rolled_out(4, revisionHistoryLimit=0)
    site.ready_after = lambda pod: None if image_of(pod) == "app:broken" else 1.0
    site.patch(site.get("Deployment", "web"), new_image("app:broken"), seconds=10)
    site.patch(site.get("Deployment", "web"), {"spec": {"paused": True}}, seconds=60)
    assert images(site) == ["app:1"] * 3 + ["app:broken"] * 2
    assert sorted(one["spec"]["replicas"] for one in site.all("ReplicaSet")) == [2, 3]


def test_a_taken_name_counts_a_collision() -> None:
    site = site_of(deployment(1))
    (replica_set,) = site.all("ReplicaSet")
    name = replica_set["metadata"]["name"]
    site = Site()
    stranger = workload("ReplicaSet", "stranger")
    stranger["metadata"]["name"] = name
    stranger["spec"]["replicas"] = 0
    site.apply(stranger, deployment(1), seconds=10)
    assert site.get("Deployment", "web")["status"]["collisionCount"] == 1
    assert len(site.pods()) == 1


def test_a_pod_whose_label_is_edited_is_replaced_and_one_too_many_deleted() -> None:
    site = rolled_out(2)
    pod = site.pods()[0]
    site.patch(pod, {"metadata": {"labels": {"app": "other"}}}, seconds=5)
    assert len(site.pods()) == 3
    assert "ownerReferences" not in site.get("Pod", pod["metadata"]["name"])["metadata"]
    site.patch(pod, {"metadata": {"labels": {"app": "web"}}}, seconds=5)
    assert len(site.pods()) == 2


@pytest.mark.parametrize("kind", OF_REPLICAS)
def test_an_orphan_that_matches_is_adopted_and_released_when_it_no_longer_does(kind: str) -> None:
    site = site_of(lone_pod(), workload(kind, replicas=2), seconds=5)
    assert len(site.pods("web")) == 2
    assert any(pod["metadata"]["name"] == "lone" for pod in site.pods("web"))
    reference = controller_of(site.get("Pod", "lone")) or {}
    assert (reference["kind"], reference["blockOwnerDeletion"]) == (kind, True)
    site.patch(ObjectKey("Pod", "default", "lone"), {"metadata": {"labels": {"app": "other"}}}, seconds=5)
    assert controller_of(site.get("Pod", "lone")) is None
    assert site.get(kind, "web")["status"] == {
        "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 1,
    }  # fmt: skip


@pytest.mark.parametrize("kind", OF_REPLICAS)
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_orphan_that_has_ended_is_not_adopted(site: Site, kind: str, phase: str) -> None:
    """It would count as a pod that its node has ended, and others would be made later for it (FilterActivePods)."""
    site.report(site.apply(lone_pod()), phase)
    site.apply(workload(kind, replicas=2))
    assert len(site.pods("web")) == 2
    assert "ownerReferences" not in site.get("Pod", "lone")["metadata"]


@pytest.mark.parametrize("kind", OF_REPLICAS)
def test_a_replica_set_that_is_being_deleted_adopts_nothing(kind: str) -> None:
    site = site_of(workload(kind, replicas=1))
    site.call("delete", site.get(kind, "web"), options={"propagationPolicy": "Foreground"})
    assert is_being_deleted(site.get(kind, "web"))
    site.apply(lone_pod(), seconds=60)
    assert "ownerReferences" not in site.get("Pod", "lone")["metadata"]


@pytest.mark.parametrize("kind", OF_REPLICAS)
@pytest.mark.parametrize(
    ("phase", "status"),
    [("Failed", {"reason": "OutOfcpu"}), ("Failed", {"containerStatuses": [{"name": "main"}]}), ("Succeeded", {})],
    ids=["refused", "failed", "succeeded"],
)
def test_pods_that_nodes_end_are_not_recreated_immediately(
    site: Site, kind: str, phase: str, status: dict[str, Any]
) -> None:
    """Nor kept without end: a node that ends each pod of a ReplicaSet cannot fill the database."""
    site.ready_after = lambda _: None
    site.apply(workload(kind, replicas=1))
    made = 0
    for _ in range(600):
        for pod in site.pods("web"):
            if pod["status"]["phase"] != phase:
                made += 1
                site.report(pod, phase, **status)
        site.run_for(1)
    assert made < 15
    assert sum(pod["status"]["phase"] == phase for pod in site.all("Pod")) <= 6


@pytest.mark.parametrize("kind", OF_REPLICAS)
def test_a_refused_creation_is_reported_once_and_tried_again(site: Site, kind: str) -> None:
    forbidden = {"code": 403, "reason": "Forbidden", "message": "exceeded quota"}
    asked: list[ApiCall] = []

    def answer(call: ApiCall) -> ApiResult | None:
        if call.verb == "create" and call.plural == "pods":
            asked.append(call)
            return ApiResult(refusal=forbidden) if len(asked) >= 3 else None
        return None

    site.answer = answer
    site.apply(workload(kind, replicas=50))
    assert len(asked) == 3  # one, then two, and the second is refused
    condition = site.get(kind, "web")["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
    assert condition["lastTransitionTime"] == format_rfc3339(site.clock.now())
    site.run_for(300)
    assert [event for event in site.events() if event[0] == "FailedCreate"] == [
        ("FailedCreate", "Error creating: exceeded quota")
    ]
    own = [event for event in site.all("Event") if event["reason"] != "Scheduled"]
    assert {event["source"]["component"] for event in own} == {OF_REPLICAS[kind]}
    assert len(asked) < 100
    site.answer = lambda _: None
    site.run_for(120)
    assert len(site.pods("web")) == 50
    assert "conditions" not in site.get(kind, "web")["status"]


def test_an_event_that_is_gone_is_made_again_when_it_happens_again() -> None:
    """The API server removes the oldest of many, and people remove them (client-go's recordEvent)."""
    site = site_of(workload("ReplicaSet", replicas=50))
    site.answer = lambda call: (
        ApiResult(refusal={"code": 403, "reason": "Forbidden", "message": "exceeded quota"})
        if (call.verb, call.plural) == ("create", "pods")
        else None
    )
    site.patch(site.get("ReplicaSet", "web"), {"spec": {"replicas": 51}}, seconds=10)
    told = ("FailedCreate", "Error creating: exceeded quota")
    assert told in site.events()
    for event in site.all("Event"):
        site.call("delete", event)
    site.run_for(300)
    assert [event for event in site.events() if event[0] == "FailedCreate"] == [told]


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_doubled_when_cloudcore_is_killed_at_any_write(seed: int) -> None:
    site = rolled_out(6, seed=seed)
    site.checks.append(bounded(8, 4))
    site.lose_answers(6, made=bool(seed % 2))
    site.patch(site.get("Deployment", "web"), new_image("app:2"), seconds=200)
    assert images(site) == ["app:2"] * 6


@pytest.mark.parametrize("kind", ["Deployment", *OF_REPLICAS, "StatefulSet"])
def test_the_scale_subresource_sets_the_replicas(kind: str) -> None:
    site = site_of(workload(kind, replicas=2), seconds=30)
    found = site.call("get", site.get(kind, "web"), subresource="scale").object
    assert found is not None
    assert (found["kind"], found["spec"], found["status"]) == (
        "Scale", {"replicas": 2}, {"replicas": 2, "selector": "app=web"},
    )  # fmt: skip
    site.call("update", site.get(kind, "web"), subresource="scale", body={**found, "spec": {"replicas": 5}}, seconds=10)
    assert len(site.pods()) == 5
    refusal = site.call("update", site.get(kind, "web"), subresource="scale", body={**found, "spec": {"replicas": -1}})
    assert (refusal.refusal or {}).get("code") == 422
    former = {"name": "web", "uid": "of the one before"}
    refusal = site.call("update", site.get(kind, "web"), subresource="scale", body={"metadata": former})
    assert (refusal.refusal or {}).get("code") == 409


@pytest.mark.parametrize("kind", ["Deployment", *OF_REPLICAS, "DaemonSet"])
def test_what_would_make_pods_without_end_makes_none(site: Site, kind: str) -> None:
    wrong = workload(kind)
    other = {"app": "other"}
    wrong["spec"]["selector"] = other if kind == "ReplicationController" else {"matchLabels": other}
    site.cluster.storage.create({**wrong, "metadata": {"name": "web", "namespace": "default"}})
    site.run_for(60)
    assert site.pods() == []


def test_the_pods_of_a_deleted_node_are_made_elsewhere_after_a_while() -> None:
    site = rolled_out(4, nodes=("n1", "n2"))
    site.offline.add("n1")
    site.call("delete", ObjectKey("Node", "", "n1"), seconds=30)
    assert {node_of(pod) for pod in site.pods()} == {"n1", "n2"}
    site.run_for(30)
    assert [node_of(pod) for pod in site.pods()] == ["n2"] * 4


def test_a_pod_of_a_deleted_node_has_failed_by_a_disruption_and_is_deleted_once() -> None:
    site = rolled_out(1, nodes=("n1",))
    (pod,) = site.pods()
    site.patch(pod, {"metadata": {"finalizers": ["example.com/mine"]}})
    site.offline.add("n1")
    site.call("delete", ObjectKey("Node", "", "n1"), seconds=600)
    held = site.get("Pod", pod["metadata"]["name"])
    (why,) = (one for one in held["status"]["conditions"] if one["type"] == "DisruptionTarget")
    assert (held["status"]["phase"], why["status"], why["reason"]) == ("Failed", "True", "DeletionByPodGC")
    assert sum(call.verb == "delete" and call.name == pod["metadata"]["name"] for call in site.writes) == 1


def test_a_node_that_registers_again_keeps_its_pods() -> None:
    site = rolled_out(2, nodes=("n1",))
    before = {pod["metadata"]["uid"] for pod in site.pods()}
    for _ in range(2):
        site.call("delete", ObjectKey("Node", "", "n1"), seconds=20)
        site.add_node("n1", seconds=600)
        assert {pod["metadata"]["uid"] for pod in site.pods()} == before


def test_a_changed_mirror_pod_is_no_sign_of_its_node() -> None:
    """Its controller is the Node: the pods there were taken for those of a Node that is gone."""
    site = site_of(workload("Deployment"), seconds=10, nodes=("n1",))
    node = site.cluster.storage.get(ObjectKey("Node", "", "n1"))["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["uid"], "controller": True}
    metadata = {
        "name": "static-n1",
        "namespace": "default",
        "annotations": {"kubernetes.io/config.mirror": "1"},
        "ownerReferences": [owner],
    }
    pod = {"metadata": metadata, "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "app:1"}]}}
    site.cluster.create({"apiVersion": "v1", "kind": "Pod", **pod})
    site.settle()
    before = {pod["metadata"]["name"] for pod in site.pods()}
    site.run_for(300)
    assert {pod["metadata"]["name"] for pod in site.pods()} == before


@pytest.mark.parametrize("silent", [("n1",), ("n1", "n2")], ids=["one node", "all nodes"])
def test_silent_nodes_keep_their_pods_and_nothing_replaces_them(silent: tuple[str, ...]) -> None:
    site = rolled_out(4, nodes=("n1", "n2"))
    before = {pod["metadata"]["uid"] for pod in site.pods()}
    site.writes.clear()
    site.fall_silent(*silent, seconds=3600)
    assert [call for call in site.writes if call.plural == "pods" and call.verb in ("create", "delete")] == []
    assert {pod["metadata"]["uid"] for pod in site.pods()} == before
    assert site.get("Deployment", "web")["status"]["replicas"] == 4
    site.come_back(*silent, seconds=10)
    assert {pod["metadata"]["uid"] for pod in site.pods()} == before
    assert {pod["status"]["phase"] for pod in site.pods()} == {"Running"}
    assert site.get("Deployment", "web")["status"]["availableReplicas"] == 4


def test_a_node_sets_how_long_it_may_be_silent_before_its_pods_are_made_elsewhere() -> None:
    site = rolled_out(4, nodes=("n1", "n2"))
    site.apply(workload("DaemonSet", "agent"), seconds=10)
    for name in ("n1", "n2"):
        site.patch(ObjectKey("Node", "", name), {"metadata": {"annotations": {"edgecore.io/evict-after": "1m"}}})
    before = {pod["metadata"]["uid"] for pod in site.pods()}
    site.fall_silent("n1", "n2", seconds=600)
    assert {pod["metadata"]["uid"] for pod in site.pods()} == before, "all are silent: a link is broken, no machine"
    site.come_back("n1", "n2")
    site.fall_silent("n1", seconds=50)
    assert {pod["metadata"]["uid"] for pod in site.pods()} == before
    site.run_for(30)
    assert [node_of(pod) for pod in site.pods(site.all("ReplicaSet")[0]["metadata"]["name"])] == ["n2"] * 4
    assert {node_of(pod) for pod in site.pods("agent")} == {"n1", "n2"}, "a DaemonSet's pod belongs to its node"
    ending = [pod for pod in site.all("Pod") if is_being_deleted(pod)]
    assert {node_of(pod) for pod in ending} == {"n1"}
    assert {reason for reason, _ in site.events() if "Taint" in reason} == {"TaintManagerEviction"}
    site.writes.clear()
    site.run_for(3600)
    assert [call.verb for call in site.writes if call.plural == "pods" and call.verb != "update"] == []
    site.come_back("n1", seconds=10)
    assert not [pod for pod in site.all("Pod") if is_being_deleted(pod)]
    assert site.get("Deployment", "web")["status"]["availableReplicas"] == 4


def _silence(seconds: int | None = None, **more: Any) -> list[JsonObject]:
    found = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", **more}
    return [found if seconds is None else {**found, "tolerationSeconds": seconds}]


@pytest.mark.parametrize(
    ("tolerations", "annotations", "minutes"),
    [
        ([], {}, None),
        (_silence(300), {}, None),
        (_silence(300), {"edgecore.io/evict-after": "10m"}, 10),
        (_silence(120), {"edgecore.io/evict-after": "10m"}, 2),
        (_silence(120), {}, 2),
        (_silence(600), {}, 10),
        (_silence(), {"edgecore.io/evict-after": "10m"}, None),
        ([{"operator": "Exists"}], {"node.openyurt.io/autonomy-duration": "10m"}, None),
        (_silence(key="other"), {"node.openyurt.io/autonomy-duration": "10m"}, 10),
    ],
)
def test_a_pods_own_time_on_a_silent_node_counts_before_the_nodes(
    tolerations: list[JsonObject], annotations: dict[str, str], minutes: int | None
) -> None:
    """The 300 s of admission are nobody's word. While all nodes are silent, they are tainted, and nothing else."""
    site = Site(nodes=("n1", "n2"))
    deployment = workload("Deployment", replicas=2)
    deployment["spec"]["template"]["spec"]["tolerations"] = tolerations
    site.apply(deployment, seconds=10)
    site.patch(ObjectKey("Node", "", "n1"), {"metadata": {"annotations": annotations}})
    before = {pod["metadata"]["uid"] for pod in site.pods()}
    site.fall_silent("n1", "n2", seconds=3600)
    assert {pod["metadata"]["uid"] for pod in site.pods()} == before
    taints = [[(one["key"], one["effect"]) for one in node["spec"]["taints"]] for node in site.all("Node")]
    assert taints == [[(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]] * 2
    site.come_back("n1", "n2")
    assert not any("taints" in node["spec"] for node in site.all("Node"))
    site.fall_silent("n1", seconds=minutes * 60 - 10 if minutes else 3600)
    assert {pod["metadata"]["uid"] for pod in site.pods()} == before
    if minutes:
        site.run_for(20)
        assert [node_of(pod) for pod in site.pods()] == ["n2", "n2"]
        (old,) = [pod for pod in site.all("Pod") if is_being_deleted(pod)]
        why = {one["type"]: one.get("reason") for one in old["status"]["conditions"]}
        assert why["DisruptionTarget"] == "DeletionByTaintManager"


def test_a_pod_that_is_put_on_a_silent_node_stays_for_its_own_time() -> None:
    """From its creation on, and not from when the node fell silent, an hour ago."""
    site = Site(nodes=("n1", "n2"))
    site.fall_silent("n1", seconds=3600)
    made = workload("ReplicaSet", replicas=1)
    made["spec"]["template"]["spec"].update(nodeName="n1", tolerations=_silence(120))
    site.apply(made, seconds=110)
    assert [node_of(pod) for pod in site.pods()] == ["n1"]
    (pod,) = site.pods()
    site.run_for(20)
    assert is_being_deleted(site.get("Pod", pod["metadata"]["name"]))


@pytest.mark.parametrize(
    ("annotations", "tolerations"), [({"edgecore.io/evict-after": "1m"}, []), ({}, _silence(60))], ids=["node", "pod"]
)
def test_a_pod_that_is_moved_from_a_silent_node_waits_for_an_answering_one(
    annotations: dict[str, str], tolerations: list[JsonObject]
) -> None:
    """It was bound to that node again when no other had room, only to be deleted again."""
    site = Site(nodes=("n1",))
    deployment = workload("Deployment", replicas=1)
    deployment["spec"]["template"]["spec"]["tolerations"] = tolerations
    site.apply(deployment, seconds=10)
    site.patch(ObjectKey("Node", "", "n1"), {"metadata": {"annotations": annotations}})
    site.add_node("n2", unschedulable=True)
    site.fall_silent("n1", seconds=86400)
    (waiting,) = site.pods()
    assert not node_of(waiting)
    assert len(site.all("Pod")) == 2
    assert f"1 node(s) had untolerated taint {{{UNREACHABLE}: }}" in waiting["status"]["conditions"][0]["message"]
    site.come_back("n1")
    site.cluster.scheduler.place_waiting_pods()
    site.run_for(10)
    assert [node_of(pod) for pod in site.all("Pod")] == ["n1"]


def test_a_template_that_was_stored_with_empty_members_is_the_same() -> None:
    """Earlier cloudcores have stored what Kubernetes' JSON leaves out; a patch today rolls nothing out by that."""
    app = {"name": "main", "image": "app:1"}
    before: JsonObject = {"metadata": {"labels": {"app": "web"}, "annotations": {}}}
    before["spec"] = {"containers": [{**app, "ports": [], "tty": False}], "volumes": [], "hostNetwork": False}
    now: JsonObject = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [app]}}
    kept = {"kind": "ReplicaSet"}
    assert with_same_template([(kept, before)], now) is kept
    assert with_same_template([(kept, {**before, "spec": {**before["spec"], "hostNetwork": True}})], now) is None


def test_a_template_with_quantities_as_they_came_is_the_same() -> None:
    """So a rollback to a ReplicaSet of an earlier cloudcore makes no other one."""

    def template(cpu: str) -> JsonObject:
        return {"spec": {"containers": [{"name": "main", "image": "app:1", "resources": {"limits": {"cpu": cpu}}}]}}

    kept = {"kind": "ReplicaSet"}
    assert with_same_template([(kept, template("0.5"))], template("500m")) is kept
    assert with_same_template([(kept, template("0.5"))], template("501m")) is None


def test_a_template_that_was_stored_with_the_defaults_of_pods_is_the_same() -> None:
    """Those are no longer stored; the next change of a Deployment rolls nothing out by that."""
    limits, ports = {"cpu": "1"}, [{"containerPort": 80}]
    container = {"name": "main", "image": "app:1", "resources": {"limits": limits}, "ports": ports}
    spec = {"replicas": 1, "selector": {}, "template": {"spec": {"containers": [container], "hostNetwork": True}}}
    now = with_defaults({"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})["spec"]["template"]
    (stored,) = now["spec"]["containers"]
    assert "enableServiceLinks" not in now["spec"]
    assert (stored["resources"], stored["ports"]) == ({"limits": limits}, [{"containerPort": 80, "protocol": "TCP"}])
    kept, before = {"kind": "ReplicaSet"}, {"spec": {**now["spec"], "enableServiceLinks": True}}
    before["spec"]["containers"] = [{**stored, "resources": {"limits": limits, "requests": limits}}]
    before["spec"]["containers"][0]["ports"] = [{**stored["ports"][0], "hostPort": 80}]
    assert with_same_template([(kept, before)], now) is kept


NO_EXECUTE = {"key": "rest", "value": "yes", "effect": "NoExecute"}
FOR_EVER = {"key": "rest", "operator": "Exists"}
A_MINUTE = {"key": "rest", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 60}


@pytest.mark.parametrize(
    ("tolerations", "more", "seconds"),
    [
        ([], [], 0),
        ([{"key": "other", "operator": "Exists"}], [], 0),
        ([FOR_EVER], [], None),
        ([A_MINUTE], [], 60),
        ([{**A_MINUTE, "tolerationSeconds": -5}], [], 0),
        ([A_MINUTE, FOR_EVER], [], 60),
        ([FOR_EVER, A_MINUTE], [], None),
        ([A_MINUTE], [{"key": "more", "effect": "NoExecute"}], 0),
        ([A_MINUTE, {"operator": "Exists"}], [{"key": "more", "effect": "NoExecute"}], 60),
        ([], [{"key": "more", "effect": "NoSchedule"}], 0),
    ],
)
def test_a_taint_evicts_pods_that_do_not_tolerate_it(
    tolerations: list[JsonObject], more: list[JsonObject], seconds: int | None
) -> None:
    """The first toleration that matches a taint counts, as in KCM."""
    view, key, now = View(), ObjectKey("Node", "", "n1"), 1000.0
    spec = {"taints": [NO_EXECUTE, *more]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "resourceVersion": "1"}, "spec": spec}
    metadata = {"name": "p", "namespace": "default", "uid": "u1", "resourceVersion": "2"}
    pod_spec = {"nodeName": "n1", "tolerations": tolerations}
    view.put(node)
    view.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec})
    plan = node_pods.reconcile(view, key, now)
    assert plan.again_at == (now + seconds if seconds else None)
    if seconds:
        assert not plan.writes
        assert not node_pods.reconcile(view, key, now + seconds - 1).writes
        plan = node_pods.reconcile(view, key, now + seconds)
    verbs = [(write.call.verb, write.call.subresource) for write in plan.writes]
    assert verbs == ([] if seconds is None else [("update", "status"), ("delete", "")])
    view.put({**node, "metadata": {"name": "n1", "resourceVersion": "3"}, "spec": {"taints": more[:0]}})
    assert not node_pods.reconcile(view, key, now + 100).writes


def tainted(version: str) -> JsonObject:
    metadata = {"name": "n1", "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [NO_EXECUTE]}}


def on_tainted(**status: Any) -> JsonObject:
    metadata = {"name": "p", "namespace": "default", "uid": "u1", "resourceVersion": "2"}
    spec = {"nodeName": "n1", "tolerations": [A_MINUTE]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def test_the_time_for_which_a_taint_is_tolerated_begins_anew_with_a_new_node_of_its_name() -> None:
    view, key = View(), ObjectKey("Node", "", "n1")
    view.put(tainted("1"))
    view.put(on_tainted())
    assert node_pods.reconcile(view, key, 1000.0).again_at == 1060.0
    view.remove(tainted("3"))
    node_pods.reconcile(view, key, 1010.0)
    view.put(tainted("4"))
    assert node_pods.reconcile(view, key, 1100.0).again_at == 1160.0


def test_a_taint_is_tolerated_from_when_it_was_noticed_whatever_taints_were_there_before() -> None:
    view, key = View(), ObjectKey("Node", "", "n1")
    more = {"key": "more", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    pod, node = on_tainted(), tainted("3")
    view.put(tainted("1"))
    view.put({**pod, "spec": {**pod["spec"], "tolerations": [FOR_EVER, more]}})
    assert node_pods.reconcile(view, key, 1000.0) == NOTHING
    view.put({**node, "spec": {"taints": [NO_EXECUTE, {"key": "more", "effect": "NoExecute"}]}})
    plan = node_pods.reconcile(view, key, 5000.0)
    assert (plan.writes, plan.again_at) == ((), 5060.0)
    assert node_pods.reconcile(view, key, 5060.0).writes


def test_a_taint_that_comes_back_is_tolerated_as_long_as_at_first() -> None:
    view, key = View(), ObjectKey("Node", "", "n1")
    view.put(on_tainted())
    for version, now in ((1, 1000.0), (5, 9000.0)):
        view.put(tainted(str(version)))
        assert node_pods.reconcile(view, key, now).again_at == now + 60.0
        view.put({**tainted(str(version + 1)), "spec": {}})
        assert node_pods.reconcile(view, key, now + 50.0) == NOTHING


def test_a_pod_that_is_put_onto_a_tainted_node_stays_for_its_own_time() -> None:
    view, key, made = View(), ObjectKey("Node", "", "n1"), on_tainted()
    view.put(tainted("1"))
    node_pods.reconcile(view, key, 1000.0)
    view.put({**made, "metadata": {**made["metadata"], "creationTimestamp": format_rfc3339(5000.0)}})
    plan = node_pods.reconcile(view, key, 5001.0)
    assert (plan.writes, plan.again_at) == ((), 5060.0)


def test_a_node_that_was_back_meanwhile_must_be_gone_for_the_whole_time_again() -> None:
    view, key = View(), ObjectKey("Node", "", "n1")
    owner = [{"kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}]
    made = on_tainted()
    view.put({**made, "metadata": {**made["metadata"], "ownerReferences": owner}})
    assert node_pods.reconcile(view, key, 1000.0).again_at == 1040.0
    back = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1", "resourceVersion": "3"}}
    view.put(back)
    node_pods.reconcile(view, key, 1001.0)
    view.remove(back)
    assert node_pods.reconcile(view, key, 1100.0).again_at == 1140.0


def test_nothing_is_kept_of_a_node_that_is_gone() -> None:
    view, key = View(), ObjectKey("Node", "", "n1")
    view.marked_silent["n1"], view.tainted_since["n1"], view.gone_since["n1"] = 1.0, {}, 1.0
    node_pods.reconcile(view, key, 1000.0)
    assert (view.marked_silent, view.tainted_since, view.gone_since) == ({}, {}, {})


def test_a_pod_that_has_ended_gets_no_condition_for_its_eviction() -> None:
    view, key = View(), ObjectKey("Node", "", "n1")
    view.put(tainted("1"))
    view.put(on_tainted(phase="Succeeded"))
    node_pods.reconcile(view, key, 1000.0)
    assert [write.call.verb for write in node_pods.reconcile(view, key, 1060.0).writes] == ["delete"]


def test_the_history_of_revisions_forgets_the_oldest_ones() -> None:
    """kube-controller-manager keeps 2,000 characters."""
    known = ",".join(str(number) for number in range(1000, 1400))
    annotations = {REVISION: "5000", HISTORY: known}
    replica_set = {"metadata": {"name": "web-1", "annotations": annotations}}
    made = annotations_for(deployment(), replica_set, 6000)
    assert made[HISTORY] == f"{known[len('1000,') :]},5000"
    assert made[REVISION] == "6000"


def test_a_tainted_node_is_emptied_and_its_pods_are_made_elsewhere() -> None:
    """A node of which one knows that it is dead, too: silence alone moves nothing."""
    site = rolled_out(4, nodes=("n1", "n2"))
    site.apply(workload("DaemonSet", "agent"))
    site.fall_silent("n1", seconds=3600)
    assert {node_of(pod) for pod in site.pods()} == {"n1", "n2"}
    site.patch(ObjectKey("Node", "", "n1"), {"spec": {"taints": [NO_EXECUTE]}}, seconds=10)
    assert [node_of(pod) for pod in site.pods()] == ["n2"] * 5
    ending = [pod for pod in site.all("Pod") if is_being_deleted(pod)]
    assert {node_of(pod) for pod in ending} == {"n1"}
    why = {
        each["reason"] for pod in ending for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget"
    }
    assert why == {"DeletionByTaintManager"}
    told = [event["involvedObject"] for event in site.all("Event") if event["reason"] == "TaintManagerEviction"]
    assert {each["uid"] for each in told} == {uid_of(pod) for pod in ending}
    assert {(each["kind"], each["namespace"]) for each in told} == {("Pod", "default")}
    site.come_back("n1", seconds=10)
    assert {node_of(pod) for pod in site.all("Pod")} == {"n2"}


def test_what_kube_controller_manager_has_made_is_taken_over() -> None:
    """Its hash of a template is another one."""
    origin = rolled_out(3)
    (replica_set,) = origin.all("ReplicaSet")
    suffix = replica_set["metadata"]["labels"]["pod-template-hash"]
    site = Site()
    for obj in (*origin.all("Deployment"), replica_set, *origin.pods()):
        taken = json.loads(json.dumps(obj).replace(suffix, "6b7f675f94"))
        site.cluster.storage.create(taken, uid=obj["metadata"]["uid"])
    site.restart()
    site.run_for(3600)
    assert site.writes == []
    site.patch(site.get("Deployment", "web"), new_image("app:2"), seconds=60)
    assert images(site) == ["app:2"] * 3
    assert {one["metadata"]["annotations"][REVISION]: one["spec"]["replicas"] for one in site.all("ReplicaSet")} == {
        "1": 0, "2": 3,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "StatefulSet"])
def test_an_edit_after_a_cloudcore_with_more_defaults_has_started_rolls_nothing_out(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The templates of ReplicaSets and revisions were stored with the defaults of their day."""
    present = dict(pod_defaults._SPEC)
    monkeypatch.setattr(pod_defaults, "_SPEC", {"restartPolicy": "Always"})
    site = site_of(workload(kind), seconds=60)
    before = {pod["metadata"]["uid"] for pod in site.pods()}
    monkeypatch.setattr(pod_defaults, "_SPEC", present)
    site.restart()
    site.writes.clear()
    site.run_for(3600)
    assert site.writes == []
    (obj,) = site.all(kind)
    edited = site.patch(obj, {"spec": {"template": {"spec": {"schedulerName": "default-scheduler"}}}})
    assert edited["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst", "it is stored with today's defaults"
    site.run_for(60)
    assert {pod["metadata"]["uid"] for pod in site.pods()} == before
    assert len(site.all("ReplicaSet" if kind == "Deployment" else "ControllerRevision")) == 1
    for revision in site.all("ControllerRevision"):  # it may hold anything: an unreadable one is another one
        site.call("delete", revision)
        site.cluster.create({**revision, "metadata": {**revision["metadata"], "name": "x"}, "data": {"spec": {
            "template": {"$patch": "replace", "spec": {"containers": "none"}}}}})  # fmt: skip
    site.patch(obj, new_image("app:2"), seconds=60)
    assert {image_of(pod) for pod in site.pods()} == {"app:2"}


NOW = 1e9


def aged_pod(name: str, **given: Any) -> JsonObject:
    """Return a pod that is ready for a day, but for what is given."""
    ready = given.get("ready", 86_400.0)
    condition = {"type": "Ready", "status": "False" if ready is None else "True"}
    if ready is not None:
        condition["lastTransitionTime"] = format_rfc3339(NOW - ready)
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "of-web", "controller": True}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "resourceVersion": "1",
        "creationTimestamp": format_rfc3339(NOW - given.get("age", 86_400.0)),
        "ownerReferences": [owner],
        "annotations": {"controller.kubernetes.io/pod-deletion-cost": str(given.get("cost", 0))},
    }
    status = {
        "phase": given.get("phase", "Running"),
        "conditions": [condition],
        "containerStatuses": [{"name": "main", "restartCount": count} for count in given.get("restarts", (0,))],
        "initContainerStatuses": [
            {"name": "beside", "restartCount": given.get("beside", 0)},
            {"name": "before", "restartCount": given.get("before", 0)},
        ],
    }
    before = [{"name": "beside", "restartPolicy": "Always"}, {"name": "before"}]
    spec = {"nodeName": given.get("node", "n1"), "initContainers": before}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


@pytest.mark.parametrize("kind", OF_REPLICAS)
@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        ({"node": "", "cost": 9}, {"phase": "Pending"}),
        ({"phase": "Pending", "cost": 9}, {"phase": "Unknown"}),
        ({"phase": "Unknown", "cost": 9}, {"ready": None}),
        ({"ready": None, "cost": 9}, {}),
        ({"node": "silent", "cost": 9}, {}),
        ({"cost": -1, "node": "n2"}, {}),
        ({"ready": 3600.0, "node": "n1"}, {"ready": 10.0, "node": "n2"}),
        ({"ready": 10.0}, {"restarts": (9,), "age": 10.0}),
        ({"restarts": (1,)}, {"age": 10.0}),
        ({"age": 10.0}, {}),
        ({"cost": -1}, {"cost": "cheap"}),
        ({"cost": "cheap"}, {"cost": 1}),
        ({"restarts": (0, 2)}, {"restarts": (1, 1)}),
        ({"restarts": (1,)}, {"restarts": ()}),
        ({"restarts": (1,)}, {"beside": 9}),
        ({"beside": 1}, {"age": 10.0, "before": 9}),
    ],
    ids=[
        "no node", "Pending", "Unknown", "not ready", "a node that does not answer", "a lower cost",
        "others on its node", "ready for a shorter time", "more restarts", "younger", "no number is no cost",
        "a cost that is no number", "of one container", "no containers yet", "not of a sidecar", "of a sidecar",
    ],
)  # fmt: skip
def test_pods_are_deleted_in_the_order_of_kubernetes(kind: str, goes: dict[str, Any], stays: dict[str, Any]) -> None:
    """Each reason comes before the next ones."""
    view = View()
    view.put({"kind": "Node", "metadata": {"name": "silent", "resourceVersion": "1"},
              "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})  # fmt: skip
    replica_set = workload(kind)
    replica_set["metadata"] |= {"namespace": "default", "uid": "of-web", "resourceVersion": "1"}
    view.put(replica_set)
    first, second = aged_pod("z", **goes), aged_pod("a", **stays)  # by their uids they would go the other way
    ended = [aged_pod(f"ended-{number}", node="n2", phase="Succeeded") for number in range(2)]
    for pod in (first, second, aged_pod("other"), *ended):
        view.put(pod)
    assert to_delete(view, replica_set, [first, second], NOW) == [first, second]
    assert to_delete(view, replica_set, [second, first], NOW) == [first, second]


@pytest.mark.parametrize("kind", OF_REPLICAS)
@pytest.mark.parametrize(
    ("replicas", "pods", "expected", "status"),
    [
        (2, [{}, {}], [], {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}),
        (3, [{}, {"ready": 30.0}], ["create"], {"replicas": 2, "readyReplicas": 2, "availableReplicas": 1}),
        (9, [{}, {"ready": None}], ["create"] * 7, {"replicas": 2, "readyReplicas": 1, "availableReplicas": 1}),
        (1, [{}, {"ready": 30.0}], ["p1"], {"replicas": 2, "readyReplicas": 2, "availableReplicas": 1}),
        (0, [{}, {"ready": None}], ["p1", "p0"], {"replicas": 2, "readyReplicas": 1, "availableReplicas": 1}),
        (0, [], [], {"replicas": 0}),
    ],
)
def test_a_look_at_a_replica_set_makes_or_deletes_the_difference(
    kind: str, replicas: int, pods: list[JsonObject], expected: list[str], status: JsonObject
) -> None:
    """Pods are available after 60 s. The first one has not all labels of the template."""
    replica_set = workload(kind, replicas=replicas, minReadySeconds=60)
    replica_set["metadata"] |= {"namespace": "default", "uid": "of-web", "resourceVersion": "1", "generation": 3}
    labels = replica_set["spec"]["template"]["metadata"]["labels"] | {"extra": "yes"}
    replica_set["spec"]["template"]["metadata"]["labels"] = labels
    view = View()
    view.put(replica_set)
    for number, given in enumerate(pods):
        pod = aged_pod(f"p{number}", **given)
        pod["metadata"]["labels"] = {**labels, "own": "1"} if number else {"app": "web"}
        view.put(pod)
    plan = reconcile(view, key_of(replica_set), NOW)
    assert [write.call.name or write.call.verb for write in plan.writes] == expected
    labelled = {"fullyLabeledReplicas": len(pods) - 1} if pods else {}
    assert written_status(plan) == {**status, **labelled, "observedGeneration": 3}
    assert plan.again_at == (NOW + 30 if {"ready": 30.0} in pods else None)
    gone = {**replica_set, "metadata": {**replica_set["metadata"], "deletionTimestamp": "x", "resourceVersion": "2"}}
    view.put(gone)
    assert reconcile(view, key_of(replica_set), NOW).writes == ()


@pytest.mark.parametrize(("ages", "pause"), [((), None), ((0,), 1), ((30, 0), 60), ((200, 0), 300), ((700, 0), 1)])
def test_the_pause_after_a_pod_that_its_node_has_ended(ages: tuple[float, ...], pause: float | None) -> None:
    ended = [aged_pod(f"p{age:g}", phase="Failed", age=age) for age in ages]
    assert pause_ends(ended) == (0.0 if pause is None else NOW + pause)
    replica_set = workload("ReplicaSet", replicas=1)
    replica_set["metadata"] |= {"namespace": "default", "uid": "of-web", "resourceVersion": "1"}
    view = View()
    for obj in (replica_set, *ended):
        obj["metadata"]["labels"] = replica_set["spec"]["template"]["metadata"]["labels"]
        view.put(obj)
    plan = reconcile(view, key_of(replica_set), NOW)
    assert (plan.again_at, len(plan.writes)) == ((None, 1) if pause is None else (NOW + pause, 0))


def test_of_the_pods_that_nodes_have_ended_some_are_kept() -> None:
    """Those that are being deleted are not deleted again."""
    ended = [aged_pod(f"p{age}", phase="Failed", age=age) for age in range(9)]
    for pod in ended[-2:]:
        pod["metadata"]["deletionTimestamp"] = format_rfc3339(NOW)
    assert [write.call.name for write in surplus_ended(ended)] == ["p6", "p5"]
    frozen = [aged_pod(name, phase="Failed", age=0) for name in "gfedcba"]
    assert [write.call.name for write in surplus_ended(frozen)] == ["a", "b"]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_a_node_takes_no_place_of_a_pod_by_mirror_pods(site: Site, kind: str) -> None:
    """They have the labels and the cost that a node chooses, and are ready at once."""
    spec: dict[str, Any] = {} if kind == "DaemonSet" else {"replicas": 3}
    site.apply(workload(kind, **spec), seconds=30)
    before = site.pods()
    annotations = {"kubernetes.io/config.mirror": "x", "controller.kubernetes.io/pod-deletion-cost": "2147483647"}
    for number in range(4):
        metadata = {"name": f"static-{number}", "namespace": "default", "annotations": annotations}
        made = site.cluster.create(
            {"kind": "Pod", "apiVersion": "v1", "metadata": {**metadata, "labels": before[0]["metadata"]["labels"]},
             "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "app:1"}]}}
        )  # fmt: skip
        site.report(made, "Running", ready=True)
    site.run_for(60)
    site.engine.enqueue_all()
    site.run_for(60)
    owned = [pod for pod in site.pods() if controller_of(pod)]
    assert list(map(key_of, owned)) == list(map(key_of, before))
    assert len(site.pods()) == len(before) + 4


def test_pods_of_another_namespace_are_no_replicas_despite_their_owner() -> None:
    """Whoever may write there could take the place of pods here, by the uid of their ReplicaSet."""
    site = rolled_out(3)
    (replica_set,), before = site.all("ReplicaSet"), site.pods()
    site.cluster.create({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "other"}})
    costly = {"controller.kubernetes.io/pod-deletion-cost": "2147483647"}
    for number in range(3):
        metadata = {"name": f"p{number}", "namespace": "other", "labels": before[0]["metadata"]["labels"]}
        references = [owner_reference(replica_set)]
        made = site.cluster.create(
            {"kind": "Pod", "apiVersion": "v1",
             "metadata": {**metadata, "annotations": costly, "ownerReferences": references},
             "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "app:1"}]}}
        )  # fmt: skip
        site.report(made, "Running", ready=True)
    site.settle()
    site.engine.enqueue_all()
    site.run_for(60)
    assert [key_of(pod) for pod in site.pods() if key_of(pod).namespace == "default"] == list(map(key_of, before))
    assert site.get("ReplicaSet", replica_set["metadata"]["name"])["status"]["replicas"] == 3


def test_paused_at_zero_the_newest_replica_set_is_scaled() -> None:
    """The one that was made last, whatever its revision (FindActiveOrLatest)."""
    site = site_of(workload("Deployment", replicas=1), seconds=10)
    site.patch(ObjectKey("Deployment", "default", "web"), new_image("app:2"), seconds=10)
    site.patch(ObjectKey("Deployment", "default", "web"), new_image("app:1"), seconds=10)
    site.patch(ObjectKey("Deployment", "default", "web"), {"spec": {"replicas": 0}}, seconds=10)
    paused = {"spec": {**new_image("app:3")["spec"], "paused": True}}
    site.patch(ObjectKey("Deployment", "default", "web"), paused)
    site.patch(ObjectKey("Deployment", "default", "web"), {"spec": {"replicas": 2}}, seconds=10)
    assert [image_of(pod) for pod in site.pods()] == ["app:2", "app:2"]


def test_a_rollout_without_pods_names_its_replica_set() -> None:
    """KCM has made the new ReplicaSet before it looks whether the rollout is complete."""
    site = site_of(workload("Deployment", replicas=0))
    for image in ("app:2", "app:3"):
        site.run_for(5)
        site.patch(site.get("Deployment", "web"), new_image(image))
    site.run_for(5)
    newest = max(site.all("ReplicaSet"), key=lambda one: int(one["metadata"]["annotations"][REVISION]))
    (said,) = (one for one in site.get("Deployment", "web")["status"]["conditions"] if one["type"] == "Progressing")
    assert said["message"] == f'ReplicaSet "{newest["metadata"]["name"]}" has successfully progressed.'
