"""No workload that a user may write is an endless loop of pods: what is lost at once is made later each time, and what
would not count is not made.
"""

from typing import Any, Final

import pytest

from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.cloud.client.calls import ApiResult
from modules.cloud.controllers import job as job_controller
from modules.cloud.controllers import lost_objects
from modules.cloud.controllers.application_definitions import definitions
from modules.cloud.controllers.job import reconcile
from modules.cloud.controllers.job_pods import TRACKING
from modules.cloud.controllers.lost_objects import LostObjects
from modules.cloud.controllers.replica_set import MOST_WRITES
from modules.cloud.controllers.view import View, controller_of
from tests.modules.cloud.controllers.site import Site, site_of, workload
from tests.modules.cloud.controllers.test_edge_application import SERVICE, SETTINGS, application, target
from tests.support.presence import present

_ENDLESS: Final = 2**31 - 1
_SPECS: Final[dict[str, dict[str, Any]]] = {
    "ReplicaSet": {"replicas": 5},
    "DaemonSet": {},
    "StatefulSet": {"replicas": 5, "podManagementPolicy": "Parallel"},
    "Job": {"parallelism": 5, "completions": 100_000, "backoffLimit": _ENDLESS},
    "Deployment": {"replicas": 5},
}
_EACH: Final = tuple(_SPECS)


def endless(kind: str, **spec: Any) -> JsonObject:
    made = workload(kind, **_SPECS[kind])
    made["spec"]["template"]["spec"].update(spec)
    return made


class Counting(Site):
    """Ends a run in which too many pods are made, which would not end otherwise."""

    def __init__(self, most: int, *nodes: str, phase: str = "") -> None:
        super().__init__(nodes=nodes or ("n1", "n2"))
        self.phase = phase
        self.most = most
        self.checks.append(lambda _: self.count())

    def count(self) -> None:
        assert self.made("pods") <= self.most
        assert self.made("replicasets") <= 1

    def made(self, plural: str) -> int:
        return sum(call.verb == "create" and call.plural == plural for call in self.writes)

    def report(self, pod: JsonObject, phase: str, *, ready: bool = False, **status: Any) -> None:
        super().report(pod, self.phase or phase, ready=ready, **status)


def labelled(kind: str, label: str, **spec: Any) -> JsonObject:
    """Return a workload whose selector wants its template's value of a label that the controller sets, too."""
    made = workload(kind, **spec)
    made["spec"].setdefault("selector", {"matchLabels": {"app": "web"}})
    made["spec"]["selector"]["matchLabels"][label] = "x"
    made["spec"]["template"]["metadata"]["labels"][label] = "x"
    return made


@pytest.mark.parametrize(
    "wanted",
    [
        labelled("DaemonSet", "controller-revision-hash"),
        labelled("StatefulSet", "controller-revision-hash"),
        labelled("Deployment", "pod-template-hash"),
        labelled("Job", "batch.kubernetes.io/job-completion-index", completionMode="Indexed", completions=3,
            manualSelector=True),
        labelled("Job", "batch.kubernetes.io/job-completion-index", completionMode="Indexed", completions=3,
            backoffLimitPerIndex=1, manualSelector=True),
    ],
    ids=lambda wanted: str(wanted["kind"]),
)  # fmt: skip
def test_nothing_is_made_that_the_selector_does_not_match(wanted: JsonObject) -> None:
    site = Counting(0)
    site.apply(wanted, seconds=100)
    assert site.all("Pod") == []
    assert len(site.writes) < 10


