"""What a Job needs, from the Job and its pods alone."""

from typing import Any, Final, NamedTuple

import pytest

from modules.apimachinery.kinds import JsonObject, key_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.controllers.job import reconcile
from modules.cloud.controllers.job_pods import INDEX, TRACKING, free_indexes, pause_ends, pod_for
from modules.cloud.controllers.job_policies import success_of, verdict_of
from modules.cloud.controllers.plan import ReconcilePlan
from modules.cloud.controllers.view import View
from tests.modules.cloud.controllers.site import workload, written_status

NOW: Final = 1e9
BEGUN: Final = {"startTime": format_rfc3339(NOW - 60)}
ENOUGH: Final = {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached", "message": "m"}


class APod(NamedTuple):
    phase: str = "Running"
    number: int | None = None
    is_ending: bool = False
    restarts: int = 0
    is_tracked: bool = True


def plan_for(
    job_status: JsonObject,
    *pods: APod,
    template: JsonObject | None = None,
    metadata: JsonObject | None = None,
    **spec: Any,
) -> ReconcilePlan:
    """The plan for a Job with pods: `p`, `p1`, and so on."""
    job = workload("Job", "sum", **spec)
    job["metadata"] |= {"namespace": "default", "uid": "of-sum", "resourceVersion": "1", **(metadata or {})}
    job["spec"]["selector"] = {"matchLabels": job["spec"]["template"]["metadata"]["labels"]}
    job["spec"]["template"]["spec"] |= template or {}
    job["status"] = {**BEGUN, **job_status}
    view = View()
    view.put(job)
    for number, pod in enumerate(pods):
        made, name = pod_for(job, pod.number), f"p{number or ''}"
        ending = {"deletionTimestamp": format_rfc3339(NOW)} if pod.is_ending else {}
        created = format_rfc3339(NOW - 60)
        made["metadata"] |= {"name": name, "uid": name, "resourceVersion": "1", "creationTimestamp": created, **ending}
        assert TRACKING in made["metadata"]["finalizers"]
        if not pod.is_tracked:
            del made["metadata"]["finalizers"]
        made["spec"] = {**made["spec"], "nodeName": "n1"}
        made["status"] = {"phase": pod.phase, "containerStatuses": [{"name": "main", "restartCount": pod.restarts}]}
        view.put(made)
    return reconcile(view, key_of(job), NOW)


def planned(job_status: JsonObject, *pods: APod, **given: Any) -> tuple[list[str], JsonObject]:
    """The verbs of the writes, and the status."""
    plan = plan_for(job_status, *pods, **given)
    status = written_status(plan) if plan.status is not None else {**BEGUN, **job_status}
    return [write.call.verb for write in plan.writes], status


def deleted(plan: ReconcilePlan) -> list[str]:
    return [write.call.name for write in plan.writes if write.call.verb == "delete"]


def made_indexes(plan: ReconcilePlan) -> list[str]:
    return [write.call.body["metadata"]["labels"][INDEX] for write in plan.writes if write.call.verb == "create"]


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


@pytest.mark.parametrize(("index", "counts"), [(1, True), (2, False), (None, False)])
def test_a_failure_of_an_index_beyond_the_completions_does_not_count(index: int | None, *, counts: bool) -> None:
    plan = plan_for({}, APod("Failed", index), completionMode="Indexed", completions=2, parallelism=2, backoffLimit=0)
    assert written_status(plan)["uncountedTerminatedPods"] == ({"failed": ["p"]} if counts else {})
    assert [write.call.verb for write in plan.writes if write.call.name == "p"] == ([] if counts else ["patch"])
    assert ("conditions" in written_status(plan)) is counts


def test_a_pod_is_counted_when_its_finalizer_is_gone() -> None:
    """A cloudcore that is killed between the two would count it again, or never."""
    listed = {"uncountedTerminatedPods": {"succeeded": ["p"]}}
    writes, status = planned(listed, APod("Succeeded"), completions=5, parallelism=1)
    assert writes[0] == "patch"
    assert (status.get("succeeded", 0), status["uncountedTerminatedPods"]) == (0, {"succeeded": ["p"]})


@pytest.mark.parametrize(
    ("pods", "counted", "expected"),
    [
        ([APod("Succeeded")], {}, (0, 0, {"succeeded": ["p"]}, [])),
        ([APod("Failed")], {}, (0, 0, {"failed": ["p"]}, [])),
        ([APod(is_ending=True)], {}, (0, 0, {"failed": ["p"]}, [])),
        ([APod("Succeeded"), APod("Failed")], {}, (0, 0, {"succeeded": ["p"], "failed": ["p1"]}, [])),
        ([APod("Succeeded")], {"succeeded": ["p"]}, (0, 0, {"succeeded": ["p"]}, ["p"])),
        ([APod("Failed"), APod("Failed")], {"failed": ["p1"]}, (0, 0, {"failed": ["p1", "p"]}, ["p1"])),
        ([APod("Succeeded", is_tracked=False)], {"succeeded": ["p"]}, (1, 0, {}, [])),
        ([APod("Failed", is_tracked=False)], {"failed": ["p", "gone"]}, (0, 2, {}, [])),
        ([], {"succeeded": ["gone"], "failed": ["away"]}, (1, 1, {}, [])),
        ([APod("Succeeded", is_tracked=False), APod("Failed", is_tracked=False)], {}, (0, 0, {}, [])),
    ],
)
def test_a_pod_is_listed_then_let_go_then_counted(
    pods: list[APod], counted: JsonObject, expected: tuple[int, int, JsonObject, list[str]]
) -> None:
    """Each in a look of its own (trackJobStatusAndRemoveFinalizers); five had succeeded and three failed before."""
    before = {"succeeded": 5, "failed": 3, "uncountedTerminatedPods": counted}
    plan = plan_for(before, *pods, completions=20, parallelism=0, backoffLimit=20)
    status = written_status(plan) if plan.status is not None else before
    succeeded, failed, uncounted, untracked = expected
    assert (status["succeeded"], status["failed"]) == (5 + succeeded, 3 + failed)
    assert status["uncountedTerminatedPods"] == uncounted
    assert [write.call.name for write in plan.writes if write.call.verb == "patch"] == untracked


@pytest.mark.parametrize(
    ("ago", "again_at", "verbs"), [(59, NOW + 1, []), (60, None, ["delete"]), (99, None, ["delete"])]
)
def test_a_job_goes_when_its_time_after_the_end_is_over(ago: int, again_at: float | None, verbs: list[str]) -> None:
    ended = {"type": "Failed", "status": "True", "lastTransitionTime": format_rfc3339(NOW - ago)}
    plan = plan_for({"conditions": [ended]}, APod("Failed", is_tracked=False), ttlSecondsAfterFinished=60)
    assert ([write.call.verb for write in plan.writes], plan.again_at) == (verbs, again_at)


def test_a_job_that_is_being_deleted_counts_its_pods_and_makes_none() -> None:
    counted = {"uncountedTerminatedPods": {"succeeded": ["p"]}}
    pods = APod("Succeeded"), APod("Failed", is_ending=True), APod()
    plan = plan_for(counted, *pods, completions=9, parallelism=9, metadata={"deletionTimestamp": format_rfc3339(NOW)})
    assert [(write.call.verb, write.call.name) for write in plan.writes] == [("patch", "p")]
    assert written_status(plan)["uncountedTerminatedPods"] == {"succeeded": ["p"], "failed": ["p1"]}


@pytest.mark.parametrize(
    ("rule", "codes", "conditions", "matches"),
    [
        ({"onExitCodes": {"operator": "In", "values": [1, 3]}}, [1], {}, True),
        ({"onExitCodes": {"operator": "In", "values": [1, 3]}}, [0, 3], {}, True),
        ({"onExitCodes": {"operator": "In", "values": [1, 3]}}, [2], {}, False),
        ({"onExitCodes": {"operator": "NotIn", "values": [1, 3]}}, [2], {}, True),
        ({"onExitCodes": {"operator": "NotIn", "values": [1, 3]}}, [0, 1], {}, False),
        ({"onExitCodes": {"operator": "NotIn", "values": [1, 3]}}, [None], {}, False),
        ({"onExitCodes": {"operator": "In", "values": [3], "containerName": "c1"}}, [3, 0], {}, False),
        ({"onExitCodes": {"operator": "In", "values": [3], "containerName": "c1"}}, [0, 3], {}, True),
        ({"onPodConditions": [{"type": "Lost"}]}, [], {"Lost": "True"}, True),
        ({"onPodConditions": [{"type": "Lost"}]}, [], {"Lost": "False"}, False),
        ({"onPodConditions": [{"type": "Lost", "status": "False"}]}, [], {"Lost": "False"}, True),
        ({"onPodConditions": [{"type": "Lost"}, {"type": "Evicted"}]}, [], {"Evicted": "True"}, True),
    ],
)
@pytest.mark.parametrize("which", ["containerStatuses", "initContainerStatuses"])
def test_which_failures_a_rule_matches(
    rule: JsonObject, codes: list[int | None], conditions: dict[str, str], matches: bool, which: str
) -> None:
    """A container that has not ended, or without an error, is none (matchPodFailurePolicy)."""
    states: list[JsonObject] = [
        {"running": {}} if code is None else {"terminated": {"exitCode": code}} for code in codes
    ]
    status = {
        which: [{"name": f"c{number}", "state": state} for number, state in enumerate(states)],
        "conditions": [{"type": kind, "status": value} for kind, value in conditions.items()],
    }
    rules = [{"action": "FailJob", **rule}, {"action": "Ignore", "onPodConditions": [{"type": "Never"}]}]
    found = verdict_of(workload("Job", podFailurePolicy={"rules": rules}), {"metadata": {}, "status": status})
    assert found.fails_job is matches
    assert found.is_counted


def test_a_rule_of_an_unknown_action_is_left_out() -> None:
    """The next one decides: a later version may know the action."""
    codes = {"operator": "In", "values": [2]}
    rules = [{"action": action, "onExitCodes": codes} for action in ("Later", "FailJob")]
    status = {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 2}}}]}
    found = verdict_of(workload("Job", podFailurePolicy={"rules": rules}), {"metadata": {}, "status": status})
    assert (found.fails_job, found.why.rpartition(" ")[2]) == (True, "1")


