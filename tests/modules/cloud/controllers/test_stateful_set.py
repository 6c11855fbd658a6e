"""StatefulSets, in virtual time."""

from typing import Any

import pytest

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.apimachinery.pods.objects import node_of
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.apimachinery.times import format_rfc3339
from modules.cloud.controllers.replica_set import MOST_WRITES
from modules.cloud.controllers.stateful_set import reconcile
from modules.cloud.controllers.view import View
from tests.modules.cloud.controllers.site import Site, image_of, new_image, site_of, workload, written_status


def site_with(replicas: int = 3, seed: int = 0, seconds: float = 20, **spec: Any) -> Site:
    """Return a site with a StatefulSet, and volumes for its claims, some seconds after it was applied."""
    site = Site(seed)
    site.checks.append(one_of_each)
    for number in range(replicas) if "volumeClaimTemplates" in spec else ():
        disk = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/srv"}}
        metadata = {"name": f"disk-{number}"}
        site.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": disk})
    site.apply(workload("StatefulSet", "db", replicas=replicas, serviceName="db", **spec), seconds=seconds)
    return site


def one_of_each(site: Site) -> None:
    names = [pod["metadata"]["name"] for pod in site.all("Pod")]
    assert len(names) == len(set(names))


def names(site: Site) -> list[str]:
    return [pod["metadata"]["name"] for pod in site.pods()]


def images(site: Site) -> dict[str, str]:
    return {pod["metadata"]["name"]: image_of(pod) for pod in site.pods()}


def db(site: Site) -> JsonObject:
    return site.get("StatefulSet", "db")


def test_pods_are_made_and_deleted_in_order() -> None:
    site = site_with(seconds=0)
    assert names(site) == ["db-0"]

    def check(site: Site) -> None:
        found = sorted(site.pods(), key=lambda pod: str(pod["metadata"]["name"]))
        assert all(map(is_ready, found[:-1]))

    site.checks.append(check)
    site.run_for(10)
    assert names(site) == ["db-0", "db-1", "db-2"]
    pod = site.get("Pod", "db-1")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "db")
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    status = db(site)["status"]
    assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (3, 3, 3)
    assert status["currentRevision"] == status["updateRevision"]
    site.patch(db(site), {"spec": {"replicas": 1}}, seconds=10)
    assert names(site) == ["db-0"]
    assert site.is_settled()


def test_a_pod_is_made_when_the_one_before_is_available_and_the_highest_goes_first() -> None:
    site = site_with(minReadySeconds=30, ordinals={"start": 4})
    assert names(site) == ["db-4"]  # ready, and not available yet
    site.run_for(100)
    seen: list[list[str]] = []
    site.checks.append(lambda site: seen.append(sorted(names(site))))
    site.patch(db(site), {"spec": {"replicas": 0}}, seconds=100)
    assert [each for place, each in enumerate(seen) if each not in seen[:place]] == [
        ["db-4", "db-5", "db-6"], ["db-4", "db-5"], ["db-4"], [],
    ]  # fmt: skip


def test_no_pod_is_made_of_a_former_template_that_may_have_none() -> None:
    """Below the partition pods are of the former template: it had the mark of the pods that a node makes itself."""
    site, marked = Site(), workload("StatefulSet", "db", replicas=1, serviceName="db")
    marked["spec"]["updateStrategy"] = {"rollingUpdate": {"partition": 1}}
    marked["spec"]["template"]["metadata"]["annotations"] = {CONFIG_MIRROR: "x"}
    marked["spec"]["template"]["spec"]["nodeName"] = "n1"
    site.apply(marked, seconds=10)
    site.patch(db(site), {"spec": {"template": {"metadata": {"annotations": None}}}}, seconds=10)
    assert names(site) == []
    site.patch(db(site), {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}, seconds=10)
    assert names(site) == ["db-0"]


