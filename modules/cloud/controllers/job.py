"""The controller of Jobs: pods until enough of them have succeeded (KCM 1.32, `pkg/controller/job`).

Each pod is counted once, whenever cloudcore is killed: its uid is written into the status (uncountedTerminatedPods),
then its finalizer is removed, then it is counted and its uid taken out.

At an edge, the pods of a node that does not answer stay active: they may be working. `activeDeadlineSeconds` or the
deletion of the Node ends that.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_kind, uid_of
from modules.apimachinery.pods.objects import has_ended, is_active
from modules.apimachinery.times import format_rfc3339, parse_rfc3339
from modules.apimachinery.workload_selectors import matcher_of
from modules.cloud.controllers import job_pods
from modules.cloud.controllers.claims import claimed
from modules.cloud.controllers.conditions import new_condition, with_condition
from modules.cloud.controllers.job_pods import has_failed, has_succeeded, index_of, is_terminating, is_tracked
from modules.cloud.controllers.job_policies import (
    failure_counts,
    failures_of,
    is_index_failed,
    is_of_another,
    is_per_index,
    kept_failures,
    success_of,
    verdict_of,
)
from modules.cloud.controllers.job_status import (
    COMPLETE,
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA,
    SUSPENDED,
    finish_time,
    finished,
    indexes_text,
    read_indexes,
    true_condition,
)
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
from modules.cloud.controllers.pods import by_age
from modules.cloud.controllers.replica_set import MOST_WRITES, creation, deletion, makes_its_own, to_delete
from modules.cloud.controllers.view import View, controller_of

_MOST_UNCOUNTED: Final = 500
_KEPT_ENDED: Final = 1_000
"""Pods of a Job that are kept when they have ended; KCM keeps 12,500 in a cluster (`terminated-pod-gc-threshold`)."""
_ALWAYS: Final = ("ready", "terminating")
"""Numbers that a status has even when they are zero."""


def reconcile(view: View, key: ObjectKey, now: float) -> ReconcilePlan:
    """Return the plan for a Job, or for the pods of a deleted one; without a name for pods without a controller."""
    job = view.find(key)
    if job is not None and is_of_another(job):
        return NOTHING
    if job is None or not (job.get("status") or {}).get("startTime"):
        pods = _pods_of_name(view, key) if key.name else _pods_of_nobody(view, key.namespace)
        writes = job_pods.orphaned(pods, uid_of(job) if job else "")
        if writes or job is None:
            return ReconcilePlan(writes) if writes else NOTHING
    claims = claimed(view, job, "Pod", job_pods.TRACKING)
    if claims.writes:
        return ReconcilePlan(claims.writes)
    end = finished(job)
    if end is not None:
        return _after_end(job, claims.owned, now)
    return _Pass(view, job, claims.owned, now).plan()


def _pods_of_name(view: View, key: ObjectKey) -> list[JsonObject]:
    """Return the pods of all Jobs that have had a name; Jobs that were deleted may have left pods."""
    owners = ((pod, controller_of(pod) or {}) for pod in view.in_namespace("Pod", key.namespace))
    return [pod for pod, owner in owners if (key_kind(owner), owner.get("name")) == ("Job", key.name)]


def _pods_of_nobody(view: View, namespace: str) -> list[JsonObject]:
    """Return the tracked pods without a controller that no Job adopts: their Job was deleted without them."""
    jobs = [one for one in view.in_namespace("Job", namespace) if not is_being_deleted(one)]
    matchers = [matcher_of((one.get("spec") or {}).get("selector")) for one in jobs]
    loose = filter(is_tracked, view.without_controller("Pod", namespace))
    return [pod for pod in loose if not any(matches(pod["metadata"].get("labels") or {}) for matches in matchers)]


def _surplus(pods: Sequence[JsonObject]) -> Sequence[JsonObject]:
    """Return the oldest pods that have ended and are counted, beyond the kept ones."""
    ended = [pod for pod in pods if has_ended(pod) and not is_tracked(pod) and not is_being_deleted(pod)]
    return sorted(ended, key=by_age)[:-_KEPT_ENDED]


def _after_end(job: JsonObject, pods: Sequence[JsonObject], now: float) -> ReconcilePlan:
    """Return the writes for a Job that has ended: its pods are released, surplus ones are deleted, and the
    Job is after its TTL.
    """
    tracked = (job_pods.untracked(pod) for pod in pods if is_tracked(pod))
    writes = (*tracked, *map(deletion, _surplus(pods)[:MOST_WRITES]))
    seconds, ended = job["spec"].get("ttlSecondsAfterFinished"), finish_time(job)
    if writes or not isinstance(seconds, int) or ended is None or is_being_deleted(job):
        return ReconcilePlan(writes)
    if now < ended + seconds:
        return ReconcilePlan(again_at=ended + seconds)
    return ReconcilePlan((delete(job, {"propagationPolicy": "Foreground"}),))


class _Pass:
    """One look at a Job that has not ended."""

    def __init__(self, view: View, job: JsonObject, pods: Sequence[JsonObject], now: float) -> None:
        self._view = view
        self._job = job
        self._spec: JsonObject = job["spec"]
        self._pods = pods
        self._now = now
        self._status: JsonObject = dict(job.get("status") or {})
        self._conditions: Sequence[JsonObject] = self._status.get("conditions") or ()
        self._writes: list[PlannedWrite] = []
        self._note: EventNote | None = None
        self._again: list[float] = []
        self._active = [pod for pod in pods if is_active(pod)]
        self._terminating = [pod for pod in pods if is_terminating(pod)]
        self._is_indexed = self._spec.get("completionMode") == "Indexed"
        self._indexes = read_indexes(str(self._status.get("completedIndexes") or ""), job)
        self._succeeded = self._failed = 0
        self._is_per_index = is_per_index(job)
        self._failed_indexes = read_indexes(str(self._status.get("failedIndexes") or ""), job)
        self._kept: dict[int, JsonObject] = {}
        """The failed pods of indexes that are tried again, which keep their finalizers until then."""

    def plan(self) -> ReconcilePlan:
        self._find_failed_indexes()
        self._count()
        if is_being_deleted(self._job):
            return self._end()
        self._start()
        if self._decide_failure():
            self._delete(self._active)
            self._finish(FAILED)
        elif self._is_enough():
            self._release(self._active)
            self._finish(COMPLETE)
        elif self._spec.get("suspend"):
            self._suspend()
        else:
            self._resume()
            self._manage()
            self._delete(_surplus(self._pods))
        return self._end()

    def _end(self) -> ReconcilePlan:
        numbers = {
            "active": len(self._active),
            "ready": sum(map(is_ready, self._active)),
            "terminating": len(self._terminating),
        }
        status = {**self._status, **numbers, "conditions": list(self._conditions)}
        kept = {name: value for name, value in status.items() if value not in (0, "", None, [], {}) or name in _ALWAYS}
        if self._is_per_index:
            kept["failedIndexes"] = indexes_text(self._failed_indexes)
        if "uncountedTerminatedPods" in self._status:
            kept["uncountedTerminatedPods"] = self._status["uncountedTerminatedPods"]
        write = update_status(self._job, kept, done=self._note)
        return ReconcilePlan(tuple(self._writes), write, again_at=min(self._again, default=None))

    def _find_failed_indexes(self) -> None:
        """Find the indexes that have failed for good, and the pods that tell how often others have."""
        is_deciding = not (true_condition(self._job, FAILURE_TARGET) or true_condition(self._job, SUCCESS_CRITERIA))
        if not self._is_per_index or not is_deciding:
            return
        bound = int(self._spec.get("completions") or 0)
        for pod in self._pods:
            index = index_of(pod)
            if index is not None and index < bound and is_tracked(pod) and has_failed(pod, self._job):
                self._failed_indexes |= {index} if is_index_failed(self._job, pod) else set()
        if is_being_deleted(self._job):
            return
        succeeded = {index for pod in self._pods if has_succeeded(pod) and (index := index_of(pod)) is not None}
        settled = self._failed_indexes | self._indexes | succeeded
        self._kept = kept_failures(self._job, self._pods, settled, self._running_indexes())

    def _running_indexes(self) -> set[int]:
        return {index for pod in self._active if (index := index_of(pod)) is not None}

    def _count(self) -> None:
        """Count the pods that have ended, each once (trackJobStatusAndRemoveFinalizers)."""
        by_uid = {uid_of(pod): pod for pod in self._pods}
        stored = self._status.get("uncountedTerminatedPods") or {}
        listed = {uid for uids in stored.values() for uid in uids}
        uncounted: dict[str, list[str]] = {}
        for field, ended in (("succeeded", has_succeeded), ("failed", lambda pod: has_failed(pod, self._job))):
            counted = int(self._status.get(field) or 0)
            waiting = []
            for uid in stored.get(field) or ():
                pod = by_uid.get(uid)
                if pod is not None and is_tracked(pod):
                    waiting.append(uid)
                    self._writes.append(job_pods.untracked(pod))
                else:
                    counted += 1
            new = [pod for pod in self._pods if is_tracked(pod) and uid_of(pod) not in listed and ended(pod)]
            if field == "succeeded" and self._is_indexed:
                new = self._indexed(new)
            elif field == "failed":
                new = self._counted_failures(new)
            waiting += job_pods.uids(new)[: max(0, _MOST_UNCOUNTED - len(waiting))]
            if waiting:
                uncounted[field] = waiting
            total = counted + len(waiting)
            if field == "failed":
                self._failed = total
            else:
                self._succeeded = len(self._indexes) if self._is_indexed else total
                counted = len(self._indexes) if self._is_indexed else counted
            self._status[field] = counted
        self._status["uncountedTerminatedPods"] = uncounted
        if self._is_indexed:
            self._status["completedIndexes"] = indexes_text(self._indexes)

    def _indexed(self, pods: Sequence[JsonObject]) -> list[JsonObject]:
        """Record the indexes of pods that have succeeded. A pod whose index is in the status already may go."""
        bound = int(self._spec.get("completions") or 0)
        for pod in pods:
            index = index_of(pod)
            if index is None or index in self._indexes or index >= bound:
                self._writes.append(job_pods.untracked(pod))
            else:
                self._indexes.add(index)
        return []

    def _counted_failures(self, pods: Sequence[JsonObject]) -> list[JsonObject]:
        """Return the failed pods that count. The others are let go, as those of indexes that the Job has no more are; a
        pod whose failure count another one takes over waits for that pod.
        """
        bound = int(self._spec.get("completions") or 0) if self._is_indexed else math.inf
        kept = set(job_pods.uids(list(self._kept.values())))
        found = []
        for pod in pods:
            if uid_of(pod) in kept:
                continue
            index = index_of(pod) if self._is_indexed else 0
            is_out = index is None or index >= bound
            if is_out or (has_ended(pod) and not verdict_of(self._job, pod).is_counted):
                self._writes.append(job_pods.untracked(pod))
            else:
                found.append(pod)
        return found

    def _start(self) -> None:
        """Set the Job's start time; the clock of a suspended one stands."""
        if "startTime" not in self._status and not self._spec.get("suspend"):
            self._status["startTime"] = format_rfc3339(self._now)

    def _decide_failure(self) -> bool:
        """Return whether the Job has failed, and set why."""
        if true_condition(self._job, FAILURE_TARGET) is not None:
            return True
        if true_condition(self._job, SUCCESS_CRITERIA) is not None:
            return False
        for pod in self._pods:
            if is_tracked(pod) and has_failed(pod, self._job) and (verdict := verdict_of(self._job, pod)).fails_job:
                return self._fail("PodFailurePolicy", verdict.why)
        limit = int(self._spec.get("backoffLimit", 6))
        restarts = 0
        if ((self._spec.get("template") or {}).get("spec") or {}).get("restartPolicy") == "OnFailure":
            restarts = job_pods.restarts_of([pod for pod in self._pods if not has_ended(pod)])
        if self._failed > limit or (restarts > 0 and restarts >= limit):
            return self._fail("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        seconds, started = self._spec.get("activeDeadlineSeconds"), self._started()
        if isinstance(seconds, int) and started is not None and not self._spec.get("suspend"):
            if self._now >= started + seconds:
                return self._fail("DeadlineExceeded", "Job was active longer than specified deadline")
            self._again.append(started + seconds)
        return self._has_failed_indexes()

    def _has_failed_indexes(self) -> bool:
        """Return whether too many indexes have failed, or the last one, and set it."""
        failed, most = len(self._failed_indexes), self._spec.get("maxFailedIndexes")
        if not self._is_per_index or not failed:
            return False
        if isinstance(most, int) and failed > most:
            why = "Job has exceeded the specified maximal number of failed indexes"
            return self._fail("MaxFailedIndexesExceeded", why)
        if failed + self._succeeded >= int(self._spec.get("completions") or 0):
            return self._fail("FailedIndexes", "Job has failed indexes")
        return False

    def _started(self) -> float | None:
        return parse_rfc3339(str(self._status.get("startTime") or ""))

    def _fail(self, reason: str, message: str) -> bool:
        self._set(FAILURE_TARGET, "True", reason, message)
        return True

    def _is_enough(self) -> bool:
        """Return whether enough pods have succeeded, and set it."""
        if true_condition(self._job, SUCCESS_CRITERIA) is not None:
            return True
        why = success_of(self._job, self._indexes) if self._is_indexed else ""
        if why:
            self._set(SUCCESS_CRITERIA, "True", "SuccessPolicy", why)
            return True
        completions = self._spec.get("completions")
        if isinstance(completions, int):
            is_enough = self._succeeded >= completions
        else:
            is_enough = self._succeeded > 0 and not self._active
        if is_enough:
            self._set(SUCCESS_CRITERIA, "True", "CompletionsReached", "Reached expected number of succeeded pods")
        return is_enough

    def _finish(self, kind: str) -> None:
        """Set the last condition, when all pods have ended and are counted."""
        if self._active or self._terminating or any(self._status["uncountedTerminatedPods"].values()):
            return
        interim = FAILURE_TARGET if kind == FAILED else SUCCESS_CRITERIA
        cause = true_condition(self._job, interim)
        if cause is None:  # the cause is written first, so that nothing else is decided after a restart
            return
        self._set(kind, "True", str(cause.get("reason")), str(cause.get("message")))
        if kind == COMPLETE:
            self._status["completionTime"] = format_rfc3339(self._now)
            self._note = EventNote(NORMAL, "Completed", "Job completed")
        else:
            self._note = EventNote(WARNING, str(cause.get("reason")), str(cause.get("message")))

    def _suspend(self) -> None:
        self._release(self._active)
        if true_condition(self._job, SUSPENDED) is None:
            self._set(SUSPENDED, "True", "JobSuspended", "Job suspended")
            self._note = EventNote(NORMAL, "Suspended", "Job suspended")

    def _resume(self) -> None:
        if true_condition(self._job, SUSPENDED) is not None:
            self._set(SUSPENDED, "False", "JobResumed", "Job resumed")
            self._status["startTime"] = format_rfc3339(self._now)
            self._note = EventNote(NORMAL, "Resumed", "Job resumed")

    def _manage(self) -> None:
        """Make missing pods, or delete surplus ones."""
        parallelism, completions = int(self._spec.get("parallelism", 1)), self._spec.get("completions")
        if isinstance(completions, int):
            wanted = min(parallelism, completions - self._succeeded - len(self._failed_indexes))
        else:
            wanted = len(self._active) if self._succeeded else parallelism
        wanted = max(0, wanted)
        surplus = self._surplus_active(max(0, len(self._active) - wanted))
        if surplus:
            self._release(surplus)
            return
        waits = len(self._terminating) if self._spec.get("podReplacementPolicy") == "Failed" else 0
        missing = min(wanted - len(self._active) - waits, MOST_WRITES)
        if missing <= 0 or not makes_its_own(self._job):
            return
        if self._is_per_index:
            self._make_indexes(missing)
            return
        until = job_pods.pause_ends(self._pods, self._job)
        if self._now < until:
            self._again.append(until)
            return
        if self._is_indexed:
            for index in job_pods.free_indexes(self._job, self._used_indexes(), missing):
                self._make(index)
        else:
            self._writes += [creation(job_pods.pod_for(self._job, None))] * missing

    def _surplus_active(self, number: int) -> list[JsonObject]:
        """Return the pods to delete: those without an index of their own, then as many as are one too many
        (activePodsForRemoval).
        """
        if not number and not self._is_indexed:
            return []
        ordered = to_delete(self._view, self._job, self._active, self._now)
        if self._is_indexed:
            bound = int(self._spec.get("completions") or 0)
            last = {index: uid_of(pod) for pod in ordered if (index := index_of(pod)) is not None and index < bound}
            kept = set(last.values())
            ordered.sort(key=lambda pod: uid_of(pod) in kept)
            number = max(number, len(ordered) - len(kept))
        return ordered[:number]

    def _used_indexes(self) -> set[int]:
        """Return the indexes that get no pod now: they have ended, or a pod, or one that is still to end."""
        taken = self._indexes | self._running_indexes() | self._failed_indexes
        if self._spec.get("podReplacementPolicy") == "Failed":
            taken |= {index for pod in self._terminating if (index := index_of(pod)) is not None}
        return taken

    def _make_indexes(self, most: int) -> None:
        """Make pods for the lowest indexes; each waits after its own failures."""
        taken = self._used_indexes()
        for index, pod in self._kept.items():
            until = job_pods.index_pause_ends(pod, failures_of(pod))
            if self._now < until:
                self._again.append(until)
                taken.add(index)
        for index in job_pods.free_indexes(self._job, taken, most):
            counts = failure_counts(self._job, self._kept.get(index))
            self._make(index, counts)

    def _make(self, index: int, annotations: Mapping[str, str] = MappingProxyType({})) -> None:
        if makes_its_own(self._job, {job_pods.INDEX: str(index)}):
            self._writes.append(creation(job_pods.pod_for(self._job, index, annotations)))

    def _release(self, pods: Sequence[JsonObject]) -> None:
        """Delete pods that are not wanted now; without their finalizers, they count as no failures."""
        for pod in pods[: MOST_WRITES // 2]:
            self._writes += [job_pods.untracked(pod)] if is_tracked(pod) else []
            self._writes.append(deletion(pod))

    def _delete(self, pods: Sequence[JsonObject]) -> None:
        self._writes += map(deletion, pods[:MOST_WRITES])

    def _set(self, kind: str, status: str, reason: str, message: str) -> None:
        new = new_condition(kind, status, reason, message, self._now, "lastProbeTime")
        self._conditions = with_condition(self._conditions, new)