@pytest.mark.parametrize("indexes", ["10-12,14-16", "", "none"])
@pytest.mark.parametrize("succeeded", [set(), {0}, {1, 2, 3}])
def test_a_rule_without_an_index_of_the_job_never_holds(indexes: str, succeeded: set[int]) -> None:
    """The Job had more completions when the rule was made."""
    one = workload("Job", completions=10, successPolicy={"rules": [{"succeededIndexes": indexes}]})
    assert not success_of(one, succeeded)


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


@pytest.mark.parametrize(
    ("pods", "parallelism", "gone"),
    [
        ([APod(number=0), APod(number=1)], 3, []),
        ([APod(number=0), APod(number=3), APod(number=7)], 3, ["p1", "p2"]),
        ([APod(number=0), APod("Pending", 0), APod(number=1)], 3, ["p1"]),
        ([APod(number=0), APod(), APod(number=1)], 3, ["p1"]),
        ([APod("Pending", 0), APod(number=1), APod(number=5)], 2, ["p2"]),
        ([APod("Pending", 0), APod(number=1), APod(number=5)], 1, ["p2", "p"]),
    ],
)
def test_a_pod_without_an_index_of_its_own_goes_first(pods: list[APod], parallelism: int, gone: list[str]) -> None:
    """Its index is beyond the completions, which were reduced, or another pod has it (activePodsForRemoval)."""
    plan = plan_for({}, *pods, completionMode="Indexed", completions=3, parallelism=parallelism)
    assert deleted(plan) == gone