def test_a_partition_counts_from_the_first_ordinal_and_the_rollout_ends_with_the_last_ready_pod() -> None:
    site = site_with(ordinals={"start": 4}, updateStrategy={"rollingUpdate": {"partition": 1}})
    before = db(site)["status"]["currentRevision"]
    site.ready_after = lambda pod: None if image_of(pod) == "app:2" else 1.0
    site.patch(db(site), new_image("app:2"), seconds=60)
    assert images(site) == {"db-4": "app:1", "db-5": "app:1", "db-6": "app:2"}
    site.ready_after = lambda _: 1.0
    site.report(site.get("Pod", "db-6"), "Running", ready=True, seconds=60)
    assert images(site) == {"db-4": "app:1", "db-5": "app:2", "db-6": "app:2"}
    assert db(site)["status"]["currentRevision"] == before


def test_the_revision_is_current_when_all_updated_pods_are_ready() -> None:
    site = site_with()
    before = db(site)["status"]["currentRevision"]
    site.ready_after = lambda pod: None if pod["metadata"]["name"] == "db-0" else 1.0
    site.patch(db(site), new_image("app:2"), seconds=60)
    assert set(images(site).values()) == {"app:2"}
    assert db(site)["status"]["currentRevision"] == before
    site.report(site.get("Pod", "db-0"), "Running", ready=True, seconds=10)
    assert db(site)["status"]["currentRevision"] == db(site)["status"]["updateRevision"] != before


def test_a_revision_is_not_current_while_a_surplus_pod_alone_is_updated() -> None:
    """Scaled down during a rollout, a set has as many updated and ready pods as it wants, but not the wanted ones."""
    site = site_with(2, updateStrategy={"rollingUpdate": {"partition": 1}})
    before = db(site)["status"]["currentRevision"]
    site.patch(db(site), new_image("app:2"), seconds=60)
    assert images(site) == {"db-0": "app:1", "db-1": "app:2"}
    view = View()
    for each in (*site.all("ControllerRevision"), *site.all("Node"), site.get("Pod", "db-1")):
        view.put(each)
    first = site.get("Pod", "db-0")
    view.put({**first, "status": {**first["status"], "conditions": []}})
    view.put({**db(site), "spec": {**db(site)["spec"], "replicas": 1}})
    status = written_status(reconcile(view, ObjectKey("StatefulSet", "default", "db"), site.clock.now()))
    assert (status["updatedReplicas"], status["readyReplicas"], status["currentRevision"]) == (1, 1, before)


def test_in_parallel_all_are_made_together() -> None:
    site = site_with(podManagementPolicy="Parallel", seconds=0)
    assert names(site) == ["db-0", "db-1", "db-2"]


CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def test_claims_are_made_first_and_stay() -> None:
    site = site_with(2, volumeClaimTemplates=[CLAIM], seconds=10)
    claims = [claim["metadata"]["name"] for claim in site.all("PersistentVolumeClaim")]
    assert claims == ["data-db-0", "data-db-1"]
    volumes = site.get("Pod", "db-1")["spec"]["volumes"]
    assert volumes == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}]
    site.patch(db(site), {"spec": {"replicas": 0}}, seconds=10)
    assert len(site.all("PersistentVolumeClaim")) == 2


def owners(site: Site) -> dict[str, list[str]]:
    claims = site.all("PersistentVolumeClaim")
    return {
        claim["metadata"]["name"]: [one["kind"] for one in claim["metadata"].get("ownerReferences", ())]
        for claim in claims
    }


