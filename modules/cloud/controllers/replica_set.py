"""The controller of ReplicaSets and ReplicationControllers: as many pods as are wanted (KCM 1.32,
`pkg/controller/replicaset` and, of the same rules, `pkg/controller/replication`).
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from modules.apimachinery.conditions import changed_at, condition_of, is_ready, without
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_of, uid_of
from modules.apimachinery.pods.objects import has_ended, is_active, node_of, phase_of
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.apimachinery.workload_selectors import matcher_of, selector_of
from modules.cloud.controllers.claims import claimed
from modules.cloud.controllers.conditions import new_condition, with_condition
from modules.cloud.controllers.plan import (
    NORMAL,
    NOTHING,
    WARNING,
    EventNote,
    PlannedWrite,
    ReconcilePlan,
    create,
    delete,
    update_status,
)
from modules.cloud.controllers.pods import available_later, by_age, created_at, is_available, pod_of
from modules.cloud.controllers.view import View, controller_of

FAILED_CREATE: Final = "FailedCreate"
FAILED_DELETE: Final = "FailedDelete"
MOST_WRITES: Final = 500
"""Pods that one look makes or deletes (KCM's burst)."""
_KEPT_ENDED: Final = 5
"""Pods kept that their nodes have ended; they say why."""
_LONGEST_PAUSE: Final = 300.0
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_NANOSECONDS: Final = 1e9


def reconcile(view: View, key: ObjectKey, now: float) -> ReconcilePlan:
    """Return the plan for a ReplicaSet or a ReplicationController."""
    replica_set = view.find(key)
    if replica_set is None:
        return NOTHING
    claims = claimed(view, replica_set, "Pod", takes_ended=False)
    if claims.writes:
        return ReconcilePlan(claims.writes)
    active = [pod for pod in claims.owned if is_active(pod)]
    ended = [pod for pod in claims.owned if has_ended(pod)]  # by their nodes: containers are restarted for ever
    writes: tuple[PlannedWrite, ...] = ()
    again_at: float | None = None
    if not is_being_deleted(replica_set):
        waits_until = pause_ends(ended)
        wanted = int(replica_set["spec"].get("replicas", 1))
        if len(active) < wanted and now < waits_until:
            again_at = waits_until
        else:
            writes = _difference(view, replica_set, active, wanted, now)
        writes = (*writes, *surplus_ended(ended))
    status = _status(view, replica_set, active, now)
    again_at = min([*available_later(active, replica_set, now), *([again_at] if again_at else [])], default=None)
    return ReconcilePlan(writes, update_status(replica_set, status), again_at=again_at)


def makes_its_own(workload: JsonObject, added: Mapping[str, str] = MappingProxyType({})) -> bool:
    """Return whether a workload may have the pods of its template. Pods that it may not have would never count, and
    more and more would be made: mirror pods, and pods that its selector does not match. The API server compares
    selector and template, but not the labels that a controller adds.
    """
    given = (workload["spec"].get("template") or {}).get("metadata") or {}
    is_mirror = CONFIG_MIRROR in (given.get("annotations") or {})
    return not is_mirror and matcher_of(selector_of(workload))({**(given.get("labels") or {}), **added})


def creation(pod: JsonObject) -> PlannedWrite:
    """Return the creation of a pod, with KCM's Events."""
    return create(
        pod,
        done=EventNote(NORMAL, "SuccessfulCreate", "Created pod: {name}"),
        refused=EventNote(WARNING, FAILED_CREATE, "Error creating: {why}"),
        counts_as=FAILED_CREATE,
    )


def deletion(pod: JsonObject) -> PlannedWrite:
    """Return the deletion of a pod, with KCM's Events."""
    return delete(
        pod,
        done=EventNote(NORMAL, "SuccessfulDelete", "Deleted pod: {name}"),
        refused=EventNote(WARNING, FAILED_DELETE, "Error deleting: {why}"),
        counts_as=FAILED_DELETE,
    )


def pause_ends(ended: Sequence[JsonObject]) -> float:
    """Return the time before which no pod is made in place of pods that nodes have ended: twice as long after each, 1 s
    to 5 min; after a longer time without one, 1 s again. KCM makes others immediately, thirty a second.
    """
    times = sorted(map(created_at, ended))
    if not times:
        return 0.0
    between = times[-1] - times[-2] if len(times) > 1 else 0.0
    pause = min(_LONGEST_PAUSE, max(1.0, 2.0 * between)) if between <= 2 * _LONGEST_PAUSE else 1.0
    return times[-1] + pause


def surplus_ended(ended: Sequence[JsonObject]) -> tuple[PlannedWrite, ...]:
    """Return the deletions of the oldest pods that nodes have ended, beyond the kept ones."""
    gone = sorted((pod for pod in ended if not is_being_deleted(pod)), key=by_age)[:-_KEPT_ENDED]
    return tuple(delete(pod) for pod in gone)


def _difference(
    view: View, replica_set: JsonObject, active: Sequence[JsonObject], wanted: int, now: float
) -> tuple[PlannedWrite, ...]:
    missing = wanted - len(active)
    if missing > 0:
        if not makes_its_own(replica_set):
            return ()
        pod = pod_of(replica_set["spec"].get("template") or {}, replica_set)
        return (creation(pod),) * min(missing, MOST_WRITES)
    if missing == 0:
        return ()
    return tuple(map(deletion, to_delete(view, replica_set, active, now)[: min(-missing, MOST_WRITES)]))


def to_delete(view: View, replica_set: JsonObject, active: Sequence[JsonObject], now: float) -> list[JsonObject]:
    """Return the active pods in the order of their deletion (ActivePodsWithRanks).

    A pod of a node that does not answer counts as not ready here, even while its condition is still Ready.
    """
    family = Counter(node_of(pod) for pod in _family(view, replica_set) if is_active(pod))

    def rank(pod: JsonObject) -> tuple[object, ...]:
        ready = is_ready(pod) and not is_unreachable(view, node_of(pod))
        since = changed_at(condition_of(pod, "Ready")) if ready else None
        return (
            bool(node_of(pod)),
            _PHASES.get(phase_of(pod), 0),
            ready,
            _deletion_cost(pod),
            -family[node_of(pod)],
            _magnitude(now - since) if since is not None else 0,
            *_restarts(pod),
            _magnitude(now - created_at(pod)),
            uid_of(pod),
        )

    return sorted(active, key=rank)


def is_unreachable(view: View, node: str) -> bool:
    """Return whether a node has fallen silent."""
    found = view.find(ObjectKey("Node", "", node))
    return found is not None and condition_of(found, "Ready").get("status") == "Unknown"


def _family(view: View, replica_set: JsonObject) -> list[JsonObject]:
    """Return the pods of all ReplicaSets that have the owner of this one."""
    owner = controller_of(replica_set)
    namespace = replica_set["metadata"]["namespace"]
    siblings = view.of_owner(str(owner["uid"]), namespace, "ReplicaSet") if owner else [replica_set]
    return [pod for each in siblings for pod in view.owned_by(each, "Pod")]


def _magnitude(seconds: float) -> int:
    """Return the logarithm of a duration: pods of about one age are chosen by their uid, that is, by chance."""
    return int(math.log2(seconds * _NANOSECONDS)) if seconds > 0 else -1


def _deletion_cost(pod: JsonObject) -> int:
    try:
        return int((pod["metadata"].get("annotations") or {}).get(_COST, 0))
    except ValueError:
        return 0


def _restarts(pod: JsonObject) -> tuple[int, int]:
    """Return the restarts of the container and of the sidecar that were restarted most, both as negative numbers."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {one.get("name") for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    beside = (one for one in status.get("initContainerStatuses") or () if one.get("name") in sidecars)
    return _fewest(status.get("containerStatuses") or ()), _fewest(beside)


def _fewest(statuses: Iterable[JsonObject]) -> int:
    return min((-int(one.get("restartCount") or 0) for one in statuses), default=0)


def _status(view: View, replica_set: JsonObject, active: Sequence[JsonObject], now: float) -> JsonObject:
    spec, old = replica_set["spec"], replica_set.get("status") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    counts = {
        "fullyLabeledReplicas": sum(labels.items() <= (pod["metadata"].get("labels") or {}).items() for pod in active),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(is_available(pod, replica_set, now) for pod in active),
    }
    known = without(old.get("conditions") or (), "ReplicaFailure")
    refusal = view.refusals.get(key_of(replica_set))
    if refusal is not None:
        new = new_condition("ReplicaFailure", "True", refusal.reason, refusal.message, now)
        known = with_condition(old.get("conditions") or (), new)
    return {
        "replicas": len(active),
        **{name: count for name, count in counts.items() if count},
        "observedGeneration": replica_set["metadata"].get("generation", 0),
        **({"conditions": known} if known else {}),
    }