@pytest.mark.parametrize("more", [{}, {"backoffLimitPerIndex": 9}])
def test_an_index_whose_pod_still_ends_is_not_made_if_only_failed_pods_are_replaced(more: JsonObject) -> None:
    spec = {"completionMode": "Indexed", "completions": 3, "parallelism": 2, "podReplacementPolicy": "Failed", **more}
    assert made_indexes(plan_for({}, APod(number=0, is_ending=True), **spec)) == ["1"]


@pytest.mark.parametrize(
    ("pods", "fails"),
    [
        ([APod("Running", restarts=2), APod("Pending", restarts=1)], True),
        ([APod("Running", restarts=2)], False),
        ([APod("Succeeded", restarts=2), APod("Running", restarts=2)], False),
        ([APod("Failed", restarts=2), APod("Running", restarts=2)], False),
        ([APod("Running", restarts=2, is_ending=True), APod("Running", restarts=1)], True),
    ],
)
def test_restarts_of_containers_count_until_their_pod_has_ended(pods: list[APod], fails: bool) -> None:
    """A pod that has succeeded after a restart takes nothing from the limit (pastBackoffLimitOnFailure)."""
    once = {"template": {"restartPolicy": "OnFailure"}, "completions": 9, "parallelism": 2, "backoffLimit": 3}
    _, status = planned({}, *pods, **once)
    assert [one["reason"] for one in status.get("conditions", ())] == ["BackoffLimitExceeded"] * fails