@pytest.mark.parametrize("kind", _EACH)
def test_no_mirror_pod_is_made(kind: str) -> None:
    """A mirror pod is never a controller's, so that it would be released, and made again."""
    site = Counting(0)
    wanted = endless(kind, nodeName="n1")
    wanted["spec"]["template"]["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    site.apply(wanted, seconds=100)
    assert len(site.writes) < 10


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("kind", _EACH)
def test_pods_that_end_at_once_are_made_later_each_time(kind: str, phase: str) -> None:
    site = Counting(10**9 if (kind, phase) == ("Job", "Succeeded") else 60, phase=phase)
    wanted = endless(kind)
    if phase == "Succeeded" and kind == "Job":
        wanted["spec"]["completions"] = 20
    site.apply(wanted, seconds=600)
    assert site.made("pods") > 5


@pytest.mark.parametrize("kind", _EACH)
def test_pods_that_are_evicted_at_once_are_made_later_each_time(kind: str) -> None:
    site = Counting(60, "n0")
    site.add_node("n1", taints=[{"key": "bad", "effect": "NoExecute"}])
    wanted = endless(
        kind, tolerations=[{"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]
    )
    if kind != "DaemonSet":
        wanted["spec"]["template"]["spec"]["nodeName"] = "n1"
    site.apply(wanted, seconds=600)
    assert site.made("pods") > 5


@pytest.mark.parametrize("kind", ["ReplicaSet", "Job"])
def test_pods_that_cannot_leave_their_node_do_not_heap_up(kind: str) -> None:
    site = Counting(60)
    site.fall_silent("n1")
    tolerations = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]
    site.apply(endless(kind, nodeName="n1", tolerations=tolerations), seconds=600)
    assert site.made("pods") > 5


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Job"])
def test_pods_for_a_node_that_is_not_there_are_made_later_each_time(kind: str) -> None:
    site = Counting(60)
    site.apply(endless(kind, nodeName="nowhere"), seconds=600)
    assert site.made("pods") > 5


def test_pods_that_somebody_releases_are_made_later_each_time() -> None:
    site = Counting(20)
    site.apply(workload("ReplicaSet", replicas=1))
    for _ in range(60):
        for pod in site.pods("web"):
            site.patch(pod, {"metadata": {"labels": {"app": "other"}}})
        site.run_for(1)
    assert 5 < len(site.all("Pod")) < 15


def test_a_bad_node_delays_only_its_own_pod_of_a_daemon_set() -> None:
    site = site_of(workload("DaemonSet"), nodes=("n1",))
    for _ in range(8):
        for pod in site.all("Pod"):
            site.call("delete", pod, options={"gracePeriodSeconds": 0})
        site.run_for(1.5)
    assert site.all("Pod") == []
    site.add_node("n2")
    site.settle()
    assert len(site.all("Pod")) == 1


def test_pods_that_their_controller_deletes_are_not_lost() -> None:
    """A rollout of a DaemonSet whose former rollout was a moment ago goes on at once."""
    site = site_of(workload("DaemonSet"), seconds=5, nodes=("n1", "n2", "n3"))
    for image in ("app:2", "app:3", "app:4"):
        site.patch(
            ObjectKey("DaemonSet", "default", "web"),
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}},
        )
        site.run_for(5)
        assert {pod["spec"]["containers"][0]["image"] for pod in site.pods()} == {image}


def test_a_pod_that_its_controller_could_not_delete_is_lost_when_somebody_else_deletes_it() -> None:
    site = site_of(workload("ReplicaSet", replicas=2))
    site.answer = lambda call: ApiResult(refusal={"code": 403, "message": "no"}) if call.verb == "delete" else None
    site.patch(ObjectKey("ReplicaSet", "default", "web"), {"spec": {"replicas": 1}})
    site.patch(ObjectKey("ReplicaSet", "default", "web"), {"spec": {"replicas": 2}}, seconds=10)
    site.answer = lambda _: None
    for pod in site.pods():
        site.call("delete", pod, options={"gracePeriodSeconds": 0})
    assert site.pods() == []
    site.run_for(2)
    assert len(site.pods()) == 2


def job_with(pods: int, conditions: list[JsonObject], **metadata: Any) -> tuple[View, JsonObject]:
    """Return a Job with pods that have succeeded."""
    view = View()
    job = workload("Job", parallelism=1, completions=10_000)
    job["metadata"].update(uid="job", namespace="default", resourceVersion="1")
    job["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    job["status"] = {"startTime": "1970-01-01T00:00:00Z", "conditions": conditions}
    view.put(job)
    for number in range(pods):
        ended = pod(f"p{number:04}", made_at="1970-01-01T00:00:00Z", phase="Succeeded")
        owner = {"kind": "Job", "apiVersion": "batch/v1", "name": "web", "uid": "job", "controller": True}
        ended["metadata"].update(
            namespace="default", labels={"app": "web"}, ownerReferences=[owner], resourceVersion="2", **metadata
        )
        view.put(ended)
    return view, job


@pytest.mark.parametrize("conditions", [[], [{"type": "Complete", "status": "True"}]], ids=["running", "ended"])
def test_a_job_keeps_a_number_of_pods_that_have_ended(conditions: list[JsonObject]) -> None:
    view, job = job_with(1_003, conditions)
    plan = reconcile(view, key_of(job), 100.0)
    deleted = [write.deletes.key.name for write in plan.writes if write.deletes is not None]
    assert deleted == ["p0000", "p0001", "p0002"]


def test_one_look_at_a_job_makes_few_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_controller, "_KEPT_ENDED", 1)
    view, job = job_with(MOST_WRITES + 9, [{"type": "Complete", "status": "True"}])
    assert len(reconcile(view, key_of(job), 100.0).writes) == MOST_WRITES


