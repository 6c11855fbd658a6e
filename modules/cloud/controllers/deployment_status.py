"""The status of a Deployment, with its conditions (KCM 1.32, `pkg/controller/deployment/progress.go`, `sync.go`)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from modules.apimachinery.conditions import Conditions, condition_in, condition_of, without
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.times import parse_rfc3339
from modules.cloud.controllers.conditions import new_condition, with_condition
from modules.cloud.controllers.deployment_sets import bounds_of, counted, wanted

PROGRESSING: Final = "Progressing"
AVAILABLE: Final = "Available"
FAILURE: Final = "ReplicaFailure"
COMPLETE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
_NO_DEADLINE: Final = 2**31 - 1
_ALL_WHEN_COMPLETE: Final = ("replicas", "updatedReplicas", "availableReplicas")
_PROGRESS: Final = ("updatedReplicas", "readyReplicas", "availableReplicas")


class Sets(NamedTuple):
    """The ReplicaSets of a Deployment."""

    new: JsonObject | None
    old: list[JsonObject]

    @property
    def all(self) -> list[JsonObject]:
        """All of them."""
        return [*self.old, *([self.new] if self.new else [])]


def deadline_of(deployment: JsonObject) -> int | None:
    """Return progressDeadlineSeconds, or None."""
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return seconds if isinstance(seconds, int) and seconds != _NO_DEADLINE else None


def condition(kind: str, status: str, reason: str, message: str, now: float) -> JsonObject:
    """Return a new condition of a Deployment."""
    return new_condition(kind, status, reason, message, now, "lastUpdateTime")


def calculated(deployment: JsonObject, sets: Sets, known: Conditions, now: float) -> JsonObject:
    """Return the status with the numbers of replicas, and the condition Available."""
    every = sets.all
    available = sum(counted(one, "availableReplicas") for one in every)
    counts = {
        "replicas": sum(counted(one, "replicas") for one in every),
        "updatedReplicas": counted(sets.new, "replicas") if sets.new else 0,
        "readyReplicas": sum(counted(one, "readyReplicas") for one in every),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(map(wanted, every)) - available),
    }
    if available >= wanted(deployment) - bounds_of(deployment).unavailable:
        has = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        has = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    collisions = (deployment.get("status") or {}).get("collisionCount")
    return {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        **{name: count for name, count in counts.items() if count},
        **({"collisionCount": collisions} if collisions else {}),
        "conditions": with_condition(known, condition(AVAILABLE, *has, now)),
    }


def is_complete(deployment: JsonObject, status: JsonObject) -> bool:
    """Return whether all pods are of the new template, and available."""
    replicas = wanted(deployment)
    is_observed = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    return is_observed and all(status.get(name, 0) == replicas for name in _ALL_WHEN_COMPLETE)


def rollout_status(deployment: JsonObject, sets: Sets, known: Conditions, now: float) -> JsonObject:
    """Return the status of a Deployment that is rolled out, with the conditions of its progress.

    Args:
        deployment: the Deployment.
        sets: its ReplicaSets.
        known: its conditions.
        now: the present time.
    """
    old = deployment.get("status") or {}
    if deadline_of(deployment) is None:
        known = without(known, PROGRESSING)
    status = calculated(deployment, sets, known, now)
    current = condition_in(known, PROGRESSING)
    is_done = status.get("replicas", 0) == status.get("updatedReplicas", 0) and current.get("reason") == COMPLETE
    if deadline_of(deployment) is not None and not is_done:
        status["conditions"] = _with_progress(deployment, sets, old, status, current, now)
    failures = _failures(sets)
    rest = status["conditions"]
    status["conditions"] = with_condition(rest, failures[0]) if failures else without(rest, FAILURE)
    return status


def times_out_at(deployment: JsonObject, status: JsonObject) -> float | None:
    """Return the deadline of a rollout without progress; None if it is complete, or over."""
    deadline = deadline_of(deployment)
    current = condition_of({"status": status}, PROGRESSING)
    if deadline is None or not current or current.get("reason") in (COMPLETE, TIMED_OUT, "DeploymentPaused"):
        return None
    since = parse_rfc3339(str(current.get("lastUpdateTime") or ""))
    return None if since is None else since + deadline + 1.0  # times are written in whole seconds


def _with_progress(
    deployment: JsonObject, sets: Sets, old: JsonObject, status: JsonObject, current: JsonObject, now: float
) -> Conditions:
    known: Conditions = status["conditions"]
    name = deployment["metadata"]["name"]
    who = f'ReplicaSet "{sets.new["metadata"]["name"]}"' if sets.new else f'Deployment "{name}"'
    if sets.new and is_complete(deployment, status):
        done = condition(PROGRESSING, "True", COMPLETE, f"{who} has successfully progressed.", now)
        return with_condition(known, done)
    if _has_progressed(old, status):
        new = condition(PROGRESSING, "True", "ReplicaSetUpdated", f"{who} is progressing.", now)
        if current.get("status") == "True":
            new["lastTransitionTime"] = current.get("lastTransitionTime", new["lastTransitionTime"])
        return [*without(known, PROGRESSING), new]
    ends = times_out_at(deployment, {"conditions": known})
    if ends is not None and now >= ends:
        late = condition(PROGRESSING, "False", TIMED_OUT, f"{who} has timed out progressing.", now)
        return with_condition(known, late)
    return known


def _has_progressed(old: JsonObject, new: JsonObject) -> bool:
    def of_old(status: JsonObject) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    grown = any(new.get(name, 0) > old.get(name, 0) for name in _PROGRESS)
    return grown or of_old(new) < of_old(old)


def _failures(sets: Sets) -> Sequence[JsonObject]:
    """Return the failures of ReplicaSets to make pods, the new one's first, as conditions of their Deployment."""
    of_new = _failure(sets.new) if sets.new else None
    if of_new is not None:
        return [of_new]
    return [found for one in sets.old if (found := _failure(one)) is not None]


def _failure(replica_set: JsonObject) -> JsonObject | None:
    of = condition_of(replica_set, FAILURE)
    return {**of, "lastUpdateTime": of.get("lastTransitionTime")} if of else None