@pytest.mark.parametrize(
    ("scaled", "deleted", "kept", "surplus"),
    [
        ("Retain", "Retain", [], []),
        ("Retain", "Delete", ["StatefulSet"], ["StatefulSet"]),
        ("Delete", "Retain", [], ["Pod"]),
        ("Delete", "Delete", ["StatefulSet"], ["Pod"]),
    ],
)
def test_claims_have_the_owners_with_which_they_are_to_go(
    scaled: str, deleted: str, kept: list[str], surplus: list[str]
) -> None:
    site = site_with(2, volumeClaimTemplates=[CLAIM], seconds=10)
    assert owners(site) == {"data-db-0": [], "data-db-1": []}
    policy = {"whenScaled": scaled, "whenDeleted": deleted}
    site.patch(db(site), {"spec": {"persistentVolumeClaimRetentionPolicy": policy}})
    assert owners(site) == {"data-db-0": kept, "data-db-1": kept}
    (node,) = {node_of(pod) for pod in site.pods() if pod["metadata"]["name"] == "db-1"}
    site.offline.add(node)
    site.patch(db(site), {"spec": {"replicas": 1}})
    assert owners(site) == {"data-db-0": kept, "data-db-1": surplus}
    site.patch(
        db(site), {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain", "whenDeleted": "Retain"}}}
    )
    assert owners(site) == {"data-db-0": [], "data-db-1": []}


def test_a_claim_of_another_controller_stays_its() -> None:
    site = site_with(1, volumeClaimTemplates=[CLAIM], seconds=10)
    (claim,) = site.all("PersistentVolumeClaim")
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u1", "controller": True}
    site.patch(claim, {"metadata": {"ownerReferences": [other]}})
    site.patch(db(site), {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}})
    assert owners(site) == {"data-db-0": ["ConfigMap"]}


def test_a_pod_waits_until_the_claim_of_its_predecessor_is_gone() -> None:
    """It would be bound to a volume that is about to be deleted. Nobody collects garbage here but the test."""
    policy = {"whenScaled": "Delete"}
    site = site_with(2, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy, seconds=10)
    site.patch(db(site), {"spec": {"replicas": 1}}, seconds=10)
    before = len(site.writes)
    site.patch(db(site), {"spec": {"replicas": 2}}, seconds=100000)
    assert names(site) == ["db-0"]
    assert {write.subresource for write in site.writes[before:]} == {"status"}, "and asks nobody until then"
    site.call("delete", ObjectKey("PersistentVolumeClaim", "default", "data-db-1"), seconds=10)
    assert names(site) == ["db-0", "db-1"]
    assert owners(site) == {"data-db-0": [], "data-db-1": []}


def test_pods_that_end_count_as_replicas_until_they_are_gone() -> None:
    """KCM's computeReplicaStatus: of a revision, they are none any more."""
    site = site_with(2, seconds=10)
    site.offline.update(("n1", "n2", "n3"))
    site.call("delete", site.get("Pod", "db-1"))
    status = db(site)["status"]
    fields = ("replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas")
    assert [status[name] for name in fields] == [2, 2, 2, 1, 1]


@pytest.mark.parametrize(("strategy", "is_current"), [("RollingUpdate", True), ("OnDelete", False)])
def test_the_updated_revision_becomes_the_current_one_by_a_rollout_only(strategy: str, *, is_current: bool) -> None:
    site = site_with(2, updateStrategy={"type": strategy}, seconds=10)
    site.patch(db(site), new_image("app:2"))
    for name in ("db-1", "db-0"):
        site.call("delete", site.get("Pod", name), seconds=20)
    status = db(site)["status"]
    assert set(images(site).values()) == {"app:2"}
    assert (status["currentRevision"] == status["updateRevision"]) is is_current


def test_pods_of_kube_controller_manager_and_of_earlier_cloudcores_are_taken_over() -> None:
    """Its pods have the name of their revision, and its revisions another label; ours had the hash in both."""
    site = site_with(2, seconds=10)
    (revision,) = site.all("ControllerRevision")
    name, labels = revision["metadata"]["name"], revision["metadata"]["labels"]
    assert {pod["metadata"]["labels"]["controller-revision-hash"] for pod in site.pods()} == {name}
    before = {pod["metadata"]["uid"] for pod in site.pods()}
    template = revision["data"]["spec"]["template"]
    assert list(template) == ["$patch", "metadata", "spec"], "it compares the bytes of what Go writes"
    assert next(iter(template["metadata"].items())) == ("creationTimestamp", None)
    suffix = labels["controller.kubernetes.io/hash"]
    earlier = {"controller-revision-hash": suffix, "controller.kubernetes.io/hash": None}
    site.patch(ObjectKey("ControllerRevision", "default", name), {"metadata": {"labels": earlier}})
    for pod in site.pods():
        site.patch(pod, {"metadata": {"labels": {"controller-revision-hash": suffix}}})
    site.restart()
    site.run_for(60)
    assert {pod["metadata"]["uid"] for pod in site.pods()} == before
    assert db(site)["status"]["updatedReplicas"] == 2


