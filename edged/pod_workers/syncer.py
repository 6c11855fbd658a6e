"""PodSyncer: carries out the jobs of pods, one job of a pod at a time."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from beehive import Clock
from edged.cri.contract import ContainerId
from edged.cri.errors import CriError, UnavailableError
from edged.errors import AllocationRefusedError
from edged.events.pods import PodEvents
from edged.events.reasons import Reason
from edged.lifecycle.hooks import HookTarget
from edged.lifecycle.pod_lifecycle import PodLifecycle
from edged.pleg.reader import RuntimeReader
from edged.pod_workers.container_killer import ContainerKiller
from edged.pod_workers.errors import POD_FAILURES, ContainerStartError, ImagePendingError, StartError
from edged.pod_workers.job import Done, Job
from edged.pod_workers.pod_objects import PodObjects
from edged.pod_workers.pod_resources import PodResources
from edged.pod_workers.pruner import PodPruner
from edged.pod_workers.start_containers import ContainerStarter, StartContext
from edged.pods.actions import ContainerKill, ContainerStart, PodActions, compute_pod_actions
from edged.pods.backoff import BackOffs, container_key
from edged.pods.hold import has_begun
from edged.pods.kill_options import KillOptions
from edged.pods.labels import ref_of
from edged.pods.model import PodFacts, PodState, PodUid, SandboxId, with_replaced
from edged.pods.pod_status.container_status import CREATING, INITIALIZING
from edged.pods.pod_status.status import POST_START_ERROR
from edged.pods.restart import is_terminal
from edged.pods.unhealthy import KillReason
from edged.probes.targets import pod_address
from modules.apimachinery.types import ContainerStateWaiting, Nanoseconds, Pod

_log = logging.getLogger(__name__)

WaitingReasons = dict[str, ContainerStateWaiting]
"""Why containers could not be started, by name."""


class _Progress(Struct):
    """The results of a job so far."""

    waiting_reasons: WaitingReasons = {}
    replaced: set[ContainerId] = set()
    pending: bool = False
    terminated: bool = False
    removed: bool = False
    """Whether the runtime has nothing of the pod any more."""
    told: bool = False
    """Whether an Event tells why the job failed."""
    inspected: tuple[float, PodFacts] | None = None
    """When the pod was read, in monotonic seconds, and its facts, if nothing had to change."""
    found: PodFacts | None = None
    """What the runtime had of the pod before the job, if all that it has now is known."""
    sandbox: SandboxId = SandboxId("")
    """The sandbox that the job has made or used."""
    made: list[ContainerId] = []
    """The containers that the job has started in it."""


class ContainerParts(Struct, frozen=True):
    """The parts that start, kill and remove containers."""

    starter: ContainerStarter
    killer: ContainerKiller
    pruner: PodPruner


class PodSyncer:
    """The syncer that carries out jobs, in kubelet's order: the only place where edged starts and stops containers.

    A job begins by reading the pod from the runtime unless it is known, so that it acts on the present state; one that
    ends the pod reads the lists only. It ends by reading the pod again, so that its result is reported immediately:
    without the lists, unless it failed. The second reading is left out if the job had nothing to do, as most syncs,
    which come every minute (kubelet's syncFrequency), or has removed the pod. `edged.pods` decides on the steps. Used
    by several workers at once, by each for another pod.

    Args:
        clock: the current time.
        reader: reads pods from the container runtime.
        containers: start, kill and remove containers.
        resources: directories, control groups, devices and objects of pods.
        lifecycle: postStart hooks, and waits that end with the pod.
        backoffs: delays of containers that keep ending; a pod's entries are changed only by the worker that has it.
        events: records the steps.
        noticed_end: see `Host`.
    """

    def __init__(
        self,
        clock: Clock,
        reader: RuntimeReader,
        containers: ContainerParts,
        resources: PodResources,
        lifecycle: PodLifecycle,
        backoffs: BackOffs,
        events: PodEvents,
        *,
        noticed_end: Callable[[PodUid, bool], bool],
    ) -> None:
        self._clock = clock
        self._reader = reader
        self._starter = containers.starter
        self._killer = containers.killer
        self._pruner = containers.pruner
        self._resources = resources
        self._lifecycle = lifecycle
        self._backoffs = backoffs
        self._events = events
        self._noticed_end = noticed_end

    def sync(self, job: Job) -> Done:
        """Carry out a job, and read the pod after it.

        Never raises: an error of one pod, even a bug, would otherwise end edged again and again, and with it all other
        pods.
        """
        progress = _Progress()
        error: Exception | None = None
        kill_options: KillOptions | None = None
        try:
            if job.state is PodState.SYNC and job.pod is not None:
                progress.pending = self.sync_pod(job, job.pod, progress)
            elif job.state is PodState.TERMINATING and job.pod is not None:
                self.sync_terminating_pod(job, job.pod, progress)
            else:
                self.sync_terminated_pod(job, progress)
        except AllocationRefusedError as refusal:
            kill_options = self._refuse(job, refusal)
        except POD_FAILURES as failure:
            error = failure
            # a container has its own event, and the node one of a runtime that is away
            if job.pod is not None and not (progress.told or isinstance(failure, StartError | UnavailableError)):
                self._events.not_synced(job.pod, failure)
        except Exception as failure:  # noqa: BLE001 - see above
            _log.exception("%s of pod %s failed unexpectedly", job.state.value, job.ref)
            error = failure
            if job.pod is not None:
                self._events.sync_failed(job.pod, failure)
        if error is not None:
            progress.inspected = progress.found = None
        inspected = progress.inspected
        at, facts = inspected or (self._clock.monotonic(), PodFacts(job.ref) if progress.removed else None)
        return Done(
            job,
            self._final_facts(job, facts, progress),
            at,
            progress.waiting_reasons,
            error,
            progress.pending,
            error.retry_at if isinstance(error, StartError) else None,
            frozenset(progress.replaced),
            kill_options,
            terminated=progress.terminated,
            unchanged=inspected is not None,
        )

    def sync_pod(self, job: Job, pod: Pod, progress: _Progress) -> bool:
        """Make a pod run as its spec wants; return whether something is under way whose end queues the pod again.

        Containers that are replaced are noted before they are stopped, for the answer may be lost.
        """
        at, found = self._clock.monotonic(), job.known or self._reader.read_pod(job.ref)
        progress.found = found
        facts = with_replaced(found, job.replaced)
        self._lifecycle.post_start_hooks.keep_only(job.ref.uid, {c.id for c in facts.containers if c.running})
        pending = False
        if job.plan is not None and job.plan[0] == facts:
            actions = job.plan[1]  # planned with the same facts of the runtime
        elif job.is_on_hold and not has_begun(facts):
            actions = PodActions()
        else:
            actions = compute_pod_actions(pod, facts, self._now(), self._backoffs, job.probes, job.hooks)
        if actions.nothing:
            progress.inspected = at, found
        if actions.kill_pod and actions.create_sandbox:
            self._events.sandbox_changed(pod)
        if actions.kill_pod:
            self._kill_pod(pod, facts, progress)
        progress.replaced |= {k.container.id for k in actions.kill if k.reason is KillReason.DEFINITION_CHANGED}
        self._killer.kill_containers(pod, actions.kill)
        failures = _failed_hooks(job, actions.kill)
        progress.waiting_reasons.update({failure.container: failure.waiting for failure in failures})
        if self._noticed_end(job.ref.uid, self._lifecycle.waits.is_terminating(job.ref.uid)):
            return False
        if is_terminal(pod) or (actions.sandbox is None and not actions.create_sandbox):
            self._resources.release(job.ref)
        else:
            pending = self._update_resources(job, pod, facts, actions, progress)
        if failures:
            raise failures[0]
        return pending

    def sync_terminating_pod(self, job: Job, pod: Pod, progress: _Progress) -> None:
        """Stop everything that runs of a pod within its grace period, and release its resources. Files and dead
        containers stay, for status and logs.
        """
        found = job.known or self._reader.list_pod(job.ref)
        self._kill_pod(pod, found, progress)
        progress.found, progress.terminated = found, True
        self._resources.release(job.ref)

    def sync_terminated_pod(self, job: Job, progress: _Progress) -> None:
        """Stop the running containers of a pod, and remove everything of it from the node, except perhaps its last
        containers.
        """
        facts = job.known or self._reader.list_pod(job.ref)
        if job.pod is not None:
            self._kill_pod(job.pod, facts, progress)
        else:
            self._killer.kill_orphan(facts)
        progress.terminated = True
        if job.keeps_last:
            self._pruner.prune(self._reader.list_pod(job.ref))
        else:
            self._killer.remove_pod(facts)
            progress.removed = True
        self._resources.remove(job.ref)
        self._starter.forget_pod(job.ref.uid)

    def _update_resources(self, job: Job, pod: Pod, facts: PodFacts, actions: PodActions, progress: _Progress) -> bool:
        """Update the resources of a pod, even if it only runs: a configmap in its volumes may have changed. Then
        start its containers. Return as `sync_pod`. A failure is also the reason why containers wait, where a kubelet
        only records an event.
        """
        sources = PodObjects(pod, self._resources.meta, self._resources.tokens, job.delivered)
        starts = bool(actions.starts or actions.create_sandbox)
        if starts:
            self._events.starting(pod)
        try:
            if starts:
                running = {container.name for container in facts.containers if container.running}
                self._resources.devices.allocate(pod, anew=actions.create_sandbox, running=running)
            with _recording_failures(self._events.mount_failed, pod, progress):
                volumes = self._resources.directories.prepare(pod, sources, starts=starts)
            if starts:
                self._events.volumes_ready(pod)
            with _recording_failures(self._events.cgroup_failed, pod, progress):
                self._resources.cgroups.apply(pod, anew=actions.create_sandbox)
            with _recording_failures(self._events.sandbox_failed, pod, progress):
                sandbox = self._starter.ensure_sandbox(pod, facts, actions) if starts else None
        except POD_FAILURES as error:
            reason = INITIALIZING if pod.spec.init_containers else CREATING
            waiting = ContainerStateWaiting(reason=reason, message=str(error))
            progress.waiting_reasons.update({start.container.name: waiting for start in actions.starts})
            raise
        if sandbox is None:
            return False
        context = StartContext(sandbox, volumes, sources, facts)
        progress.sandbox = sandbox.id
        return self._start_containers(pod, actions.starts, context, progress)

    def _start_containers(
        self, pod: Pod, starts: tuple[ContainerStart, ...], context: StartContext, progress: _Progress
    ) -> bool:
        facts, pending = context.facts, False
        errors: list[StartError] = []
        for start in starts:
            try:
                made = self._starter.start_container(pod, start, context)
                progress.made.append(made)
                self._record_start(facts, start)
                if self._begin_start_hook(pod, start, context, made):
                    break
            except ImagePendingError as error:
                progress.waiting_reasons[error.container] = error.waiting
                pending = True
                break
            except StartError as error:
                if isinstance(error, ContainerStartError):
                    self._record_start(facts, start)
                progress.waiting_reasons[error.container] = error.waiting
                errors.append(error)
        if errors:
            raise min(errors, key=lambda error: error.retry_at or 0.0)
        return pending

    def _refuse(self, job: Job, refusal: AllocationRefusedError) -> KillOptions:
        """Return the kill options of a pod that cannot get its devices, in a kubelet's words."""
        message = f"Pod was rejected: Allocate failed due to {refusal}, which is unexpected"
        if job.pod is not None:
            self._events.refused(job.pod, Reason.UNEXPECTED_ADMISSION_ERROR, message)
        return KillOptions(Reason.UNEXPECTED_ADMISSION_ERROR, message, rejected=True)

    def _kill_pod(self, pod: Pod, facts: PodFacts, progress: _Progress) -> None:
        with _recording_failures(self._events.kill_failed, pod, progress):
            self._killer.kill_pod(pod, facts)

    def _record_start(self, facts: PodFacts, start: ContainerStart) -> None:
        if start.after is not None:
            key = container_key(facts.ref.uid, start.container)
            self._backoffs.advance(key, start.after, self._now())

    def _begin_start_hook(self, pod: Pod, start: ContainerStart, context: StartContext, made: ContainerId) -> bool:
        """Run the container's postStart hook in the background; return whether it has one. The containers after it wait
        for the next sync of the pod, which the end of the hook asks for.
        """
        container = start.container
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is None:
            return False
        ips = self._starter.pod_ips(pod, context.sandbox)
        self._lifecycle.post_start_hooks.begin(
            hook, HookTarget(ref_of(pod).uid, container, made, pod_address(pod, ips[0] if ips else ""))
        )
        return True

    def _final_facts(self, job: Job, facts: PodFacts | None, progress: _Progress) -> PodFacts | None:
        """Return the facts of the pod after a job, pruned after a sync; None when the runtime does not answer.

        Args:
            job: the job.
            facts: of the pod before the job, if it changed nothing.
            progress: the results of the job.
        """
        try:
            if facts is None and progress.found is not None:
                facts = self._reader.read_again(progress.found, progress.sandbox, progress.made)
            facts = facts or self._reader.read_pod(job.ref)
            return self._pruner.prune(facts) if job.state is PodState.SYNC else facts
        except CriError as error:
            level = logging.DEBUG if isinstance(error, UnavailableError) else logging.WARNING
            _log.log(level, "pod %s cannot be read from the runtime: %s", job.ref, error)
        except Exception:  # noqa: BLE001 - see `sync`
            _log.exception("reading pod %s failed unexpectedly", job.ref)
        return None

    def _now(self) -> Nanoseconds:
        return Nanoseconds(self._clock.now_ns())


@contextmanager
def _recording_failures(tell: Callable[[Pod, Exception], None], pod: Pod, progress: _Progress) -> Iterator[None]:
    """Make an event of a failure."""
    try:
        yield
    except POD_FAILURES as error:
        tell(pod, error)
        progress.told = True
        raise


def _failed_hooks(job: Job, kills: tuple[ContainerKill, ...]) -> list[StartError]:
    """Return the errors of containers that were killed because their postStart hook failed (kubelet's
    FailedPostStartHook).
    """
    dead = [kill.container for kill in kills if kill.reason is KillReason.START_HOOK]
    return [ContainerStartError(each.name, POST_START_ERROR, job.hooks.failed[each.id]) for each in dead]
