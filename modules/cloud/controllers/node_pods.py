"""Pods of Nodes that are gone or do not answer (KCM 1.32, `gcOrphaned` in `pkg/controller/podgc`, `MarkPodsNotReady`
in `pkg/controller/util/node`).

Pods of a Node that was deleted are deleted, so that their controllers make others. A Node that is deleted while its
edgecore lives registers again, so its pods stay for a while. Pods without a controller stay in any case: they may be
meant for a node that has yet to register.

Pods of a node that does not answer stay, and are not ready any more after a while, so that no Service sends connections
there. The node restores the condition with its first status.
"""

from __future__ import annotations

from typing import Final

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.apimachinery.times import format_rfc3339, parse_rfc3339
from modules.cloud.controllers.conditions import without
from modules.cloud.controllers.plan import NOTHING, PlannedWrite, ReconcilePlan, delete, update_status
from modules.cloud.controllers.pods import condition_of, is_ready
from modules.cloud.controllers.view import View, controller_of

UNREACHABLE_GRACE: Final = 300.0
"""Seconds after which the pods of a node that does not answer are not ready any more. kube-controller-manager marks
them at once, so that each break of a link is a change for all nodes."""
_QUARANTINE: Final = 40.0
"""Seconds for which a Node must be gone (KCM's `quarantineTime`)."""


def reconcile(view: View, key: ObjectKey, now: float) -> ReconcilePlan:
    """Return what the pods of a Node need that is gone or does not answer."""
    node = view.find(key)
    return _of_gone(view, key, now) if node is None else _of_silent(view, node, now)


def _of_gone(view: View, key: ObjectKey, now: float) -> ReconcilePlan:
    view.marked_silent.pop(key.name, None)
    pods = [pod for pod in view.pods_on(key.name) if controller_of(pod) is not None] if key.name else []
    if not pods:
        view.gone_since.pop(key.name, None)
        return NOTHING
    ends = view.gone_since.setdefault(key.name, now) + _QUARANTINE
    if now < ends:
        return ReconcilePlan(again_at=ends)
    return ReconcilePlan(tuple(delete(pod, {"gracePeriodSeconds": 0}) for pod in pods))


def _of_silent(view: View, node: JsonObject, now: float) -> ReconcilePlan:
    name, ready = str(node["metadata"]["name"]), condition_of(node, "Ready")
    view.gone_since.pop(name, None)
    if ready.get("status") != "Unknown":
        view.marked_silent.pop(name, None)
        return NOTHING
    since = parse_rfc3339(str(ready.get("lastTransitionTime") or "")) or 0.0
    if view.marked_silent.get(name) == since:
        return NOTHING  # a node that goes on reporting its pods has the last word
    if now < since + UNREACHABLE_GRACE:
        return ReconcilePlan(again_at=since + UNREACHABLE_GRACE)
    moment = format_rfc3339(now)
    writes = tuple(write for pod in view.pods_on(name) if is_ready(pod) and (write := _not_ready(pod, moment)))
    if not writes:
        view.marked_silent[name] = since
    return ReconcilePlan(writes)


def _not_ready(pod: JsonObject, moment: str) -> PlannedWrite | None:
    status = pod["status"]
    marked = {**condition_of(pod, "Ready"), "status": "False", "lastTransitionTime": moment}
    return update_status(pod, {**status, "conditions": [*without(status["conditions"], "Ready"), marked]})
