"""Jobs, in virtual time."""

from itertools import pairwise
from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.apimachinery.pods.objects import is_active, node_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.controllers.job_pods import TRACKING
from modules.cloud.controllers.job_policies import FAILURES
from modules.cloud.controllers.job_status import indexes_text, read_indexes
from tests.modules.cloud.controllers.site import Site, site_of, workload


def job(**spec: Any) -> JsonObject:
    return workload("Job", "sum", **spec)


def status(site: Site) -> JsonObject:
    found: JsonObject = site.get("Job", "sum")["status"]
    return found


def conditions(site: Site) -> list[tuple[str, str, str]]:
    return [(one["type"], one["status"], one["reason"]) for one in status(site).get("conditions", ())]


def running(site: Site) -> list[JsonObject]:
    return [pod for pod in site.pods("sum") if is_active(pod)]


def end(site: Site, pod: JsonObject, phase: str = "Succeeded", seconds: float = 0) -> None:
    site.report(pod, phase, containerStatuses=[{"name": "main"}], seconds=1 + seconds)


@pytest.mark.parametrize("seed", range(4))
def test_completions_are_exact_and_parallelism_is_kept(seed: int) -> None:
    site = Site(seed)

    def check(site: Site) -> None:
        assert len(running(site)) <= 2

    site.checks.append(check)
    site.apply(job(completions=5, parallelism=2))
    for _ in range(5):
        site.run_for(1)
        end(site, running(site)[0])
    site.run_for(5)
    assert running(site) == []
    assert status(site)["succeeded"] == 5
    assert conditions(site)[-2:] == [
        ("SuccessCriteriaMet", "True", "CompletionsReached"), ("Complete", "True", "CompletionsReached"),
    ]  # fmt: skip
    assert "completionTime" in status(site)
    assert all(TRACKING not in pod["metadata"].get("finalizers", ()) for pod in site.all("Pod"))
    assert ("Completed", "Job completed") in site.events()
    assert site.is_settled()


@pytest.mark.parametrize("seed", range(6))
def test_killed_at_any_write_each_pod_is_counted_once(seed: int) -> None:
    site = Site(seed)
    site.lose_answers(12, made=bool(seed % 2))
    site.apply(job(completions=6, parallelism=3))
    ended = 0
    for _ in range(60):
        site.run_for(2)
        for pod in running(site)[:1]:
            ended += 1
            end(site, pod)
    assert ended == 6
    assert status(site)["succeeded"] == 6
    assert conditions(site)[-1][:2] == ("Complete", "True")


def test_failures_are_retried_ever_more_slowly_up_to_the_limit() -> None:
    site = site_of(job(backoffLimit=2))
    times = []
    for _ in range(3):
        while not running(site):
            site.run_for(1)
        times.append(site.clock.now())
        end(site, running(site)[0], "Failed")
    site.run_for(60)
    pauses = [late - early for early, late in pairwise(times)]
    assert 9 <= pauses[0] <= 14
    assert 19 <= pauses[1] <= 24
    assert status(site)["failed"] == 3
    assert [one[0] for one in conditions(site)] == ["FailureTarget", "Failed"]
    assert ("BackoffLimitExceeded", "Job has reached the specified backoff limit") in site.events()


def test_a_pod_that_is_deleted_by_hand_counts_as_failed_and_is_replaced() -> None:
    site = site_of(job(), seconds=2)
    site.call("delete", running(site)[0], seconds=30)
    assert status(site)["failed"] == 1
    assert len(running(site)) == 1


def test_without_completions_the_first_success_ends_the_making() -> None:
    site = site_of(job(parallelism=3), seconds=2)
    first, *others = running(site)
    assert len(others) == 2
    end(site, first)
    assert len(running(site)) == 2
    for pod in others:
        end(site, pod)
    site.run_for(5)
    assert conditions(site)[-1][:2] == ("Complete", "True")


