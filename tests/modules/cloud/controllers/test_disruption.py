"""PodDisruptionBudgets: their status, and evictions that ask them."""

from typing import Any

import pytest

from modules.apimachinery.api_errors import TooManyRequestsError
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.disruption_budgets import charged_budget
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.controllers.disruption import reconcile
from modules.cloud.controllers.plan import NOTHING
from modules.cloud.controllers.pods import owner_reference
from modules.cloud.controllers.view import View
from tests.modules.cloud.apiextensions.definition import definition
from tests.modules.cloud.controllers.site import Site, site_of, workload, written_status
from tests.support.presence import present

BUDGET = ObjectKey("PodDisruptionBudget", "default", "web")


def budget(**spec: Any) -> JsonObject:
    given = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    return {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"name": "web"}, "spec": given}


def status_of(site: Site) -> JsonObject:
    status: JsonObject = site.cluster.storage.get(BUDGET)["status"]
    return status


def counts(site: Site) -> tuple[int, ...]:
    status = status_of(site)
    names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    return tuple(status[name] for name in names)


def evict(site: Site, pod: JsonObject, *, settle: bool = True) -> ApiResult:
    key, body = key_of(pod), {"kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
    call = ApiCall(verb="create", api_version="v1", plural="pods", namespace=key.namespace, name=key.name,
                   subresource="eviction", body=body)  # fmt: skip
    result = api_calls.serve(site.cluster, call)
    if settle:
        site.settle()
    return result


def running(replicas: int = 3, **spec: Any) -> Site:
    return site_of(workload("Deployment", replicas=replicas), budget(**spec), seconds=10)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, (3, 3, 2, 1)),
        ({"minAvailable": 3}, (3, 3, 3, 0)),
        ({"minAvailable": "50%"}, (3, 3, 2, 1)),
        ({"maxUnavailable": 1}, (3, 3, 2, 1)),
        ({"maxUnavailable": "34%"}, (3, 3, 1, 2)),
        ({"maxUnavailable": 5}, (3, 3, 0, 3)),
    ],
)
def test_the_status_has_the_number_of_pods_that_may_go(spec: JsonObject, expected: tuple[int, ...]) -> None:
    site = running(**spec)
    assert counts(site) == expected
    (condition,) = status_of(site)["conditions"]
    wanted = ("True", "SufficientPods") if expected[3] else ("False", "InsufficientPods")
    assert (condition["status"], condition["reason"]) == wanted
    assert status_of(site)["observedGeneration"] == 1


def stored(obj: JsonObject, name: str, **status: Any) -> JsonObject:
    """An object as it is stored."""
    metadata = {**obj["metadata"], "name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
    return {**obj, "metadata": metadata, "status": status}


def test_of_pods_without_a_controller_no_number_may_be_unavailable() -> None:
    view, pod = View(), {"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"app": "web"}}, "spec": {}}
    for name in "ab":
        view.put(stored(pod, name, conditions=[{"type": "Ready", "status": "True"}]))
    made = stored(budget(maxUnavailable=1), "web")
    view.put(made)
    plan = reconcile(view, key_of(made), 1e9)
    assert written_status(plan)["disruptionsAllowed"] == 0


@pytest.mark.parametrize(
    ("spec", "pods", "reasons"),
    [
        ({"maxUnavailable": 1}, 0, ["NoPods"]),
        ({"maxUnavailable": 1}, 2, ["UnmanagedPods"]),
        ({"minAvailable": "50%"}, 2, ["UnmanagedPods"]),
        ({"minAvailable": 1}, 2, []),
    ],
)
def test_events_tell_of_pods_that_a_budget_does_not_count(spec: JsonObject, pods: int, reasons: list[str]) -> None:
    view = View()
    made = stored(budget(**spec), "web")
    view.put(made)
    for number in range(pods):
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"app": "web"}}}
        view.put(stored(pod, f"p{number}"))
    plan = reconcile(view, key_of(made), 1e9)
    assert [event.reason for event in plan.events] == reasons
    assert plan.status is not None
    view.put({**made, **plan.status.call.body, "metadata": {**made["metadata"], "resourceVersion": "2"}})
    assert reconcile(view, key_of(made), 1e9).events == (), "they are not told again"