def test_the_status_of_a_job_has_few_pods_that_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_controller, "_MOST_UNCOUNTED", 3)
    view, job = job_with(5, [], finalizers=[TRACKING])
    written = present(reconcile(view, key_of(job), 100.0).status).call.body
    assert len(written["status"]["uncountedTerminatedPods"]["succeeded"]) == 3


def pod(uid: str, *, made_at: str = "1970-01-01T00:00:00Z", phase: str = "Pending") -> JsonObject:
    owner = {"kind": "ReplicaSet", "uid": "set", "controller": True}
    metadata = {"uid": uid, "name": uid, "creationTimestamp": made_at, "ownerReferences": [owner]}
    return {"kind": "Pod", "metadata": metadata, "status": {"phase": phase}}


def lose(lost: LostObjects, now: float, uid: str = "a") -> float:
    lost.changed(pod(uid), pod(uid), now, is_gone=True)
    return lost.until(pod("next"), now)


def test_pauses_double_and_start_over() -> None:
    lost = LostObjects()
    assert [lose(lost, at) for at in (10.0, 10.5, 11.0, 13.0, 17.0)] == [11.0, 11.0, 13.0, 17.0, 25.0]
    made = "1970-01-01T00:02:00Z"
    late = pod("b", made_at=made)
    lost.changed(late, late, 146.0, is_gone=True)
    assert lost.until(pod("next"), 146.0) == 147.0