def test_the_deadline_ends_no_job_that_is_suspended() -> None:
    site = site_of(job(activeDeadlineSeconds=100), seconds=10)
    site.patch(site.get("Job", "sum"), {"spec": {"suspend": True}}, seconds=1000)
    assert conditions(site) == [("Suspended", "True", "JobSuspended")]


def test_the_deadline_ends_a_job_and_stands_while_it_is_suspended() -> None:
    site = site_of(job(activeDeadlineSeconds=100, suspend=True), seconds=1000)
    assert running(site) == []
    assert conditions(site) == [("Suspended", "True", "JobSuspended")]
    site.patch(site.get("Job", "sum"), {"spec": {"suspend": False}}, seconds=90)
    assert len(running(site)) == 1
    site.run_for(20)
    assert running(site) == []
    assert conditions(site)[-1] == ("Failed", "True", "DeadlineExceeded")


def test_pods_that_are_not_wanted_now_are_no_failures() -> None:
    """Of a Job that is suspended, or whose parallelism shrinks, as with kube-controller-manager."""
    site = site_of(job(parallelism=3, completions=9, backoffLimit=0), seconds=5)
    began = site.get("Job", "sum")["status"]["startTime"]
    for change in ({"parallelism": 1}, {"suspend": True}):
        site.patch(site.get("Job", "sum"), {"spec": change}, seconds=60)
    assert running(site) == []
    status = site.get("Job", "sum")["status"]
    assert (status.get("failed", 0), status["startTime"]) == (0, began)
    site.patch(site.get("Job", "sum"), {"spec": {"suspend": False}}, seconds=5)
    assert len(running(site)) == 1
    assert site.get("Job", "sum")["status"]["startTime"] > began


def test_indexes_are_each_completed_once() -> None:
    site = site_of(job(completions=4, parallelism=4, completionMode="Indexed"), seconds=2)
    by_index = {pod["spec"]["hostname"]: pod for pod in running(site)}
    assert sorted(by_index) == ["sum-0", "sum-1", "sum-2", "sum-3"]
    assert by_index["sum-2"]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    end(site, by_index["sum-2"], "Failed")
    for name in ("sum-0", "sum-1", "sum-3"):
        end(site, by_index[name])
    assert status(site)["completedIndexes"] == "0,1,3"
    site.run_for(30)
    assert [pod["spec"]["hostname"] for pod in running(site)] == ["sum-2"]
    end(site, running(site)[0], seconds=5)
    assert (status(site)["completedIndexes"], status(site)["succeeded"]) == ("0-3", 4)
    assert conditions(site)[-1][:2] == ("Complete", "True")


def test_a_job_is_deleted_when_its_time_is_over() -> None:
    site = site_of(job(ttlSecondsAfterFinished=60), seconds=2)
    end(site, running(site)[0], seconds=50)
    assert len(site.all("Job")) == 1
    site.run_for(20)
    (deleted,) = site.all("Job")
    assert deleted["metadata"]["deletionTimestamp"]
    assert deleted["metadata"]["finalizers"] == ["foregroundDeletion"], "its pods go first"


def test_a_node_that_is_away_keeps_its_pod_and_no_second_one_is_made() -> None:
    site = site_of(job(), seconds=2, nodes=("n1",))
    site.offline.add("n1")
    site.run_for(100_000)
    assert len(site.pods("sum")) == 1