def test_a_pod_that_is_gone_is_no_longer_noted_as_evicted() -> None:
    """Another one of its name, as of a StatefulSet, counts immediately."""
    view, now = View(), 1_800_000_000.0
    made = stored(budget(minAvailable=1), "web", disruptedPods={"web-0": format_rfc3339(now)})
    view.put(made)
    plan = reconcile(view, key_of(made), now)
    assert "disruptedPods" not in written_status(plan)


def test_pods_of_a_controller_without_replicas_have_no_disruptions_and_are_reported_once() -> None:
    view = View()
    job = stored(workload("Job", "web"), "web")
    pod = stored({"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"app": "web"}}, "spec": {}}, "p")
    pod["metadata"]["ownerReferences"] = [owner_reference(job)]
    pod["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    made = stored(budget(maxUnavailable=1), "web", disruptionsAllowed=1, currentHealthy=1)
    for obj in (job, pod, made):
        view.put(obj)
    plan = reconcile(view, key_of(made), 1e9)
    status = written_status(plan)
    assert (status["disruptionsAllowed"], status["currentHealthy"]) == (0, 1)
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "SyncFailed")
    assert condition["message"] == "jobs.batch does not implement the scale subresource"
    assert [event.reason for event in plan.events] == ["CalculateExpectedPodCountFailed"]
    view.put({**made, "metadata": {**made["metadata"], "resourceVersion": "2"}, "status": status})
    assert reconcile(view, key_of(made), 1e9 + 60) == NOTHING


def test_an_evicted_pod_counts_again_when_it_was_not_deleted_for_two_minutes() -> None:
    view, now = View(), 1_800_000_000.0
    for name in "abc":
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"app": "web"}}, "spec": {}}
        view.put(stored(pod, name, conditions=[{"type": "Ready", "status": "True"}]))
    evicted = {name: format_rfc3339(now - ago) for name, ago in (("a", 120), ("b", 119), ("c", 30))}
    made = stored(budget(minAvailable=1), "web", disruptedPods=evicted)
    view.put(made)
    plan = reconcile(view, key_of(made), now)
    status = written_status(plan)
    assert (status["currentHealthy"], sorted(status["disruptedPods"])) == (1, ["b", "c"])
    assert plan.again_at == now + 1


