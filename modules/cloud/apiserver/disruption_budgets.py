"""PodDisruptionBudgets in evictions: which one a pod has, and whether it allows that the pod goes
(Kubernetes' EvictionREST, `pkg/registry/core/pod/storage/eviction.go`).
"""

from collections.abc import Iterable
from typing import Final

from modules.apimachinery.api_errors import ForbiddenError, InternalError, TooManyRequestsError
from modules.apimachinery.conditions import condition_in, timed, without
from modules.apimachinery.kinds import JsonObject, is_being_deleted
from modules.apimachinery.workload_selectors import matcher_of

CONDITION: Final = "DisruptionAllowed"
SYNC_FAILED: Final = "SyncFailed"
_SUFFICIENT, _INSUFFICIENT = "SufficientPods", "InsufficientPods"
_NOT_DISRUPTED: Final = ("Succeeded", "Failed", "Pending")
_GROUP: Final = "policy"
_MOST_DISRUPTED: Final = 2000
_SECONDS: Final = 10
"""After which an eviction is tried again whose budget is not counted yet."""


def covers(budget: JsonObject, pod: JsonObject) -> bool:
    """Return whether a budget is for a pod of its namespace: an empty selector is for all of them, none for no pod."""
    selector = (budget.get("spec") or {}).get("selector")
    if not isinstance(selector, dict):
        return False
    is_empty = not selector.get("matchLabels") and not selector.get("matchExpressions")
    return is_empty or matcher_of(selector)(pod["metadata"].get("labels") or {})


def with_disruption_allowed(status: JsonObject, now: str) -> JsonObject:
    """Return a status with the condition that follows from `disruptionsAllowed`."""
    is_allowed = status.get("disruptionsAllowed", 0) > 0
    reason = _SUFFICIENT if is_allowed else _INSUFFICIENT
    return with_condition(status, "True" if is_allowed else "False", reason, "", now)


def with_condition(status: JsonObject, value: str, reason: str, message: str, now: str) -> JsonObject:
    """Return a status with its condition DisruptionAllowed, whose time is the last change of its value."""
    conditions = status.get("conditions") or []
    new = {
        "type": CONDITION,
        "status": value,
        "observedGeneration": status.get("observedGeneration", 0),
        "reason": reason,
        "message": message,
    }
    changed = timed(new, condition_in(conditions, CONDITION), now)
    return {**status, "conditions": [*without(conditions, CONDITION), changed]}


def charged_budget(pod: JsonObject, budgets: Iterable[JsonObject], now: str, *, is_healthy: bool) -> JsonObject | None:
    """Return the budget of a pod with the pod's eviction counted; None if the eviction concerns none.

    Args:
        pod: the pod.
        budgets: the budgets of its namespace.
        now: the time as Kubernetes writes it.
        is_healthy: whether the pod is ready, and its node answers.

    Raises:
        TooManyRequestsError: the budget does not allow it, or is not counted yet.
        ForbiddenError: too many evictions are not confirmed.
        InternalError: the pod has several budgets.
    """
    if is_being_deleted(pod) or (pod.get("status") or {}).get("phase") in _NOT_DISRUPTED:
        return None
    found = [budget for budget in budgets if covers(budget, pod)]
    if len(found) > 1:
        raise SeveralBudgetsError
    if not found:
        return None
    budget, status = found[0], found[0].get("status") or {}
    if not is_healthy and _allows_unhealthy(budget):
        return None
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", _SECONDS)
    if len(status.get("disruptedPods") or {}) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise ForbiddenError("poddisruptionbudget", name, why, _GROUP)
    if status.get("disruptionsAllowed", 0) <= 0:
        raise _too_many(_reason(name, status), 0)
    left = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1}
    left["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: now}
    return {**budget, "status": left if left["disruptionsAllowed"] else with_disruption_allowed(left, now)}


class SeveralBudgetsError(InternalError):
    """A pod has more than one budget."""

    def __init__(self) -> None:
        super().__init__("")
        self.message = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )


def _allows_unhealthy(budget: JsonObject) -> bool:
    """Return whether a pod that is not ready may go: nothing is lost by it, or the others are enough."""
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    wanted = status.get("desiredHealthy", 0)
    return bool(0 < wanted <= status.get("currentHealthy", 0))


def _reason(name: str, status: JsonObject) -> str:
    wanted, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    condition = condition_in(status.get("conditions") or (), CONDITION)
    if condition.get("reason") == SYNC_FAILED:
        why = f"because it failed sync: {condition.get('message')}"
        return f"The disruption budget {name} does not allow evicting pods currently {why}"
    if healthy <= wanted:
        return f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _too_many(why: str, seconds: int) -> TooManyRequestsError:
    error = TooManyRequestsError("Cannot evict pod as it would violate the pod's disruption budget.")
    error.details = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if seconds:
        error.details["retryAfterSeconds"] = seconds
    return error