@pytest.mark.parametrize("seed", range(3))
def test_a_rolling_update_goes_down_one_at_a_time(seed: int) -> None:
    site = site_with(3, seed, updateStrategy={"rollingUpdate": {"partition": 2}})

    def check(site: Site) -> None:
        assert sum(map(is_ready, site.pods())) >= 2

    site.checks.append(check)
    site.patch(db(site), new_image("app:2"), seconds=20)
    assert images(site) == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:2"}
    site.call("delete", site.get("Pod", "db-0"), seconds=20)
    assert images(site)["db-0"] == "app:1"
    site.patch(db(site), {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}, seconds=30)
    assert set(images(site).values()) == {"app:2"}
    status = db(site)["status"]
    assert status["currentRevision"] == status["updateRevision"]


def test_a_rolling_update_is_one_at_a_time_for_any_policy_of_pods() -> None:
    site = site_with(3, podManagementPolicy="Parallel")
    site.ready_after = lambda _: None
    site.patch(db(site), new_image("app:2"), seconds=600)
    assert images(site) == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:2"}


def test_an_old_pod_of_a_silent_node_is_not_replaced_because_it_is_not_ready_any_more() -> None:
    site = site_with(1)
    (pod,) = site.pods()
    site.fall_silent(pod["spec"]["nodeName"], seconds=600)
    assert not is_ready(site.get("Pod", "db-0"))
    site.patch(db(site), new_image("app:2"), seconds=600)
    assert [one["metadata"]["uid"] for one in site.pods()] == [pod["metadata"]["uid"]]


def test_a_good_template_heals_a_broken_one() -> None:
    site = site_with()
    site.ready_after = lambda pod: None if image_of(pod) == "app:broken" else 1.0
    site.patch(db(site), new_image("app:broken"), seconds=60)
    assert images(site) == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:broken"}
    site.patch(db(site), new_image("app:3"), seconds=60)
    assert set(images(site).values()) == {"app:3"}


def _running(site: Site, *, restarts: int = 0) -> list[dict[str, Any]]:
    started = {"startedAt": format_rfc3339(site.clock.now() - 5)}
    return [{"name": "main", "state": {"running": started}, "restartCount": restarts}]


def test_a_rollout_waits_for_a_pod_that_was_ready() -> None:
    """Kubernetes' own conformance test breaks the probe of a pod, and looks for both revisions in the status."""
    site = site_with()
    site.ready_after = lambda _: None
    site.report(site.get("Pod", "db-1"), "Running", ready=False, containerStatuses=_running(site))
    site.patch(db(site), new_image("app:2"), seconds=600)
    assert set(images(site).values()) == {"app:1"}
    status = site.get("StatefulSet", "db")["status"]
    assert status["currentRevision"] != status["updateRevision"]
    site.ready_after = lambda _: 1.0
    site.run_for(60)
    assert set(images(site).values()) == {"app:2"}


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_rollout_replaces_a_pod_whose_container_was_never_ready_or_has_failed(restarts: int) -> None:
    site = site_with()
    statuses = _running(site, restarts=restarts)
    if not restarts:
        statuses[0]["state"]["running"]["startedAt"] = format_rfc3339(site.clock.now())
    site.ready_after = lambda pod: None if image_of(pod) == "app:1" else 1.0
    site.report(site.get("Pod", "db-1"), "Running", ready=False, containerStatuses=statuses)
    site.patch(db(site), new_image("app:2"), seconds=60)
    assert set(images(site).values()) == {"app:2"}