def test_nothing_is_done_for_a_budget_that_is_being_deleted_or_gone() -> None:
    made = stored(budget(minAvailable=1), "web")
    made["metadata"]["deletionTimestamp"] = format_rfc3339(1e9)
    view = View()
    view.put(made)
    assert reconcile(view, key_of(made), 1e9) == NOTHING
    assert reconcile(View(), key_of(made), 1e9) == NOTHING


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, (6, 2)),
        ({"minAvailable": "50%"}, (13, 7)),
        ({"minAvailable": "1%"}, (13, 1)),
        ({"maxUnavailable": 2}, (13, 11)),
        ({"maxUnavailable": "30%"}, (13, 9)),
    ],
)
def test_a_percentage_is_of_the_pods_that_are_wanted(spec: JsonObject, expected: tuple[int, int]) -> None:
    """And not of those that are there; a number of available ones is as it is given. A Deployment that is rolled out
    counts once, whatever ReplicaSets it has, and pods without a controller not at all (getExpectedScale).
    """
    view = View()

    def put(obj: JsonObject, name: str, owner: JsonObject | None = None, uid: str = "") -> JsonObject:
        metadata = {**obj["metadata"], "name": name, "namespace": "default", "uid": uid or name, "resourceVersion": "1"}
        if owner is not None:
            metadata["ownerReferences"] = [owner_reference(owner)]
        made = {**obj, "metadata": metadata}
        view.put(made)
        return made

    web = put(workload("Deployment", replicas=5), "web")
    owners: list[JsonObject | None] = [put(workload("ReplicaSet", replicas=4), f"web-{part}", web) for part in "ab"]
    owners += [put(workload("ReplicaSet", replicas=2), "alone"), put(workload("StatefulSet", replicas=6), "db"), None]
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"app": "web"}}, "spec": {}}
    for number, owner in enumerate([owners[0], *owners]):
        put(pod, f"p{number}", owner)
    made = put(budget(**spec), "web", uid="b")
    status = written_status(reconcile(view, key_of(made), 1e9))
    assert (status["expectedPods"], status["desiredHealthy"]) == expected


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet", "ReplicationController"])
def test_the_owner_of_a_workload_does_not_matter(kind: str) -> None:
    """An EdgeApplication has made it, or a controller that the API server does not know."""
    view = View()
    application = {"kind": "EdgeApplication", "apiVersion": "apps.kubeedge.io/v1alpha1", "metadata": {}}
    owner = stored(application, "app")
    of_app = stored(workload(kind, replicas=4), "web")
    of_app["metadata"]["ownerReferences"] = [owner_reference(owner)]
    pod = stored({"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"app": "web"}}, "spec": {}}, "web-0")
    pod["metadata"]["ownerReferences"] = [owner_reference(of_app)]
    made = stored(budget(maxUnavailable="25%"), "web")
    for obj in (owner, of_app, pod, made):
        view.put(obj)
    status = written_status(reconcile(view, key_of(made), 1e9))
    assert (status["expectedPods"], status["desiredHealthy"]) == (4, 3)


def test_a_drain_gets_429_for_the_second_pod_until_the_first_one_is_replaced() -> None:
    site = running(minAvailable=2)
    first, second, _ = site.pods()
    assert evict(site, first, settle=False).refusal is None
    conditions = site.cluster.storage.get(key_of(first))["status"]["conditions"]
    assert {one["type"]: one.get("reason") for one in conditions}["DisruptionTarget"] == "EvictionByEvictionAPI"
    refusal = present(evict(site, second, settle=False).refusal)
    assert (refusal["code"], refusal["reason"]) == (429, "TooManyRequests")
    assert refusal["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    site.settle()
    (cause,) = (evict(site, second).refusal or {})["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget web needs 2 healthy pods and has 2 currently"
    site.run_for(10)
    assert evict(site, second).refusal is None


def test_a_pod_that_is_not_ready_goes_while_the_others_are_enough() -> None:
    site = running(minAvailable=2)
    first, second, third = site.pods()
    site.ready_after = lambda _: None
    site.report(first, "Running", seconds=1)
    assert counts(site) == (3, 2, 2, 0)
    assert evict(site, first).refusal is None
    site.report(second, "Running", seconds=1)
    assert evict(site, second).refusal is not None
    site.patch(BUDGET, {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})
    assert evict(site, second).refusal is None
    assert evict(site, third).refusal is not None


def test_pods_of_a_silent_node_are_not_healthy() -> None:
    site = running(minAvailable=2)
    node = site.cluster.storage.get(ObjectKey("Node", "", site.pods()[0]["spec"]["nodeName"]))
    since = format_rfc3339(site.clock.now())
    silent = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": since}]
    site.cluster.replace({**node, "status": {**node["status"], "conditions": silent}})
    site.run_for(1)
    assert counts(site)[1] == 2
    assert evict(site, site.pods()[0]).refusal is None, "it is no loss"


def test_a_pod_that_does_not_run_yet_goes_whatever_its_budget_allows_and_one_that_is_not_ready_does_not() -> None:
    """A budget that wants no pod healthy does not say that enough are."""
    counts = {"disruptionsAllowed": 0, "desiredHealthy": 0, "currentHealthy": 0}
    full = stored(budget(minAvailable=0), "web", **counts)
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"app": "web"}}, "spec": {}}
    assert charged_budget(stored(pod, "p", phase="Pending"), [full], "", is_healthy=False) is None
    with pytest.raises(TooManyRequestsError):
        charged_budget(stored(pod, "p", phase="Running"), [full], "", is_healthy=False)


def test_a_budget_that_is_not_counted_yet_and_a_second_one_refuse() -> None:
    site = running(minAvailable=1)
    pod = site.pods()[0]
    site.cluster.apply(budget(minAvailable=2))
    refusal = present(evict(site, pod, settle=False).refusal)
    assert refusal["details"]["retryAfterSeconds"] == 10
    assert refusal["details"]["causes"][0]["message"] == (
        "The disruption budget web is still being processed by the server."
    )
    other = budget(minAvailable=0)
    site.apply({**other, "metadata": {"name": "other"}})
    refusal = present(evict(site, pod).refusal)
    assert (refusal["code"], refusal["message"]) == (
        500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    )  # fmt: skip


def test_a_job_has_no_scale() -> None:
    site = Site()
    job = workload("Job", parallelism=2, completions=2)
    job["spec"]["template"]["metadata"] = {"labels": {"app": "web"}}
    site.apply(job, budget(maxUnavailable=1), seconds=3)
    (condition,) = status_of(site)["conditions"]
    assert condition["reason"] == "SyncFailed"
    assert any(reason == "CalculateExpectedPodCountFailed" for reason, _ in site.events())


CACHE = ObjectKey("Cache.example.com", "default", "web")
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def with_caches(subresources: JsonObject, pods: int = 3, **spec: Any) -> tuple[Site, JsonObject]:
    """Return a site with pods of a custom object that a budget covers, and that object."""
    site = Site()
    made = definition("Cache", "caches", "example.com")
    open_schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    made["spec"]["versions"][0].update(schema=open_schema, subresources=subresources)
    site.apply(made)
    cache = site.apply({"kind": "Cache", "apiVersion": "example.com/v1", "metadata": {"name": "web"},
                        "spec": {"replicas": 4}})  # fmt: skip
    for number in range(pods):
        add_pod(site, cache, f"web-{number}")
    site.apply(budget(**spec), seconds=10)
    return site, cache


def add_pod(site: Site, owner: JsonObject, name: str) -> None:
    metadata = {"name": name, "labels": {"app": "web"}, "ownerReferences": [owner_reference(owner)]}
    spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "cache"}]}
    site.apply({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec})