@pytest.mark.parametrize("way", ["label", "label of a pod that ends", "orphan", "orphan at once"])
def test_a_pod_that_leaves_its_job_loses_the_finalizer(way: str) -> None:
    """Nobody else would remove it, and the pod could never be deleted."""
    site = site_of(job(), seconds=2)
    (pod,) = site.pods()
    if way.startswith("label"):
        if way != "label":
            site.offline.add(node_of(pod))
            site.call("delete", pod)
        labels = dict.fromkeys(("batch.kubernetes.io/controller-uid", "controller-uid"))
        site.patch(pod, {"metadata": {"labels": labels}})
    else:
        site.call("delete", site.get("Job", "sum"), options={"propagationPolicy": "Orphan"})
        if way == "orphan at once":  # cloudcore sees all of it after a restart only
            site.engine.stop()
        site.patch(pod, {"metadata": {"ownerReferences": None}})  # as the garbage collector does
        site.patch(site.get("Job", "sum"), {"metadata": {"finalizers": None}})
        if way == "orphan at once":
            site.restart()
    site.run_for(2)
    found = site.get("Pod", pod["metadata"]["name"])["metadata"]
    assert (found.get("ownerReferences"), found.get("finalizers")) == (None, None)


def test_a_released_pod_keeps_what_others_have_given_it(site: Site) -> None:
    labels = {"batch": "sums"}
    wanted = job(manualSelector=True, selector={"matchLabels": labels}, completions=1)
    wanted["spec"]["template"]["metadata"]["labels"] = labels
    site.apply(wanted)
    (pod,) = running(site)
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "notes", "uid": "u"}
    site.patch(pod, {"metadata": {
        "labels": {"batch": "others"}, "finalizers": ["shop.example/bill", TRACKING],
        "ownerReferences": [*pod["metadata"]["ownerReferences"], other],
    }})  # fmt: skip
    site.run_for(2)
    released = site.get("Pod", pod["metadata"]["name"])["metadata"]
    assert (released["finalizers"], released["ownerReferences"]) == (["shop.example/bill"], [other])


def test_a_pod_that_a_job_adopts_is_counted(site: Site) -> None:
    labels = {"batch": "sums"}
    wanted = job(manualSelector=True, selector={"matchLabels": labels}, completions=1)
    wanted["spec"]["template"]["metadata"]["labels"] = labels
    loose = {"metadata": {"name": "loose", "labels": labels}, "spec": wanted["spec"]["template"]["spec"]}
    site.apply({"apiVersion": "v1", "kind": "Pod", **loose}, seconds=2)
    site.apply(wanted, seconds=2)
    (pod,) = running(site)
    assert pod["metadata"]["name"] == "loose"
    assert pod["metadata"]["finalizers"] == [TRACKING]
    end(site, pod, seconds=5)
    assert (status(site)["succeeded"], conditions(site)[-1][0]) == (1, "Complete")
    assert site.get("Pod", "loose")["metadata"].get("finalizers") is None


def test_texts_of_indexes() -> None:
    assert indexes_text({0, 1, 2, 5, 7, 8}) == "0-2,5,7,8"
    assert read_indexes("0-2,5,7,8", job(completions=9)) == {0, 1, 2, 5, 7, 8}
    assert read_indexes("", job(completions=9)) == set()


def test_indexes_that_do_not_ascend_or_are_too_high_are_left_out() -> None:
    assert read_indexes("5,0-2,5-5,8-6,9,x,1-2-3", job(completions=10)) == {5, 9}
    assert read_indexes(f"3,{'9' * 5000},4-100000", job(completions=6)) == {3, 4, 5}


@pytest.mark.parametrize(("ended", "left"), [((3, 4), {0, 1, 2}), ((0, 1), {2}), ((0, 4), {1, 2})])
def test_a_job_whose_completions_are_reduced_completes_the_indexes_that_are_left(
    ended: tuple[int, ...], left: set[int]
) -> None:
    site = site_of(job(completions=5, parallelism=5, completionMode="Indexed"), seconds=2)
    pods = by_index(site)
    for index in ended:
        end(site, pods[index])
    site.patch(site.get("Job", "sum"), {"spec": {"completions": 3, "parallelism": 3}}, seconds=5)
    assert set(by_index(site)) == left
    for pod in running(site):
        assert conditions(site) == []
        end(site, pod)
    site.run_for(5)
    assert (status(site)["completedIndexes"], status(site)["succeeded"]) == ("0-2", 3)
    assert conditions(site)[-1][:2] == ("Complete", "True")