def test_a_good_template_heals_broken_pods_from_the_partition_on() -> None:
    site = site_with(updateStrategy={"rollingUpdate": {"partition": 2}})
    site.ready_after = lambda pod: None if image_of(pod) == "app:broken" else 1.0
    site.patch(db(site), new_image("app:broken"), seconds=60)
    site.report(site.get("Pod", "db-1"), "Running", ready=False)
    site.ready_after = lambda pod: 1.0 if image_of(pod) == "app:3" else None
    site.patch(db(site), new_image("app:3"), seconds=60)
    assert images(site) == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:broken"}, "it has its turn after db-1"
    site.report(site.get("Pod", "db-1"), "Running", ready=True, seconds=60)
    assert images(site) == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:3"}


def test_there_is_no_second_pod_of_a_name_while_its_node_is_away() -> None:
    site = site_with(1)
    (pod,) = site.pods()
    node = pod["spec"]["nodeName"]
    site.offline.add(node)
    site.call("delete", pod, seconds=100000)
    assert [one["metadata"]["uid"] for one in site.all("Pod")] == [pod["metadata"]["uid"]]
    site.cluster.delete(ObjectKey("Pod", "default", "db-0"), grace=0)
    site.run_for(20)
    assert names(site) == ["db-0"]


def test_a_pod_waits_for_the_end_of_a_foreign_pod_of_its_name() -> None:
    """And asks nobody until then."""
    site = Site()
    foreign = {"metadata": {"name": "db-0"}, "spec": {"containers": [{"name": "main", "image": "other:1"}]}}
    site.apply({"apiVersion": "v1", "kind": "Pod", **foreign}, seconds=5)
    pod = site.get("Pod", "db-0")
    site.offline.add(node_of(pod))
    site.call("delete", pod)
    site.apply(workload("StatefulSet", "db", replicas=1, serviceName="db"), seconds=600)
    assert [write.plural for write in site.writes if write.verb == "create"] == ["controllerrevisions"]
    site.offline.clear()
    site.run_for(10)
    assert images(site) == {"db-0": "app:1"}


def test_a_pod_that_has_failed_is_replaced() -> None:
    site = site_with(1)
    (pod,) = site.pods()
    site.report(pod, "Failed", seconds=20)
    (new,) = site.pods()
    assert new["metadata"]["uid"] != pod["metadata"]["uid"]


def test_a_pod_whose_node_is_deleted_is_made_again_with_its_claim() -> None:
    site = site_with(1, volumeClaimTemplates=[CLAIM])
    (pod,) = site.pods()
    (claim,) = site.all("PersistentVolumeClaim")
    site.fall_silent(pod["spec"]["nodeName"], seconds=100000)
    assert [one["metadata"]["uid"] for one in site.all("Pod")] == [pod["metadata"]["uid"]]
    site.call("delete", ObjectKey("Node", "", pod["spec"]["nodeName"]), seconds=60)
    (new,) = site.pods()
    assert (new["metadata"]["name"], new["metadata"]["uid"] == pod["metadata"]["uid"]) == ("db-0", False)
    assert new["spec"]["volumes"] == pod["spec"]["volumes"]
    assert [one["metadata"]["uid"] for one in site.all("PersistentVolumeClaim")] == [claim["metadata"]["uid"]]


@pytest.mark.parametrize("replicas", [700, 2**31 - 1])
def test_pods_in_parallel_are_planned_500_at_a_time(replicas: int) -> None:
    """A plan of all of them would take the memory of the cloud."""
    key, view = ObjectKey("StatefulSet", "default", "db"), View()
    parallel = workload("StatefulSet", "db", replicas=replicas, serviceName="db", podManagementPolicy="Parallel")
    view.put({**parallel, "metadata": {"name": "db", "namespace": "default", "uid": "u1", "resourceVersion": "1"}})
    (revision,) = reconcile(view, key, 0.0).writes
    assert revision.call.body is not None
    metadata = {**revision.call.body["metadata"], "uid": "u2", "resourceVersion": "2"}
    view.put({**revision.call.body, "metadata": metadata})
    assert len(reconcile(view, key, 0.0).writes) == MOST_WRITES


