"""Pods of Nodes that were deleted: their controllers make others (KCM's pod garbage collector, `gcOrphaned`).

A Node that is deleted while its edgecore lives registers again, so its pods stay for a while. Pods without a controller
stay in any case: they may be meant for a node that has yet to register.
"""

from __future__ import annotations

from typing import Final

from modules.apimachinery.kinds import ObjectKey
from modules.cloud.controllers.plan import NOTHING, ReconcilePlan, delete
from modules.cloud.controllers.view import View, controller_of

_QUARANTINE: Final = 40.0
"""Seconds for which a Node must be gone (KCM's `quarantineTime`)."""


def reconcile(view: View, key: ObjectKey, now: float) -> ReconcilePlan:
    """Return the deletions of the pods of a Node that is gone."""
    pods = [pod for pod in view.pods_on(key.name) if controller_of(pod) is not None] if key.name else []
    if view.find(key) is not None or not pods:
        view.gone_since.pop(key.name, None)
        return NOTHING
    ends = view.gone_since.setdefault(key.name, now) + _QUARANTINE
    if now < ends:
        return ReconcilePlan(again_at=ends)
    return ReconcilePlan(tuple(delete(pod, {"gracePeriodSeconds": 0}) for pod in pods))