def test_of_many_pauses_the_one_that_was_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_objects, "_MOST", 2)
    lost = LostObjects()
    owned = {name: pod(name) for name in ("one", "two", "three")}
    for name, each in owned.items():
        each["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "uid": name, "controller": True}]
    for name in ("one", "two", "one", "three"):
        lost.changed(owned[name], owned[name], 10.0, is_gone=True)
    assert [bool(lost.until(each, 10.0)) for each in owned.values()] == [True, False, True]


def test_a_pod_that_has_lived_is_no_reason_for_a_pause() -> None:
    assert lose(LostObjects(), 60.0) == 0.0


def test_a_ready_pod_that_somebody_deletes_is_no_reason_for_a_pause() -> None:
    """KubeEdge's suite deletes a StatefulSet's pod every 5 s, and wants to find one each time. A pod that has no grace
    period, or fails, is lost.
    """
    lost, ready = LostObjects(), pod("a", phase="Running")
    ready["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    at = {"deletionTimestamp": "1970-01-01T00:00:39Z", "deletionGracePeriodSeconds": 30}
    deleted = {**ready, "metadata": {**ready["metadata"], **at}}
    lost.changed(ready, deleted, 9.0, is_gone=False)
    lost.changed(deleted, {**deleted, "status": {"phase": "Succeeded"}}, 10.0, is_gone=True)
    assert lost.until(pod("next"), 10.0) == 0.0
    lost.changed(ready, {**ready, "status": {"phase": "Failed"}}, 9.0, is_gone=False)
    assert lost.until(pod("next"), 9.0) == 10.0
    lost.changed(ready, ready, 10.0, is_gone=True)
    assert lost.until(pod("next"), 10.0) == 12.0


def test_a_clock_that_is_set_back_does_not_stop_a_workload() -> None:
    lost = LostObjects()
    assert lose(lost, 50.0) == 51.0
    assert lost.until(pod("next"), 10.0) == 0.0
    assert lose(lost, 10.0, "b") == 11.0


def test_a_deletion_that_was_refused_is_somebody_elses() -> None:
    lost = LostObjects()
    lost.mean("a")
    assert lose(lost, 1.0) == 0.0
    lost.mean("a")
    lost.refused("a")
    assert lose(lost, 1.0) == 2.0


def test_a_second_loss_is_told_once_for_each_pause_in_words_that_do_not_change() -> None:
    lost = LostObjects()
    told = []
    for at, uid in ((10.0, "a"), (10.5, "b"), (11.0, "c"), (11.5, "d"), (13.0, "e")):
        lose(lost, at, uid)
        told += [note and note.message for note in (lost.event_note(pod("next")) for _ in range(2))]
    words = "Pod was deleted soon after it was made; the next waits, each time longer, up to 5 minutes"
    assert told == [None, None, None, None, words, None, None, None, words, None]


@pytest.mark.parametrize(
    ("after", "is_gone", "what"),
    [
        ({"status": {"phase": "Failed", "reason": "x" * 100}}, False, f"ended ({'x' * 64})"),
        ({"status": {"phase": "Succeeded"}}, False, "ended (Succeeded)"),
        ({"metadata": {"ownerReferences": []}}, False, "lost its owner"),
        ({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}}, False, "was deleted"),
        ({}, True, "was deleted"),
    ],
)
def test_the_event_says_what_has_happened(after: JsonObject, is_gone: bool, what: str) -> None:
    lost, before = LostObjects(), pod("a")
    changed = {**before, **after, "metadata": {**before["metadata"], **after.get("metadata", {})}}
    for at in (10.0, 11.0):
        lost.changed(before, changed, at, is_gone=is_gone)
    note = lost.event_note(pod("next"))
    assert note is not None
    assert note.message.startswith(f"Pod {what} soon")


def config_map(owner: str = "EdgeApplication") -> JsonObject:
    reference = {"kind": owner, "uid": "owner", "controller": True}
    metadata = {"uid": "a", "name": "a", "creationTimestamp": "1970-01-01T00:00:00Z", "ownerReferences": [reference]}
    return {"kind": "ConfigMap", "metadata": metadata, "status": {"phase": "Failed"}}


def test_any_object_with_a_controller_can_be_lost() -> None:
    lost, made = LostObjects(), config_map()
    lost.changed(None, made, 9.0, is_gone=False)
    assert lost.until(made, 9.0) == 0.0
    lost.changed(made, made, 10.0, is_gone=True)
    assert lost.until(made, 10.0) == 11.0


def test_the_jobs_of_a_cron_job_are_made_at_their_times() -> None:
    lost, made = LostObjects(), config_map("CronJob")
    lost.changed(made, made, 10.0, is_gone=True)
    assert lost.until(made, 10.0) == 0.0


@pytest.mark.parametrize("kind", ["ReplicaSet", "ControllerRevision", "Deployment", "ConfigMap", "EndpointSlice"])
def test_whatever_is_removed_at_once_is_made_later_each_time_and_the_owner_says_why(kind: str) -> None:
    """Somebody, or another controller, removes it each time."""
    site = site_of(*definitions())
    match kind:
        case "ReplicaSet":
            owner = workload("Deployment", replicas=0)
        case "ControllerRevision":
            owner = workload("DaemonSet")
        case "EndpointSlice":
            owner = SERVICE
        case _:
            owner = application(target("east"), manifests=[workload("Deployment", replicas=0), SETTINGS])
    site.apply(owner)
    removed = 0
    for _ in range(1200):
        for each in site.all(kind):
            if controller_of(each) is not None:
                removed += 1
                site.call("delete", each)
        site.run_for(0.5)
    assert 5 < removed < 15
    words = f"{kind} was deleted soon after it was made; the next waits, each time longer, up to 5 minutes"
    (event,) = (each for each in site.all("Event") if each["reason"] == "BackOff")
    assert (event["message"], event["involvedObject"]["kind"]) == (words, owner["kind"])
    assert event["count"] < removed
    site.run_for(600)
    assert [each for each in site.all(kind) if controller_of(each) is not None]


def test_what_its_controller_removes_is_made_again_at_once() -> None:
    site = site_of(*definitions())
    both = application(target("east"), manifests=[workload("Deployment", replicas=0), SETTINGS])
    one = application(target("east"), manifests=[workload("Deployment", replicas=0)])
    for _ in range(5):
        for wanted in (both, one):
            site.apply(wanted, seconds=2)
    site.apply(both)
    site.settle()
    site.run_for(1)
    assert site.get("ConfigMap", "settings")
    assert "BackOff" not in dict(site.events())