def test_the_replicas_of_a_custom_object_are_read_from_its_scale() -> None:
    site, cache = with_caches({"scale": SCALE}, maxUnavailable=2)
    assert counts(site) == (4, 3, 2, 1)
    site.patch(CACHE, {"spec": {"replicas": 5}})
    add_pod(site, cache, "web-3")
    site.run_for(10)
    assert counts(site) == (5, 4, 3, 1)
    assert site.is_settled()
    assert not site.engine.view.scales


@pytest.mark.parametrize(
    ("subresources", "edit", "message"),
    [
        ({}, {}, "caches.example.com does not implement the scale subresource"),
        ({"scale": SCALE}, {"apiVersion": "example.com/v2"}, 'no matches for kind "Cache" in version "example.com/v2"'),
        ({"scale": SCALE}, {"kind": "Store"}, 'no matches for kind "Store" in version "example.com/v1"'),
        ({"scale": SCALE}, {"metadata": {"name": "gone", "uid": "u"}}, 'found no controllers for pod "p"'),
        ({"scale": SCALE}, {"metadata": {"name": "web", "uid": "other"}}, 'found no controllers for pod "p"'),
        (
            {"scale": {**SCALE, "specReplicasPath": ".spec.size"}},
            {},
            'Internal error occurred: the spec replicas field ".spec.size" does not exist',
        ),
    ],
)
def test_a_budget_says_why_the_scale_of_a_custom_object_is_not_known(
    subresources: JsonObject, edit: JsonObject, message: str
) -> None:
    site, cache = with_caches(subresources, pods=0, maxUnavailable=1)
    add_pod(site, {**cache, **edit}, "p")
    site.run_for(3)
    (condition,) = status_of(site)["conditions"]
    assert (condition["reason"], condition["message"]) == ("SyncFailed", message)
    assert site.is_settled()


def test_a_scale_that_the_api_server_does_not_answer_is_read_again() -> None:
    site, cache = with_caches({"scale": SCALE}, maxUnavailable=2)
    site.patch(CACHE, {"spec": {"replicas": 5}})
    lost = [ApiResult(refusal={"code": 504, "message": "lost"})]
    site.answer = lambda call: lost.pop() if call.subresource == "scale" and lost else None
    add_pod(site, cache, "web-3")
    site.run_for(10)
    assert not lost
    assert counts(site) == (5, 4, 3, 1)


def test_scaling_changes_the_budget_and_a_settled_one_is_not_written() -> None:
    site = running(maxUnavailable=1)
    site.patch(ObjectKey("Deployment", "default", "web"), {"spec": {"replicas": 5}}, seconds=10)
    assert counts(site) == (5, 5, 4, 1)
    site.writes.clear()
    site.restart()
    site.run_for(10)
    assert site.writes == []


@pytest.mark.parametrize("spec", [{"minAvailable": 3}, {"maxUnavailable": 0}])
def test_mirror_pods_do_not_count(spec: JsonObject) -> None:
    """Or a node could let the pods of others be evicted, or keep them, by a static pod with their labels."""
    site = running(**spec)
    before = counts(site)
    annotations = {"kubernetes.io/config.mirror": "x"}
    made = site.cluster.create(
        {"kind": "Pod", "apiVersion": "v1",
         "metadata": {"name": "static", "namespace": "default", "labels": {"app": "web"}, "annotations": annotations},
         "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "app:1"}]}}
    )  # fmt: skip
    site.report(made, "Running", ready=True, seconds=10)
    assert counts(site) == before
