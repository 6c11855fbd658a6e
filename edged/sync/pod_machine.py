"""The machine of a pod: which effects an event of the pod has (kubelet's podWorkers: UpdatePod, completeWork).

A pod is in one of three states, each with the job that a worker does in it (`PodState`):

| state | begins with | ends with |
|---|---|---|
| SYNC | `AddPod` | a deletionTimestamp of the cloud, `KillPod` |
| TERMINATING | one of these | `RemovePod`: the cloud has deleted the pod |
| TERMINATED | `RemovePod`, or the relist that shows an orphan | `Forget`: nothing of the pod is left |

| event | effects |
|---|---|
| `AddPod` | TakeStatus, UpdateStatus, CorrectStatus, Enqueue; of a pod that is not admitted RecordEnd too |
| `UpdatePod` | the same, without Enqueue after the end of a deleted pod's job; during a removal Hold |
| `ReconcilePod`: an echo of the reported status | TakeStatus, Publish or UpdateStatus, CorrectStatus |
| `RemovePod` | StopStatus, Enqueue |
| `KillPod` (eviction, deadline, rejection, shutdown) | Enqueue, RecordEnd; Kill if the pod is ending already |
| `PodInspection` by the PLEG, if something changed | UpdateStatus, and Enqueue unless a worker has the pod |
| `NotListed`: the first relist does not have the pod | UpdateStatus |
| `HealthChanged`: a probe, a postStart hook or an image pull | UpdateStatus, Enqueue |
| `DependencyChanged`: a configmap or secret of the pod | Enqueue |
| `RetryPod`: the cause of failures may be gone | Enqueue |
| `WorkCompleted` | RecordBackOff, UpdateStatus |
| `Requeue` after a job without error | Enqueue, EnqueueAfter, DeletePod, Publish or Forget |
| `Requeue` after a job with an error | RetryAfter |

The machine is pure: `step` changes the record and nothing else, and returns the effects as data; the sync loop carries
them out, and none of them steps the same record again.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from edged.pleg.messages import PodInspection
from edged.pod_workers.errors import StartError
from edged.pod_workers.job import DeliveredObject, Done, Job, ObjectKey, Queue, queue_of
from edged.pods.actions import PodActions, compute_pod_actions
from edged.pods.backoff import BackOffs
from edged.pods.effective_grace_period import grace_seconds
from edged.pods.kill_options import KillCause, KillOptions, KillPod
from edged.pods.manager import PodRecord
from edged.pods.model import HookFacts, PodFacts, PodRef, PodState, ProbeFacts
from edged.pods.pod_status.status import crash_loop
from edged.pods.restart import is_terminal
from modules.apimachinery.types import ContainerStateWaiting, Nanoseconds, Pod

MAX_IMMEDIATE_SYNCS = 20
"""Syncs that a pod may have one right after the other: init containers that end immediately need one each."""
FIRST_RETRY = 2.0
"""Seconds until the first retry of a job that failed; doubles (KubeEdge begins with 10 s)."""
LONGEST_RETRY = 300.0
"""Upper limit of that delay in seconds (KubeEdge's MaxContainerBackOff)."""
RESYNC_JITTER = 0.5
"""Largest random delay of a resync, as a part of its period."""

_EARLY = 0.1
"""Seconds before its time that a retry counts as due."""


class SyncFacts(Struct, frozen=True):
    """The time, and facts about a pod beside its record."""

    monotonic: float
    """Seconds."""
    wall: Nanoseconds
    probes: ProbeFacts
    hooks: HookFacts
    backoffs: BackOffs
    relist_period: float
    """Seconds."""
    resync_period: float
    """Seconds."""
    is_working: bool = False
    """Whether a worker has the pod."""
    is_held: bool = False
    """Whether a pod is held until this one is removed."""


class Retry(msgspec.Struct, frozen=True):
    """The next attempt of a job that failed."""

    delay: float
    """Seconds from the failed job to the retry."""
    at: float
    """Time of the retry, in seconds of the monotonic clock."""


class _Plan(msgspec.Struct, frozen=True):
    """The next actions of a pod, and the facts that they were computed from."""

    pod: Pod
    facts: PodFacts
    probes: ProbeFacts
    hooks: HookFacts
    is_on_hold: bool
    actions: PodActions

    def is_valid(self, pod: PodRecord, now: SyncFacts) -> bool:
        """Return whether the actions would be computed again from the same facts. A wait depends on the time too."""
        return (
            not self.actions.waiting
            and self.pod.spec is pod.pod.spec
            and self.pod.metadata is pod.pod.metadata
            and is_terminal(self.pod) == is_terminal(pod.pod)
            and self.probes == now.probes
            and self.hooks == now.hooks
            and self.is_on_hold is pod.is_on_hold
            and self.facts == pod.facts
        )


class PodSyncRecord(Struct):
    """A pod that pod workers know (kubelet's podSyncStatus)."""

    ref: PodRef
    pod: PodRecord | None = None
    """The pod; None for an orphan, whose pod is no longer known."""
    retry: Retry | None = None
    """The retry of the last job, if that failed."""
    immediate_syncs: int = 0
    """Syncs that followed one right after the other."""
    plan: _Plan | None = None
    """The next actions, once computed; None after a job that changed something."""
    delivered: dict[ObjectKey, DeliveredObject] = {}
    """Configmaps and secrets of the pod that messages have brought since its last job."""
    known: PodFacts | None = None
    """What the runtime has of the pod: nothing by a relist before its first job; after the job that stopped everything,
    what that job has read. None when the next job has to read it.
    """

    @property
    def is_being_removed(self) -> bool:
        """Whether everything of the pod is being removed from the node."""
        return self.pod is None or self.pod.deleted

    def next_actions(self, pod: PodRecord, now: SyncFacts) -> PodActions:
        """Return the actions of a worker if it synced the pod now. They are computed once for a job: after it, or by
        the event that queues it.
        """
        if self.plan is None or not self.plan.is_valid(pod, now):
            is_on_hold, actions = pod.is_on_hold, PodActions()
            if not is_on_hold:
                actions = compute_pod_actions(pod.pod, pod.facts, now.wall, now.backoffs, now.probes, now.hooks)
            self.plan = _Plan(pod.pod, pod.facts, now.probes, now.hooks, is_on_hold, actions)
        return self.plan.actions


def next_job(record: PodSyncRecord, now: SyncFacts) -> Job:
    """Return the job of a pod. It is made when a worker is free, so that it has the newest facts, and takes the
    delivered objects of the record: should the job fail, the next one requests them.
    """
    pod = record.pod
    if pod is None:
        return Job(PodState.TERMINATED, record.ref)
    delivered, record.delivered = record.delivered, {}
    plan = record.plan if record.plan is not None and record.plan.is_valid(pod, now) else None
    return Job(
        pod.state,
        pod.ref,
        pod.terminating_pod,
        now.probes,
        now.hooks,
        pod.replaced,
        pod.deleted and not pod.deletion_stored,
        None if plan is None else (plan.facts, plan.actions),
        delivered,
        pod.is_on_hold,
        record.known,
    )


# Events


class AddPod(Struct, frozen=True, gc=False):
    """A source has a pod that was not known."""

    pod: Pod
    rejection: KillOptions | None = None
    """Why the node does not run the pod (kubelet's canAdmitPod)."""


class UpdatePod(Struct, frozen=True, gc=False):
    """A source has another state of a pod that is known, or a pod that is being removed."""

    pod: Pod
    is_stored: bool = True
    """Whether this state is in the store."""
    rejection: KillOptions | None = None
    """Why the node runs the pod no longer."""


class ReconcilePod(Struct, frozen=True, gc=False):
    """A source has a known pod with another status (kubelet's RECONCILE): the echo of the status that was reported, or
    conditions of others.
    """

    pod: Pod


class RemovePod(Struct, frozen=True, gc=False):
    """The cloud has deleted the pod for good."""

    grace_period: int | None = None
    """Seconds, if the deletion states them: 0 of a forced deletion."""
    is_stored: bool = True
    """Whether the deletion is in the store."""


class NotListed(Struct, frozen=True, gc=False):
    """A relist shows nothing of the pod."""

    at: float
    """When the relist began, in monotonic seconds."""


class HealthChanged(Struct, frozen=True, gc=False):
    """A probe has another result, or a postStart hook or an image pull has ended."""


class DependencyChanged(Struct, frozen=True, gc=False):
    """A configmap or secret of the pod has changed."""

    key: ObjectKey
    delivered: DeliveredObject | None = None
    """The object; None when the message does not have it."""


class RetryPod(Struct, frozen=True, gc=False):
    """The cause of the pod's failures may be gone."""


class WorkCompleted(Struct, frozen=True, gc=False):
    """A worker has finished a job of the pod (kubelet's completeWork)."""

    done: Done


class Requeue(Struct, frozen=True, gc=False):
    """The result of a finished job is in the status of the pod: what is next?"""

    done: Done


PodEvent = (
    AddPod
    | UpdatePod
    | ReconcilePod
    | RemovePod
    | KillPod
    | PodInspection
    | NotListed
    | HealthChanged
    | DependencyChanged
    | RetryPod
    | WorkCompleted
    | Requeue
)


# Effects


class SetCloudStatus(Struct, frozen=True, gc=False):
    """Note the status that the cloud has of the pod."""

    pod: Pod


class UpdateStatus(Struct, frozen=True, gc=False):
    """Generate the status of the pod, and set its probes and its deadline."""

    is_final: bool = False
    """Whether the facts count although a worker has the pod: the worker has just read them."""


class Publish(Struct, frozen=True, gc=False):
    """Publish the pods for the local HTTP server."""


class CorrectStatus(Struct, frozen=True, gc=False):
    """Send the status again if the cloud has another one."""


class StopStatus(Struct, frozen=True, gc=False):
    """Report nothing more of the pod, and end its probes."""


class DeletePod(Struct, frozen=True, gc=False):
    """Delete the pod in the cloud: nothing of it still runs (kubelet's TerminatePod)."""


class Enqueue(Struct, frozen=True, gc=False):
    """Queue the pod for a worker, in its `queue_for` the next job."""


class EnqueueAfter(Struct, frozen=True, gc=False):
    """Queue the pod for a sync when so many seconds have passed."""

    seconds: float
    jitter: float = 0.0
    """Largest part of the seconds that is added at random."""


class RetryAfter(Struct, frozen=True, gc=False):
    """Queue the pod again after a job that failed."""

    queue: Queue
    seconds: float
    error: Exception


class Kill(Struct, frozen=True, gc=False):
    """End the waits for the pod's postStart hooks, and limit its grace periods to so many seconds from now."""

    grace_period: int


class RecordEnd(Struct, frozen=True, gc=False):
    """Record the event that the node ends the pod."""

    event: KillPod


class RecordBackOff(Struct, frozen=True, gc=False):
    """Record the event that a container waits for its restart."""

    container: str


class Hold(Struct, frozen=True, gc=False):
    """Hold a pod until the pod of its uid is removed from the node."""

    pod: Pod
    is_stored: bool = True
    """Whether this state is in the store."""


class Forget(Struct, frozen=True, gc=False):
    """Forget the pod, which is removed from the node. A pod that was held for that begins."""


Effect = (
    SetCloudStatus
    | UpdateStatus
    | Publish
    | CorrectStatus
    | StopStatus
    | DeletePod
    | Enqueue
    | EnqueueAfter
    | RetryAfter
    | Kill
    | RecordEnd
    | RecordBackOff
    | Hold
    | Forget
)


def step(record: PodSyncRecord, event: PodEvent, now: SyncFacts) -> tuple[Effect, ...]:
    """Take an event of a pod into its record, and return the effects, in the order in which they are carried out.

    Changes nothing but the record, and reads no clock: the same arguments have the same effects.

        record = PodSyncRecord(ref, PodRecord(pod, PodFacts(ref)))
        step(record, HealthChanged(), now)  # (UpdateStatus(), Enqueue())
    """
    pod = record.pod
    match event:
        case WorkCompleted(done):
            return () if pod is None else _complete_work(record, pod, done, now)
        case Requeue(done):
            return _requeue(record, done, now)
        case UpdatePod() if record.is_being_removed:
            hold = Hold(event.pod, event.is_stored)
            return (hold,) if pod is None or pod.deletion_stored else (hold, *_enqueue(pod))
        case RetryPod():
            record.retry = None
            return () if pod is None else _enqueue(pod)
        case _:
            return () if pod is None else _step_of_pod(record, pod, event, now)


def queue_for(record: PodSyncRecord, now: SyncFacts) -> Queue:
    """Return the queue for the next job of a pod. A job that stops containers may take their grace period: it gets a
    worker of its own.
    """
    pod = record.pod
    if pod is None:
        return queue_of(PodState.TERMINATED)
    if pod.termination_requested:
        return queue_of(pod.state)
    runs = any(container.running for container in pod.facts.containers)
    return queue_of(pod.state) if runs and record.next_actions(pod, now).stops else Queue.ADDITION


def _step_of_pod(record: PodSyncRecord, pod: PodRecord, event: PodEvent, now: SyncFacts) -> tuple[Effect, ...]:
    match event:
        case AddPod(new, rejection):
            return (SetCloudStatus(new), *_reject(pod, rejection), UpdateStatus(), CorrectStatus(), *_enqueue(pod))
        case UpdatePod(new, _, rejection):
            is_done = pod.terminated and pod.deletion_requested and record.retry is None
            pod.update(new)
            effects = (SetCloudStatus(new), *_reject(pod, rejection), UpdateStatus(), CorrectStatus())
            return effects if is_done else (*effects, *_enqueue(pod))
        case ReconcilePod(new):
            before = pod.pod.status
            pod.update(new)
            return (SetCloudStatus(new), Publish() if pod.pod.status == before else UpdateStatus(), CorrectStatus())
        case RemovePod(grace_period, is_stored):
            pod.delete(grace_period, is_stored=is_stored)
            return (StopStatus(), *_enqueue(pod))
        case KillPod():
            return _kill_pod(pod, event)
        case PodInspection(facts, at):
            record.known = None
            if not pod.observe(facts, at):
                return ()
            return (UpdateStatus(),) if now.is_working else (UpdateStatus(), *_enqueue(pod))
        case NotListed(at):
            pod.observe(pod.facts, at)
            return (UpdateStatus(),)
        case HealthChanged():
            return (UpdateStatus(), *_enqueue(pod))
        case DependencyChanged(key, delivered) if not pod.termination_requested:
            record.delivered.pop(key, None)
            if delivered is not None:
                record.delivered[key] = delivered
            return _enqueue(pod)
    return ()


def _enqueue(pod: PodRecord) -> tuple[Effect, ...]:
    if pod.termination_requested:
        return (Kill(grace_seconds(pod.terminating_pod)), Enqueue())
    return (Enqueue(),)


def _reject(pod: PodRecord, rejection: KillOptions | None) -> tuple[Effect, ...]:
    """End a pod that the node does not run."""
    if rejection is None or not pod.may_be_killed:
        return ()
    pod.kill(rejection)
    return (RecordEnd(KillPod(pod.ref.uid, rejection, KillCause.REJECTION)),)


def _kill_pod(pod: PodRecord, event: KillPod) -> tuple[Effect, ...]:
    """End a pod for good. For a pod that has ended or is ending the first options stand; `shortens` limits the grace
    period of a pod that is ending.
    """
    options = event.options
    if pod.may_be_killed:
        pod.kill(options)
        return (*_enqueue(pod), RecordEnd(event))
    if event.shortens and options.grace_period is not None and not pod.has_terminated:
        return (Kill(options.grace_period),)
    return ()


def _complete_work(record: PodSyncRecord, pod: PodRecord, done: Done, now: SyncFacts) -> tuple[Effect, ...]:
    if not done.unchanged:
        record.plan = None
    record.known = done.facts if done.terminated else None
    if done.facts is not None:
        pod.synced(done.facts, done.facts_at, done.replaced)
    waits = _restart_waits(record, pod, now) if done.job.state is PodState.SYNC else {}
    begun = [RecordBackOff(name) for name, reason in waits.items() if pod.waiting_reasons.get(name) != reason]
    pod.wait({**waits, **done.waiting_reasons})
    if done.terminated and pod.termination_requested:
        pod.terminate()
    return (*begun, UpdateStatus(is_final=True))


def _requeue(record: PodSyncRecord, done: Done, now: SyncFacts) -> tuple[Effect, ...]:
    pod = record.pod
    if done.kill_options is not None:
        return () if pod is None else _kill_pod(pod, KillPod(record.ref.uid, done.kill_options))
    if done.error is not None:
        return (_retry(record, done, done.error, now),)
    return _continue(record, done, now)


def _restart_waits(record: PodSyncRecord, pod: PodRecord, now: SyncFacts) -> Mapping[str, ContainerStateWaiting]:
    """Return the containers that wait for their restart, by name."""
    waiting = record.next_actions(pod, now).waiting
    return {wait.container.name: crash_loop(pod.ref, wait) for wait in waiting}


def _continue(record: PodSyncRecord, done: Done, now: SyncFacts) -> tuple[Effect, ...]:
    """Queue a pod again after a job without error. A job that only waits does not show whether the cause of the last
    failure is gone, so the retry delay keeps growing.
    """
    pod = record.pod
    if not done.pending:
        record.retry = None
    if done.job.state is PodState.TERMINATED:
        if pod is None or not done.job.keeps_last or now.is_held:
            return (Forget(),)
        pod.end()
        return (Publish(),)
    if pod is None:
        return ()
    if done.job.state is PodState.TERMINATING:
        return (DeletePod(),) if pod.deletion_requested else ()
    if done.pending:
        record.immediate_syncs = 0
        return (EnqueueAfter(min(now.resync_period, _seconds_until_others_due(record, pod, done, now))),)
    return () if pod.finished else _sync_again(record, pod, now)


def _sync_again(record: PodSyncRecord, pod: PodRecord, now: SyncFacts) -> tuple[Effect, ...]:
    """Queue a pod after a successful sync: immediately when its result asks for a next step (an init container has
    ended). A runtime whose answers do not match its actions would cause next steps for ever: after
    `MAX_IMMEDIATE_SYNCS` the pod gets one every relist period.
    """
    actions = record.next_actions(pod, now)
    if not actions.nothing:
        record.immediate_syncs += 1
        return (EnqueueAfter(now.relist_period),) if record.immediate_syncs > MAX_IMMEDIATE_SYNCS else _enqueue(pod)
    record.immediate_syncs = 0
    if actions.next_try is not None:
        return (EnqueueAfter(_seconds_until(actions.next_try, now)),)
    return (EnqueueAfter(now.resync_period, RESYNC_JITTER),)


def _retry(record: PodSyncRecord, done: Done, error: Exception, now: SyncFacts) -> RetryAfter:
    """Retry a job that failed: the delay doubles until one succeeds."""
    pod, state = record.pod, done.job.state
    delay = _next_retry(record, now) if done.retry_at is None else max(0.0, done.retry_at - now.monotonic)
    if state is PodState.SYNC and pod is not None:
        delay = min(delay, _seconds_until_others_due(record, pod, done, now))
    return RetryAfter(Queue.ADDITION if state is PodState.SYNC else queue_of(state), delay, error)


def _next_retry(record: PodSyncRecord, now: SyncFacts) -> float:
    """Return the seconds until the next retry, and note it. A job that failed before its retry was due was run for
    another reason, such as a configmap that has arrived: its retry stays where it is.
    """
    before = record.retry
    if before is not None and before.at - now.monotonic > _EARLY:
        return before.at - now.monotonic
    delay = FIRST_RETRY if before is None else min(LONGEST_RETRY, before.delay * 2)
    record.retry = Retry(delay, now.monotonic + delay)
    return delay


def _seconds_until_others_due(record: PodSyncRecord, pod: PodRecord, done: Done, now: SyncFacts) -> float:
    """Return the seconds until another container of the pod is due: it waits for its own back-off, not for another
    container's image. A container that ended during the job is due, and no event reports that again.
    """
    actions = record.next_actions(pod, now)
    ended = [start for start in actions.starts if start.after is not None]
    if isinstance(done.error, StartError) and any(start.container.name not in done.waiting_reasons for start in ended):
        return now.relist_period
    return float("inf") if actions.next_try is None else _seconds_until(actions.next_try, now)


def _seconds_until(at: Nanoseconds, now: SyncFacts) -> float:
    return (at - now.wall) / 1e9