def test_of_unhealthy_surplus_pods_only_the_last_one_goes() -> None:
    """As in Kubernetes: its successor waits until the one before is healthy."""
    site = site_with(seconds=10)
    site.ready_after = lambda _: None
    for name in ("db-1", "db-2"):
        site.report(site.get("Pod", name), "Running", ready=False)
    site.patch(db(site), {"spec": {"replicas": 1}}, seconds=60)
    assert names(site) == ["db-0", "db-1", "db-2"]
    site.report(site.get("Pod", "db-1"), "Running", ready=True, seconds=60)
    assert names(site) == ["db-0"]


def test_a_claim_without_a_name_is_none() -> None:
    """An API server takes it."""
    site = site_with(1, volumeClaimTemplates=[{"spec": CLAIM["spec"]}], seconds=10)
    assert (names(site), site.all("PersistentVolumeClaim")) == (["db-0"], [])


def test_a_claim_that_a_waiting_pod_lacks_is_made_again() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claim["spec"]["resources"] = {"requests": {"storage": "1Mi"}}  # type: ignore[index]
    site = site_of(workload("StatefulSet", "db", replicas=1, serviceName="db", volumeClaimTemplates=[claim]), nodes=())
    before = site.get("PersistentVolumeClaim", "data-db-0")
    site.cluster.replace({**before, "metadata": {**before["metadata"], "finalizers": []}})
    site.call("delete", before)
    assert site.get("PersistentVolumeClaim", "data-db-0")["metadata"]["uid"] != before["metadata"]["uid"]


def _loose(name: str) -> JsonObject:
    template = workload("StatefulSet", "db")["spec"]["template"]
    return {**template, "apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": name}}


def test_a_pod_of_another_name_is_nobodys() -> None:
    """It would be deleted with the StatefulSet. KCM's `isMemberOf`."""
    site = site_of(*map(_loose, ("db-x", "mydb-0", "db")))
    site.apply(workload("StatefulSet", "db", replicas=1, serviceName="db"), seconds=5)
    for name in ("db-x", "mydb-0", "db"):
        assert "ownerReferences" not in site.get("Pod", name)["metadata"]


def test_an_orphan_that_has_ended_gives_its_name_to_a_new_pod() -> None:
    site = Site()
    old = site.apply(_loose("db-0"))
    site.report(old, "Failed")
    site.apply(workload("StatefulSet", "db", replicas=1, serviceName="db"), seconds=5)
    new = site.get("Pod", "db-0")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert is_ready(new)


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_a_workload_that_was_deleted_without_its_pods_takes_them_back(kind: str) -> None:
    """With their revisions: the pods are of the present template, and are not made anew."""
    site = Site()
    site.apply(wanted := workload(kind, "db", **({"serviceName": "db"} if kind == "StatefulSet" else {})), seconds=20)
    before = {pod["metadata"]["uid"] for pod in site.pods("db")}
    site.call("delete", site.get(kind, "db"))
    (revision,) = site.all("ControllerRevision")
    for orphan in (revision, *site.pods("db")):  # as the garbage collector lets go of them
        site.patch(orphan, {"metadata": {"ownerReferences": None}})
    site.apply(wanted, seconds=20)
    assert {pod["metadata"]["uid"] for pod in site.pods("db")} == before != set()
    (taken,) = site.all("ControllerRevision")
    assert taken["metadata"]["name"] == revision["metadata"]["name"]
    assert [one["name"] for one in taken["metadata"]["ownerReferences"]] == ["db"]


def test_a_pod_gets_the_labels_of_its_identity_back() -> None:
    site = site_with(1, seconds=5)
    names = ("statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index")
    site.patch(site.get("Pod", "db-0"), {"metadata": {"labels": dict.fromkeys(names)}}, seconds=5)
    labels = site.get("Pod", "db-0")["metadata"]["labels"]
    assert [labels[name] for name in names] == ["db-0", "0"]
    assert ("SuccessfulUpdate", "update Pod db-0 in StatefulSet db successful") in site.events()
