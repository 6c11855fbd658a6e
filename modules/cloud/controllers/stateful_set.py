"""The controller of StatefulSets: pods with an identity, in order (KCM 1.32, `pkg/controller/statefulset`).

There are never two pods of one identity: a pod on a node that does not answer is not replaced until the node is back,
or its Node or the pod itself is deleted for good. Unlike in kube-controller-manager, a pod of a broken template that
was never ready is replaced when a good template follows.
"""

from collections.abc import Sequence

import msgspec

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted
from modules.apimachinery.pods.objects import has_ended, node_of, phase_of
from modules.cloud.controllers.claims import claimed
from modules.cloud.controllers.conditions import kept
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
from modules.cloud.controllers.pods import available_later, is_available, was_ready_once
from modules.cloud.controllers.replica_set import FAILED_CREATE, MOST_WRITES, is_unreachable, makes_its_own
from modules.cloud.controllers.revisions import HASH, Revisions, hash_of, is_of, revisions_of, surplus
from modules.cloud.controllers.stateful_pods import (
    identity,
    missing_claims,
    ordinal_of,
    pod_for,
    retention_writes,
    waits_for_former,
)
from modules.cloud.controllers.view import View


def reconcile(view: View, key: ObjectKey, now: float) -> ReconcilePlan:
    """Return the plan for a StatefulSet."""
    workload = view.find(key)
    if workload is None:
        return NOTHING
    claims = claimed(view, workload, "Pod", may_be=lambda pod: ordinal_of(pod, workload) is not None)
    if claims.writes:
        return ReconcilePlan(claims.writes)
    revisions = revisions_of(view, workload)
    if revisions.writes and not is_being_deleted(workload):
        return ReconcilePlan(revisions.writes)
    return _Pass(view, workload, claims.owned, revisions, now).plan()


