"""Pods of Nodes that are gone, do not answer, or are tainted (KCM 1.32, `gcOrphaned` in `pkg/controller/podgc`,
`MarkPodsNotReady` in `pkg/controller/util/node`, `pkg/controller/tainteviction`).

Pods of a Node that was deleted are deleted, so that their controllers make others. A Node that is deleted while its
edgecore lives registers again, so its pods stay for a while. Pods without a controller stay in any case: they may be
meant for a node that has yet to register.

Pods of a node that does not answer stay, and are not ready any more after a while, so that no Service sends connections
there. The node restores the condition with its first status. Only the word of a pod or of its node has it deleted, and
only if another node of the group answers: otherwise it is the link that is broken. The taints of such a node are not
followed but by that word; another taint with the effect NoExecute is somebody's wish.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.conditions import changed_at, condition_of, is_ready, without
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_kind, uid_of
from modules.apimachinery.pods.objects import has_ended, is_active
from modules.apimachinery.pods.tolerations import NO_EXECUTE, tolerates
from modules.apimachinery.times import format_rfc3339
from modules.apimachinery.types import Taint
from modules.apimachinery.types.pods import Toleration
from modules.cloud.apiserver.silent_nodes import UNREACHABLE, pod_stays_for, pods_stay_for
from modules.cloud.applications import BELONGING_TO
from modules.cloud.controllers.conditions import new_condition, with_condition
from modules.cloud.controllers.plan import (
    NORMAL,
    NOTHING,
    WARNING,
    EventNote,
    PlannedWrite,
    ReconcilePlan,
    delete,
    update_status,
)
from modules.cloud.controllers.pods import created_at
from modules.cloud.controllers.replica_set import MOST_WRITES
from modules.cloud.controllers.view import View, controller_of

UNREACHABLE_GRACE: Final = 300.0
"""Seconds after which the pods of a node that does not answer are not ready any more. kube-controller-manager marks
them immediately, so that each break of a link is a change for all nodes."""
_LOOK_AGAIN: Final = 60.0
"""Seconds between looks at a node whose whole group is silent."""
_NAMED: Final = ("DaemonSet", "Node")
"""Controllers whose pods belong to their node."""
_QUARANTINE: Final = 40.0
"""Seconds that a Node must be gone (KCM's `quarantineTime`)."""


def reconcile(view: View, key: ObjectKey, now: float) -> ReconcilePlan:
    """Return the plan for the pods of a Node that is deleted or does not answer."""
    node = view.find(key)
    if node is None:
        return _of_gone(view, key, now)
    plans = (_of_silent(view, node, now), _of_tainted(view, node, now))
    times = [plan.again_at for plan in plans if plan.again_at is not None]
    return ReconcilePlan(tuple(write for plan in plans for write in plan.writes), again_at=min(times, default=None))


def _of_gone(view: View, key: ObjectKey, now: float) -> ReconcilePlan:
    view.marked_silent.pop(key.name, None)
    view.tainted_since.pop(key.name, None)
    pods = [pod for pod in view.pods_on(key.name) if controller_of(pod) is not None] if key.name else []
    if not pods:
        view.gone_since.pop(key.name, None)
        return NOTHING
    ends = view.gone_since.setdefault(key.name, now) + _QUARANTINE
    if now < ends:
        return ReconcilePlan(again_at=ends)
    return ReconcilePlan(tuple(write for pod in pods for write in _collected(pod, now)))


def _collected(pod: JsonObject, now: float) -> Iterator[PlannedWrite]:
    """Yield the writes that end a pod for its node, which no longer does: controllers that hold it by a finalizer wait
    for its end.
    """
    status = pod.get("status") or {}
    why = _disruption("DeletionByPodGC", "PodGC: node no longer exists", now)
    failed = {**status, "phase": "Failed", "conditions": with_condition(status.get("conditions") or (), why)}
    if not has_ended(pod) and (marked := update_status(pod, failed)) is not None:
        yield marked
    if not is_being_deleted(pod) or pod["metadata"].get("deletionGracePeriodSeconds"):
        yield delete(pod, {"gracePeriodSeconds": 0})


def _of_silent(view: View, node: JsonObject, now: float) -> ReconcilePlan:
    name, ready = str(node["metadata"]["name"]), condition_of(node, "Ready")
    view.gone_since.pop(name, None)
    if ready.get("status") != "Unknown":
        view.marked_silent.pop(name, None)
        return NOTHING
    since = changed_at(ready) or 0.0
    marking, eviction = _marking(view, name, since, now), _eviction(view, node, since, now)
    times = [plan.again_at for plan in (marking, eviction) if plan.again_at is not None]
    return ReconcilePlan((*marking.writes, *eviction.writes), again_at=min(times, default=None))


def _marking(view: View, name: str, since: float, now: float) -> ReconcilePlan:
    if view.marked_silent.get(name) == since:
        return NOTHING  # a node that goes on reporting its pods has the last word
    if now < since + UNREACHABLE_GRACE:
        return ReconcilePlan(again_at=since + UNREACHABLE_GRACE)
    moment = format_rfc3339(now)
    writes = tuple(write for pod in view.pods_on(name) if is_ready(pod) and (write := _not_ready(pod, moment)))
    if not writes:
        view.marked_silent[name] = since
    return ReconcilePlan(writes)


def _eviction(view: View, node: JsonObject, since: float, now: float) -> ReconcilePlan:
    """Return the deletion of a node's pods that have stayed for long enough; they are gone when the node ends them."""
    stay = pods_stay_for(node)
    pods = [pod for pod in view.pods_on(str(node["metadata"]["name"])) if is_active(pod)]
    ends = [(max(since, created_at(pod)) + _stays_for(pod, stay), pod) for pod in pods]
    due, later = [pod for at, pod in ends if at <= now], [at for at, _ in ends if now < at < math.inf]
    group = view.labels.of(node).get(BELONGING_TO)
    others = (other for other in view.all_of("Node") if view.labels.of(other).get(BELONGING_TO) == group)
    if due and not any(map(is_ready, others)):
        due, later = [], [*later, now + _LOOK_AGAIN]
    writes = (write for pod in due[:MOST_WRITES] for write in _disrupted(pod, now))
    return ReconcilePlan(tuple(writes), again_at=min(later, default=None))


def _stays_for(pod: JsonObject, stay: float) -> float:
    """Return how many seconds a pod stays on its silent node.

    Args:
        pod: an active one.
        stay: for how long pods stay there that leave it to the node. Those without a controller stay for ever.
    """
    controller = controller_of(pod)
    if controller is not None and key_kind(controller) in _NAMED:
        return math.inf
    try:
        chosen = pod_stays_for(_tolerations(pod))
    except BadRequestError:
        return math.inf
    return chosen if chosen is not None else math.inf if controller is None else stay


def _tolerations(pod: JsonObject) -> list[Toleration]:
    return [convert(one, Toleration, "Toleration") for one in (pod.get("spec") or {}).get("tolerations") or ()]


def _of_tainted(view: View, node: JsonObject, now: float) -> ReconcilePlan:
    """Return the deletions of a node's pods that do not tolerate its taints of the effect NoExecute, or not any longer.
    The time counts from when a taint was noticed.
    """
    name = str(node["metadata"]["name"])
    given = (node.get("spec") or {}).get("taints") or ()
    try:
        found = [convert(one, Taint, "Taint") for one in given]
    except BadRequestError:  # nobody can say what it repels
        found = []
    taints = [taint for taint in found if taint.effect == NO_EXECUTE and taint.key != UNREACHABLE]
    if not taints:
        view.tainted_since.pop(name, None)
        return NOTHING
    known = view.tainted_since.get(name, {})
    since = view.tainted_since[name] = {taint: known.get(taint, now) for taint in taints}
    ends = {uid_of(pod): _tolerates_until(pod, since) for pod in view.pods_on(name)}
    staying = [pod for pod in view.pods_on(name) if not is_being_deleted(pod)]
    due = [pod for pod in staying if ends[uid_of(pod)] <= now]
    later = [at for pod in staying if now < (at := ends[uid_of(pod)]) < math.inf]
    writes = (write for pod in due[:MOST_WRITES] for write in _disrupted(pod, now))
    return ReconcilePlan(tuple(writes), again_at=min(later, default=None))


def _tolerates_until(pod: JsonObject, since: Mapping[Taint, float]) -> float:
    """Return until when a pod tolerates taints; infinity if it always does.

    Args:
        pod: the pod.
        since: the taints, with the time when each was noticed.
    """
    try:
        given = _tolerations(pod)
    except BadRequestError:
        return math.inf
    used = {taint: next((one for one in given if tolerates(taint, (one,))), None) for taint in since}
    seconds = {taint: 0 if one is None else one.toleration_seconds for taint, one in used.items()}
    ends = (max(since[taint], created_at(pod)) + max(0, left) for taint, left in seconds.items() if left is not None)
    return min(ends, default=math.inf)


def _disrupted(pod: JsonObject, now: float) -> Iterator[PlannedWrite]:
    """Yield the condition with the reason of a pod's deletion, and the deletion."""
    status = pod.get("status") or {}
    why = new_condition(
        "DisruptionTarget", "True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", now
    )
    marked = update_status(pod, {**status, "conditions": with_condition(status.get("conditions") or (), why)})
    if marked is not None and not has_ended(pod):
        yield marked
    yield delete(pod, done=_evicted(pod))


def _disruption(reason: str, message: str, now: float) -> JsonObject:
    return new_condition("DisruptionTarget", "True", reason, message, now)


def _evicted(pod: JsonObject) -> EventNote:
    words = f"Marking for deletion Pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
    return EventNote(NORMAL, "TaintManagerEviction", words, pod)


def _not_ready(pod: JsonObject, moment: str) -> PlannedWrite | None:
    status = pod["status"]
    marked = {**condition_of(pod, "Ready"), "status": "False", "lastTransitionTime": moment}
    conditions = [*without(status["conditions"], "Ready"), marked]
    told = EventNote(WARNING, "NodeNotReady", "Node is not ready", pod)
    return update_status(pod, {**status, "conditions": conditions}, done=told)