def fail(site: Site, pod: JsonObject, code: int = 1, seconds: float = 0, **given: Any) -> None:
    """Let a pod fail with an exit code, or with a condition, and time pass."""
    state = {"terminated": {"exitCode": code, "finishedAt": format_rfc3339(site.clock.now())}}
    site.report(pod, "Failed", seconds=1 + seconds, containerStatuses=[{"name": "main", "state": state}], **given)


def policy(**rules: JsonObject) -> JsonObject:
    return {"rules": [{"action": action, **rule} for action, rule in rules.items()]}


def exits(*values: int, operator: str = "In") -> JsonObject:
    return {"onExitCodes": {"operator": operator, "values": list(values)}}


def by_index(site: Site) -> dict[int, JsonObject]:
    return {int(pod["spec"]["hostname"].removeprefix("sum-")): pod for pod in running(site)}


def test_an_exit_code_fails_the_whole_job() -> None:
    site = site_of(job(completions=3, parallelism=2, podFailurePolicy=policy(FailJob=exits(42))), seconds=2)
    first, _ = running(site)
    fail(site, first, 42, seconds=30)
    name = first["metadata"]["name"]
    target = status(site)["conditions"][0]
    assert target["message"] == (
        f"Container main for pod default/{name} failed with exit code 42 matching FailJob rule at index 0"
    )
    assert conditions(site) == [
        ("FailureTarget", "True", "PodFailurePolicy"), ("Failed", "True", "PodFailurePolicy"),
    ]  # fmt: skip
    assert running(site) == []


def test_a_pod_of_a_deleted_node_is_replaced_where_only_failed_ones_are_and_its_end_is_a_disruption() -> None:
    ignored = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    site = Site(nodes=("n1", "n2"))
    site.apply(job(backoffLimit=0, podFailurePolicy=policy(Ignore=ignored), podReplacementPolicy="Failed"), seconds=2)
    (lost,) = running(site)
    site.offline.add(node_of(lost))
    site.call("delete", ObjectKey("Node", "", node_of(lost)), seconds=100)
    (successor,) = site.all("Pod")
    assert node_of(successor) not in ("", node_of(lost))
    assert status(site).get("failed", 0) == 0


@pytest.mark.parametrize("deadline", [None, 30])
def test_a_deleted_pod_without_a_node_has_failed_as_nobody_reports_its_end(deadline: int | None) -> None:
    site = site_of(job(podReplacementPolicy="Failed", activeDeadlineSeconds=deadline), seconds=2, nodes=())
    (waiting,) = running(site)
    if deadline is None:
        site.call("delete", waiting)
    site.run_for(100)
    assert waiting["metadata"]["name"] not in {pod["metadata"]["name"] for pod in site.all("Pod")}
    assert len(running(site)) == (deadline is None)
    assert conditions(site)[-1:] == ([("Failed", "True", "DeadlineExceeded")] if deadline else [])


def test_a_disruption_is_not_counted() -> None:
    ignored = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    site = site_of(job(backoffLimit=0, podFailurePolicy=policy(Ignore=ignored)), seconds=2)
    evicted = running(site)[0]
    fail(site, evicted, conditions=[{"type": "DisruptionTarget", "status": "True"}], seconds=60)
    assert status(site).get("failed", 0) == 0
    assert TRACKING not in site.get("Pod", evicted["metadata"]["name"])["metadata"].get("finalizers", ())
    fail(site, running(site)[0], seconds=60)
    assert conditions(site)[-1] == ("Failed", "True", "BackoffLimitExceeded")