class _Pass:
    """One look at a StatefulSet."""

    def __init__(
        self, view: View, workload: JsonObject, pods: Sequence[JsonObject], revisions: Revisions, now: float
    ) -> None:
        self._view = view
        self._workload = workload
        self._spec: JsonObject = workload["spec"]
        self._revisions = revisions
        self._now = now
        self._pods = {ordinal: pod for pod in pods if (ordinal := ordinal_of(pod, workload)) is not None}
        first = int((self._spec.get("ordinals") or {}).get("start") or 0)
        self._wanted = range(first, first + int(self._spec.get("replicas", 1)))
        self._status: JsonObject = workload.get("status") or {}
        self._is_parallel = self._spec.get("podManagementPolicy") == "Parallel"

    def plan(self) -> ReconcilePlan:
        writes: tuple[PlannedWrite, ...] = ()
        present = self._revisions.present
        if present is not None and not is_being_deleted(self._workload) and self._makes_its_own(self._spec, present):
            writes = tuple(retention_writes(self._view, self._workload, self._pods.values(), self._wanted))
            writes = writes or tuple(self._next())
            if not writes:
                kept = (one for one in self._revisions.old if any(is_of(pod, one) for pod in self._pods.values()))
                used = {hash_of(one) for one in (*kept, self._current())}
                writes = surplus(self._workload, self._revisions, used)
        moments = available_later(self._pods.values(), self._workload, self._now)
        write = update_status(self._workload, self._new_status())
        return ReconcilePlan(writes, write, again_at=min(moments, default=None))

    def _makes_its_own(self, spec: JsonObject, revision: JsonObject) -> bool:
        return makes_its_own({**self._workload, "spec": spec}, {HASH: str(revision["metadata"]["name"])})

    def _next(self) -> list[PlannedWrite]:
        """Return the writes that are due: creations upwards, then deletions downwards, then the rollout."""
        found: list[PlannedWrite] = []
        for ordinal in self._wanted:
            pod = self._pods.get(ordinal)
            if pod is None:
                found += [] if waits_for_former(self._view, self._workload, ordinal) else self._made(ordinal)
            elif (has_ended(pod) and not is_being_deleted(pod)) or self._is_broken(pod):
                found.append(self._deleted(pod))
            elif phase_of(pod) == "Pending" and not is_being_deleted(pod):
                found += missing_claims(self._view, self._workload, ordinal)  # somebody may have deleted one
            elif self._is_healthy(pod) or self._is_parallel:
                found += self._identified(pod)
                continue
            if not self._is_parallel or len(found) >= MOST_WRITES:
                return found
        surplus_pods = [
            self._pods[ordinal] for ordinal in sorted(self._pods, reverse=True) if ordinal not in self._wanted
        ]
        for place, pod in enumerate(surplus_pods):
            is_blocked = not self._is_healthy(pod) and not all(map(self._is_healthy, surplus_pods[place + 1 :]))
            if not is_being_deleted(pod) and (self._is_parallel or not is_blocked):
                found.append(self._deleted(pod))
            if not self._is_parallel:
                return found
        return found or self._rolled()

    def _rolled(self) -> list[PlannedWrite]:
        """RollingUpdate: from the highest ordinal down to the partition, one at a time."""
        strategy = self._spec.get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return []
        for ordinal in reversed(self._wanted):
            pod = self._pods.get(ordinal)
            if pod is None or ordinal < self._partition():
                return []
            if not self._is_updated(pod) and not is_being_deleted(pod):
                return [self._deleted(pod)]
            if not self._is_healthy(pod):
                return []
        return []

    def _partition(self) -> int:
        rolling = (self._spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
        return self._wanted.start + int(rolling.get("partition") or 0)

    def _current(self) -> JsonObject:
        """Return the revision of pods below the partition: the one before the rollout."""
        name = self._status.get("currentRevision")
        known = [one for one in self._revisions.old if one["metadata"]["name"] == name]
        present = self._revisions.present or {"metadata": {}}
        return known[0] if known else present

    def _made(self, ordinal: int) -> list[PlannedWrite]:
        is_old = (self._spec.get("updateStrategy") or {}).get("type") != "OnDelete" and ordinal < self._partition()
        revision = self._current() if is_old else self._revisions.present or {}
        template = {name: value for name, value in revision["data"]["spec"]["template"].items() if name != "$patch"}
        if not self._makes_its_own({**self._spec, "template": template}, revision):
            return []
        pod = pod_for(self._workload, template, ordinal, str(revision["metadata"]["name"]))
        name = f"{pod['metadata']['name']} in StatefulSet {self._workload['metadata']['name']}"
        made = EventNote(NORMAL, "SuccessfulCreate", f"create Pod {name} successful")
        refused = EventNote(WARNING, FAILED_CREATE, f"create Pod {name} failed error: {{why}}")
        claims = missing_claims(self._view, self._workload, ordinal)
        return [*claims, create(pod, done=made, refused=refused, counts_as=FAILED_CREATE)]

    def _deleted(self, pod: JsonObject) -> PlannedWrite:
        name = f"{pod['metadata']['name']} in StatefulSet {self._workload['metadata']['name']}"
        return delete(pod, done=EventNote(NORMAL, "SuccessfulDelete", f"delete Pod {name} successful"))

    def _identified(self, pod: JsonObject) -> list[PlannedWrite]:
        """Return the write that brings back the labels by which a pod, such as an adopted one, is known to Services."""
        name = f"{pod['metadata']['name']} in StatefulSet {self._workload['metadata']['name']}"
        done = EventNote(NORMAL, "SuccessfulUpdate", f"update Pod {name} successful")
        write = None if is_being_deleted(pod) else identity(pod)
        return [] if write is None else [msgspec.structs.replace(write, done=done)]

    def _is_broken(self, pod: JsonObject) -> bool:
        """Return whether a pod of another template than the present one is to be updated, and was never ready, as its
        node reports. One that was keeps the rollout waiting.
        """
        is_rolling = (self._spec.get("updateStrategy") or {}).get("type") != "OnDelete"
        ordinal = ordinal_of(pod, self._workload)
        is_old = not self._is_updated(pod) and ordinal is not None and ordinal >= self._partition()
        is_unready = not is_ready(pod) and not was_ready_once(pod) and not is_unreachable(self._view, node_of(pod))
        return is_rolling and is_old and is_unready and not is_being_deleted(pod)

    def _is_updated(self, pod: JsonObject) -> bool:
        return is_of(pod, self._revisions.present)

    def _is_healthy(self, pod: JsonObject) -> bool:
        return not is_being_deleted(pod) and is_available(pod, self._workload, self._now)

    def _new_status(self) -> JsonObject:
        pods = self._pods.values()
        staying = [pod for pod in pods if not is_being_deleted(pod)]
        update, current = self._revisions.present, self._current()
        updated, ready = sum(map(self._is_updated, staying)), sum(map(is_ready, pods))
        is_rolling = (self._spec.get("updateStrategy") or {}).get("type") != "OnDelete"
        if is_rolling and updated == ready == len(pods) == len(self._wanted) and update is not None:
            current = update
        counts = {
            "readyReplicas": ready,
            "currentReplicas": sum(is_of(pod, current) for pod in staying),
            "updatedReplicas": updated,
        }
        names = {"currentRevision": current, "updateRevision": update or {"metadata": {}}}
        return {
            "observedGeneration": self._workload["metadata"].get("generation", 0),
            "replicas": len(pods),
            "availableReplicas": sum(is_available(pod, self._workload, self._now) for pod in pods),
            **{name: count for name, count in counts.items() if count},
            **{name: of["metadata"]["name"] for name, of in names.items() if of["metadata"].get("name")},
            "collisionCount": self._revisions.collisions,
            **kept(self._status),
        }
