"""What a PodDisruptionBudget says to the eviction of a pod."""

from typing import Any

import pytest

from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.disruption_budgets import charged_budget, covers, with_condition
from tests.support.presence import present

NOW, BEFORE = "2026-11-26T00:00:00Z", "2026-11-25T00:00:00Z"
POD: JsonObject = {"kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}}, "status": {"phase": "Running"}}


def budget(selector: Any = None, policy: str = "", **status: Any) -> JsonObject:
    counted = {"observedGeneration": 1, "currentHealthy": 3, "desiredHealthy": 2, "disruptionsAllowed": 1, **status}
    spec = {"selector": {"matchLabels": {"app": "web"}} if selector is None else selector}
    return {
        "metadata": {"name": "most", "generation": 1},
        "spec": {**spec, **({"unhealthyPodEvictionPolicy": policy} if policy else {})},
        "status": counted,
    }


def charge(*budgets: JsonObject, is_healthy: bool = True, pod: JsonObject = POD) -> JsonObject | None:
    return charged_budget(pod, budgets, NOW, is_healthy=is_healthy)


def refusal(found: JsonObject, **how: Any) -> JsonObject:
    with pytest.raises(ApiError) as error:
        charge(found, **how)
    return error.value.status()


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({}, True),
        (7, False),
    ],
)
def test_which_pods_a_budget_is_for(selector: Any, *, covered: bool) -> None:
    assert covers(budget(selector), POD) is covered
    assert (charge(budget(selector)) is not None) is covered
    assert not covers({"spec": {}}, POD)


def test_an_eviction_is_counted() -> None:
    found = present(charge(budget(disruptionsAllowed=2, disruptedPods={"db": BEFORE})))
    assert found["status"]["disruptionsAllowed"] == 1
    assert found["status"]["disruptedPods"] == {"db": BEFORE, "web": NOW}
    assert "conditions" not in found["status"]


def test_the_last_eviction_that_is_allowed_changes_the_condition() -> None:
    found = present(charge(budget(conditions=[{"type": "Other", "status": "True"}])))
    assert found["status"]["conditions"] == [
        {"type": "Other", "status": "True"},
        {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": 1,
            "lastTransitionTime": NOW,
            "reason": "InsufficientPods",
            "message": "",
        },
    ]


@pytest.mark.parametrize(("value", "time"), [("True", BEFORE), ("False", NOW)])
def test_a_condition_has_the_time_of_its_last_change(value: str, time: str) -> None:
    old = {"type": "DisruptionAllowed", "status": "True", "lastTransitionTime": BEFORE}
    (found,) = with_condition({"conditions": [old]}, value, "Why", "because", NOW)["conditions"]
    assert (found["status"], found["reason"], found["message"]) == (value, "Why", "because")
    assert (found["observedGeneration"], found["lastTransitionTime"]) == (0, time)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"currentHealthy": 2}, "needs 2 healthy pods and has 2 currently"),
        ({"currentHealthy": 1}, "needs 2 healthy pods and has 1 currently"),
        ({"currentHealthy": 3}, "does not allow evicting pods currently"),
        (
            {"conditions": [{"type": "DisruptionAllowed", "reason": "SyncFailed", "message": "no scale"}]},
            "does not allow evicting pods currently because it failed sync: no scale",
        ),
    ],
)
@pytest.mark.parametrize("allowed", [0, -1])
def test_an_eviction_that_is_not_allowed(status: JsonObject, told: str, allowed: int) -> None:
    answer = refusal(budget(**{**status, "disruptionsAllowed": allowed}))
    assert (answer["code"], answer["reason"]) == (429, "TooManyRequests")
    cause = {"reason": "DisruptionBudget", "message": f"The disruption budget most {told}"}
    assert answer["details"] == {"causes": [cause]}


def test_a_budget_without_counts_allows_nothing() -> None:
    answer = refusal({**budget(), "status": {"observedGeneration": 1}})
    assert "needs 0 healthy pods and has 0 currently" in answer["details"]["causes"][0]["message"]


def test_a_budget_that_is_not_counted_yet_is_waited_for() -> None:
    for behind in (budget(observedGeneration=0), {**budget(), "status": {}}):
        answer = refusal(behind)
        why = "The disruption budget most is still being processed by the server."
        assert answer["details"] == {
            "causes": [{"reason": "DisruptionBudget", "message": why}], "retryAfterSeconds": 10,
        }  # fmt: skip


def test_evictions_that_are_not_confirmed_are_bounded() -> None:
    pods = {f"p{at}": BEFORE for at in range(2000)}
    assert charge(budget(disruptedPods=pods)) is not None
    assert refusal(budget(disruptedPods={**pods, "one": BEFORE}))["code"] == 403


def test_a_pod_of_several_budgets_is_not_evicted() -> None:
    with pytest.raises(ApiError) as error:
        charge(budget(), budget())
    told = error.value.status()
    assert told["code"] == 500
    assert "more than one PodDisruptionBudget" in told["message"]


@pytest.mark.parametrize(
    ("policy", "healthy", "wanted", "goes"),
    [
        ("AlwaysAllow", 0, 2, True),
        ("", 2, 2, True),
        ("IfHealthyBudget", 2, 2, True),
        ("", 1, 1, True),
        ("", 1, 2, False),
        ("", 0, 0, False),
    ],
)
def test_a_pod_that_is_not_ready(policy: str, healthy: int, wanted: int, *, goes: bool) -> None:
    """It goes uncounted where nothing is lost, or the others are enough."""
    found = budget(policy=policy, currentHealthy=healthy, desiredHealthy=wanted, disruptionsAllowed=0)
    if goes:
        assert charge(found, is_healthy=False) is None
    else:
        assert refusal(found, is_healthy=False)["code"] == 429
    assert refusal(found)["code"] == 429


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Pending"])
def test_a_pod_that_does_not_run_is_not_counted(phase: str) -> None:
    full = budget(disruptionsAllowed=0)
    assert charge(full, pod={**POD, "status": {"phase": phase}}) is None
    assert charge(full, pod={**POD, "metadata": {**POD["metadata"], "deletionTimestamp": NOW}}) is None