def test_each_index_has_its_own_limit_of_failures(site: Site) -> None:
    indexed = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
    site.apply(job(**indexed, backoffLimitPerIndex=1), seconds=2)
    pods = by_index(site)
    assert [pod["metadata"]["annotations"][FAILURES] for pod in pods.values()] == ["0", "0", "0"]
    fail(site, pods[1])
    assert sorted(by_index(site)) == [0, 2]
    site.run_for(7)
    assert sorted(by_index(site)) == [0, 2], "ten seconds after its failure"
    site.run_for(4)
    again = by_index(site)[1]
    assert again["metadata"]["annotations"][FAILURES] == "1"
    fail(site, again, seconds=60)
    assert (status(site)["failedIndexes"], status(site)["failed"]) == ("1", 2)
    assert sorted(by_index(site)) == [0, 2], "it is not tried again"
    for pod in by_index(site).values():
        end(site, pod)
    site.run_for(5)
    assert conditions(site)[-1] == ("Failed", "True", "FailedIndexes")
    assert (status(site)["completedIndexes"], status(site)["succeeded"]) == ("0,2", 2)
    assert all(TRACKING not in pod["metadata"].get("finalizers", ()) for pod in site.all("Pod"))


def test_too_many_failed_indexes_end_a_job(site: Site) -> None:
    site.apply(job(completions=5, parallelism=5, completionMode="Indexed", backoffLimitPerIndex=0, maxFailedIndexes=1))
    site.run_for(2)
    pods = by_index(site)
    fail(site, pods[0], seconds=5)
    assert len(running(site)) == 4
    fail(site, pods[3], seconds=30)
    assert status(site)["failedIndexes"] == "0,3"
    assert conditions(site)[-1] == ("Failed", "True", "MaxFailedIndexesExceeded")
    assert running(site) == []


def test_an_exit_code_fails_an_index_immediately(site: Site) -> None:
    rules = policy(FailIndex=exits(0, 1, operator="NotIn"))
    site.apply(job(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=3,
                   podFailurePolicy=rules))  # fmt: skip
    site.run_for(2)
    pods = by_index(site)
    fail(site, pods[0], 7)
    fail(site, pods[1], 1, seconds=30)
    assert status(site)["failedIndexes"] == "0"
    assert list(by_index(site)) == [1]


@pytest.mark.parametrize(
    ("rule", "enough"),
    [({"succeededIndexes": "1"}, (1,)), ({"succeededCount": 2}, (0, 3)),
     ({"succeededIndexes": "1-3", "succeededCount": 2}, (0, 1, 3)), ({"succeededIndexes": "0,2"}, (0, 2))],
)  # fmt: skip
def test_a_job_succeeds_by_its_policy(site: Site, rule: JsonObject, enough: tuple[int, ...]) -> None:
    site.apply(job(completions=4, parallelism=4, completionMode="Indexed", successPolicy={"rules": [rule]}), seconds=2)
    pods = by_index(site)
    for index in enough:
        assert len(by_index(site)) > 1
        assert not conditions(site)
        end(site, pods[index])
    site.run_for(5)
    assert conditions(site) == [("SuccessCriteriaMet", "True", "SuccessPolicy"), ("Complete", "True", "SuccessPolicy")]
    assert running(site) == [], "the others are not awaited"
    assert (status(site).get("failed"), status(site)["terminating"]) == (None, 0), "nor do they count as failures"


def test_a_job_that_another_controller_manages_is_left_to_it() -> None:
    site = site_of(job(managedBy="example.com/queue"), seconds=60)
    assert site.pods() == []
    assert not site.get("Job", "sum").get("status")


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_write_an_index_fails_as_often_as_allowed(seed: int) -> None:
    site = Site(seed)
    site.lose_answers(12, made=bool(seed % 2))
    site.apply(job(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=2))
    failed = 0
    for _ in range(60):
        site.run_for(15)
        for pod in running(site)[:1]:
            failed += 1
            fail(site, pod)
    assert failed == status(site)["failed"] == 6
    assert status(site)["failedIndexes"] == "0,1"
    assert conditions(site)[-1] == ("Failed", "True", "FailedIndexes")
