"""The controller of PodDisruptionBudgets: how many pods may go (KCM 1.32, `pkg/controller/disruption`)."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_kind, key_of
from modules.apimachinery.pods.objects import is_mirror, node_of
from modules.apimachinery.times import format_rfc3339, parse_rfc3339
from modules.cloud.apiserver.disruption_budgets import SYNC_FAILED, covers, with_condition, with_disruption_allowed
from modules.cloud.controllers.conditions import kept
from modules.cloud.controllers.custom_scales import NoScaleError, replicas_of, scale_read
from modules.cloud.controllers.deployment_sets import scaled_value
from modules.cloud.controllers.plan import (
    NORMAL,
    NOTHING,
    WARNING,
    EventNote,
    PlannedWrite,
    ReconcilePlan,
    update_status,
)
from modules.cloud.controllers.replica_set import is_unreachable
from modules.cloud.controllers.view import View, controller_of

_DELETION_SECONDS: Final = 120.0
"""Seconds until an evicted pod must be deleted; after that, it counts again."""
SCALED: Final = ("ReplicaSet", "ReplicationController", "StatefulSet", "Deployment")
"""The kinds whose replicas count."""
_FAILED: Final = "CalculateExpectedPodCountFailed"


class _UnreadScaleError(Exception):
    """The scales of controllers are to be read first."""

    def __init__(self, reads: tuple[PlannedWrite, ...]) -> None:
        super().__init__()
        self.reads = reads


def reconcile(view: View, key: ObjectKey, now: float) -> ReconcilePlan:
    """Return the status of a budget. A pod counts as healthy if it is ready, and its node answers. Mirror pods do not
    count: a node could free the pods of others, or hold them, by their labels.
    """
    budget = view.find(key)
    if budget is None or is_being_deleted(budget):
        return NOTHING
    pods = [pod for pod in view.in_namespace("Pod", key.namespace) if covers(budget, pod) and not is_mirror(pod)]
    old = budget.get("status") or {}
    moment = format_rfc3339(now)
    try:
        expected, desired = _counts(view, budget, pods)
    except _UnreadScaleError as error:
        return ReconcilePlan(error.reads)
    except NoScaleError as error:
        note = f"Failed to calculate the number of expected pods: {error}"
        failed = with_condition({**old, "disruptionsAllowed": 0}, "False", SYNC_FAILED, str(error), moment)
        write = update_status(budget, failed)
        return ReconcilePlan(status=write, events=(EventNote(WARNING, _FAILED, note),) if write else ())
    disrupted = _disrupted(old, pods, now)
    left_out = disrupted.keys()
    healthy = sum(
        not is_being_deleted(pod)
        and pod["metadata"]["name"] not in left_out
        and is_ready(pod)
        and not is_unreachable(view, node_of(pod))
        for pod in pods
    )
    status = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": max(0, healthy - desired) if expected > 0 else 0,
        "expectedPods": expected,
        "observedGeneration": budget["metadata"].get("generation", 0),
        **({"disruptedPods": disrupted} if disrupted else {}),
        **kept(old),
    }
    times = [(parse_rfc3339(text) or 0.0) + _DELETION_SECONDS for text in disrupted.values()]
    write = update_status(budget, with_disruption_allowed(status, moment))
    return ReconcilePlan(
        status=write, events=tuple(_notes(budget, pods)) if write else (), again_at=min(times, default=None)
    )


def _notes(budget: JsonObject, pods: Sequence[JsonObject]) -> Iterator[EventNote]:
    """Yield the Events about pods that the budget cannot count as it is meant."""
    if not pods:
        yield EventNote(NORMAL, "NoPods", "No matching pods found")
    spec = budget.get("spec") or {}
    counts_replicas = spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)
    if counts_replicas and any(controller_of(pod) is None for pod in pods):
        selector = json.dumps(spec.get("selector"))
        yield EventNote(
            WARNING,
            "UnmanagedPods",
            f"Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result,"
            " the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account"
            ' for these pods please set ".spec.minAvailable" field of the PDB to an integer value.',
        )


def _counts(view: View, budget: JsonObject, pods: Sequence[JsonObject]) -> tuple[int, int]:
    """Return how many pods are expected, and how many of them are to stay healthy."""
    spec = budget.get("spec") or {}
    most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most is not None:
        expected = _scale(view, key_of(budget), pods)
        return expected, max(0, expected - scaled_value(most, expected, up=True))
    if isinstance(least, str):
        expected = _scale(view, key_of(budget), pods)
        return expected, scaled_value(least, expected, up=True)
    return len(pods), int(least or 0)


def _scale(view: View, budget: ObjectKey, pods: Sequence[JsonObject]) -> int:
    """Return the replicas that the pods' controllers want, together; pods without a controller count for nothing.

    Raises:
        NoScaleError: a controller has no scale, or is gone.
        _UnreadScaleError: controllers are custom objects, whose scales are not read yet.
    """
    found: dict[str, int] = {}
    reads: dict[str, PlannedWrite] = {}
    for pod in pods:
        reference = controller_of(pod)
        uid = str((reference or {}).get("uid"))
        if reference is None or uid in found or uid in reads:
            continue
        owner = _top(view, pod)
        answer = view.scales.get(budget, {}).get(uid)
        if owner is not None and owner["kind"] in SCALED:
            replicas: int | None = int((owner.get("spec") or {}).get("replicas", 1))
            if owner["kind"] == "Deployment":
                found[str(owner["metadata"].get("uid"))], replicas = replicas or 0, 0
        elif answer is None and key_kind(reference) not in SCALED:
            reads[uid] = scale_read(view, budget.namespace, reference)
            continue
        else:
            replicas = None if answer is None else replicas_of(answer, uid)
        if replicas is None:
            raise NoScaleError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
        found[uid] = replicas
    if reads:
        raise _UnreadScaleError(tuple(reads.values()))
    return sum(found.values())


def _top(view: View, pod: JsonObject) -> JsonObject | None:
    """Return a pod's controller, or its Deployment."""
    owner: JsonObject | None = pod
    for kind in ("", "Deployment"):
        reference = controller_of(owner) if owner is not None else None
        if owner is None or reference is None or kind not in ("", key_kind(reference)):
            break
        found = view.find(ObjectKey(key_kind(reference), pod["metadata"]["namespace"], str(reference["name"])))
        is_same = found is not None and found["metadata"].get("uid") == reference.get("uid")
        owner = found if is_same else None
    return owner


def _disrupted(old: JsonObject, pods: Sequence[JsonObject], now: float) -> dict[str, str]:
    """Return the evicted pods that are still to be deleted, with the times of their evictions."""
    living = {pod["metadata"]["name"] for pod in pods if not is_being_deleted(pod)}
    known = (old.get("disruptedPods") or {}).items()
    return {
        name: text
        for name, text in known
        if name in living and now < (parse_rfc3339(str(text)) or 0.0) + _DELETION_SECONDS
    }
