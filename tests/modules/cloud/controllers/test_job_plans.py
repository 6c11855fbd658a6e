"""What a Job needs, from the Job and its pods alone."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pytest

from modules.apimachinery.kinds import JsonObject, key_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.controllers.job import reconcile
from modules.cloud.controllers.job_pods import TRACKING, free_indexes, pause_ends, pod_for
from modules.cloud.controllers.view import View
from tests.modules.cloud.controllers.site import workload

NOW: Final = 1e9
BEGUN: Final = {"startTime": format_rfc3339(NOW - 60)}
ENOUGH: Final = {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached", "message": "m"}


class APod(NamedTuple):
    phase: str = "Running"
    number: int | None = None
    is_ending: bool = False


def planned(job_status: JsonObject, pod: APod, **spec: Any) -> tuple[list[str], JsonObject]:
    """The verbs of the writes, and the status, for a Job with one tracked pod."""
    job = workload("Job", "sum", **spec)
    job["metadata"] |= {"namespace": "default", "uid": "of-sum", "resourceVersion": "1"}
    job["spec"]["selector"] = {"matchLabels": job["spec"]["template"]["metadata"]["labels"]}
    job["status"] = {**BEGUN, **job_status}
    made = pod_for(job, pod.number)
    ending = {"deletionTimestamp": format_rfc3339(NOW)} if pod.is_ending else {}
    created = format_rfc3339(NOW - 60)
    made["metadata"] |= {"name": "p", "uid": "p", "resourceVersion": "1", "creationTimestamp": created, **ending}
    assert TRACKING in made["metadata"]["finalizers"]
    made["status"] = {"phase": pod.phase}
    view = View()
    for obj in (job, made):
        view.put(obj)
    plan = reconcile(view, key_of(job), NOW)
    status = plan.status.call.body["status"] if plan.status is not None else job["status"]
    return [write.call.verb for write in plan.writes], status


def test_a_job_has_not_ended_while_a_pod_still_ends() -> None:
    writes, status = planned(
        {"succeeded": 1, "conditions": [ENOUGH]}, APod(is_ending=True), completions=1, podReplacementPolicy="Failed"
    )
    assert (writes, [one["type"] for one in status["conditions"]]) == ([], ["SuccessCriteriaMet"])


@pytest.mark.parametrize("policy", ["Failed", "TerminatingOrFailed"])
def test_a_pod_that_ends_is_replaced_by_the_policy(policy: str) -> None:
    """At once, as far as the pause after a failure lets it: a deletion counts as one."""
    writes, status = planned({}, APod(is_ending=True), podReplacementPolicy=policy)
    assert writes == []
    assert ("uncountedTerminatedPods" in status and bool(status["uncountedTerminatedPods"])) is (policy != "Failed")


def test_a_job_that_has_ended_lets_its_pods_go_before_it_is_deleted() -> None:
    ended = {"type": "Complete", "status": "True", "lastTransitionTime": format_rfc3339(NOW - 10)}
    assert planned({"conditions": [ended]}, APod("Succeeded"), ttlSecondsAfterFinished=1)[0] == ["patch"]


def test_a_pod_that_is_not_wanted_loses_its_finalizer_before_it_is_deleted() -> None:
    """Or it would count as a failure."""
    assert planned({}, APod(), suspend=True)[0] == ["patch", "delete"]


@pytest.mark.parametrize(("index", "completed"), [(1, "1"), (2, ""), (7, "")])
def test_an_index_beyond_the_completions_does_not_count(index: int, completed: str) -> None:
    _, status = planned({}, APod("Succeeded", index), completionMode="Indexed", completions=2, parallelism=2)
    assert status.get("completedIndexes", "") == completed


def test_a_pod_is_counted_when_its_finalizer_is_gone() -> None:
    """A cloudcore that is killed between the two would count it again, or never."""
    listed = {"uncountedTerminatedPods": {"succeeded": ["p"]}}
    writes, status = planned(listed, APod("Succeeded"), completions=5, parallelism=1)
    assert writes[0] == "patch"
    assert (status.get("succeeded", 0), status["uncountedTerminatedPods"]) == (0, {"succeeded": ["p"]})


def ended(phase: str, ago: float) -> JsonObject:
    state = {"terminated": {"exitCode": 1, "finishedAt": format_rfc3339(NOW - ago)}}
    return {"metadata": {}, "status": {"phase": phase, "containerStatuses": [{"state": state}]}}


@pytest.mark.parametrize(
    ("failures", "successes", "expected"),
    [
        ([], [], None),
        ([], [50], None),
        ([50], [], -40),
        ([50, 70], [], -30),
        ([70, 90, 50], [], -10),
        ([50, 70], [60], -40),
        ([50, 70, 90], [80, 100], -30),
        ([90, 70], [50], None),
        ([50], [50], None),
        (range(10, 200, 10), [], 590),
    ],
)
def test_the_pause_doubles_with_each_failure_since_the_last_success(
    failures: list[float], successes: list[float], expected: float | None
) -> None:
    """All are seconds ago; the pause ends so many seconds from now (newBackoffRecord)."""
    pods = [ended("Failed", ago) for ago in failures] + [ended("Succeeded", ago) for ago in successes]
    until = pause_ends(pods, workload("Job"))
    assert (until - NOW if until else None) == expected


@pytest.mark.parametrize(
    ("pod", "ago"),
    [
        ({"phase": "Failed", "reason": "OutOfcpu"}, 100),
        ({"phase": "Failed", "conditions": [("False", 40)]}, 40),
        ({"phase": "Failed", "conditions": [("False", 40)], "containers": [30, 35]}, 30),
        ({"phase": "Failed", "conditions": [("False", 40)], "containers": [30, None]}, 40),
        ({"phase": "Running", "conditions": [("True", 90)], "containers": [None], "deleted": 20}, 20),
        ({"phase": "Running", "conditions": [("False", 40)], "containers": [None], "deleted": 20}, 40),
    ],
)
def test_when_a_pod_has_failed(pod: JsonObject, ago: float) -> None:
    """By its containers, if all have ended; or else since it is not ready, its deletion (without the grace period), or
    its creation, if its node has refused it (getFinishedTime). The pod was made 100 s ago; a pause is 10 s.
    """

    def at(seconds: float) -> str:
        return format_rfc3339(NOW - seconds)

    deletion = (
        {"deletionTimestamp": at(pod["deleted"] - 30), "deletionGracePeriodSeconds": 30} if "deleted" in pod else {}
    )
    states: list[JsonObject] = [
        {"terminated": {"finishedAt": at(end)}} if end else {"running": {}} for end in pod.get("containers", ())
    ]
    conditions = [
        {"type": "Ready", "status": status, "lastTransitionTime": at(since)}
        for status, since in pod.get("conditions", ())
    ]
    given = {
        "metadata": {"creationTimestamp": at(100), **deletion},
        "status": {
            "phase": pod["phase"], "conditions": conditions, "containerStatuses": [{"state": each} for each in states]
        },
    }  # fmt: skip
    assert pause_ends([given], workload("Job")) == NOW - ago + 10


def test_the_lowest_indexes_are_made_first() -> None:
    assert free_indexes(workload("Job", completions=6), {1, 3}, 3) == [0, 2, 4]
