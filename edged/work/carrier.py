"""Carries a pod's jobs out: the only place where edged changes what runs.

Each job begins with a look at the runtime, so that it acts on what is and not on what was; and ends with one, so that
what it did is seen and reported at once, unless there was nothing to do: most turns of most pods are those that come
every minute (kubelet's syncFrequency). Decisions come from `edged.pods`; here are only their effects, in kubelet's
order.
"""

import logging

from msgspec import Struct
from msgspec.structs import replace

from beehive import Runtime
from edged.api import ContainerStateWaiting, Nanoseconds, Pod
from edged.cgroups.pods import PodCgroups
from edged.cri.contract import ContainerId, ContainerRuntime, SandboxId
from edged.cri.errors import CriError
from edged.devices.errors import AllocationRefusedError
from edged.devices.manager import DeviceManager
from edged.errors import EdgedError
from edged.events.pods import PodEvents
from edged.events.reasons import Reason
from edged.lifecycle.farewell import Farewell
from edged.lifecycle.hooks import Subject
from edged.lifecycle.lives import Lives
from edged.lifecycle.turns import StopTurns
from edged.pleg.reader import RuntimeReader
from edged.pods.actions import ContainerKill, ContainerStart, PodActions, compute_pod_actions
from edged.pods.backoff import BackOffs, container_key
from edged.pods.container_status import CREATING, INITIALIZING
from edged.pods.labels import ref_of
from edged.pods.model import PodFacts, PodRef, with_exchanged
from edged.pods.prune import prunable
from edged.pods.restart import is_terminal
from edged.pods.status import POST_START_ERROR
from edged.pods.stop_order import stop_order
from edged.pods.termination import SHORTEST_STOP_SECONDS
from edged.pods.unhealthy import Fault
from edged.pods.verdict import Verdict
from edged.work.errors import ContainerTroubleError, ImagePendingError, StartError
from edged.work.files import PodFiles
from edged.work.job import Done, Job, Task
from edged.work.kill import kill_containers, kill_pod, remove_pod
from edged.work.sources import PodSources, TokenCache
from edged.work.starter import StartContext, Starter
from metamanager.client import CallError, MetaClient

_log = logging.getLogger(__name__)

Troubles = dict[str, ContainerStateWaiting]
"""Why containers could not be started, by name."""

_ORPHAN_GRACE = SHORTEST_STOP_SECONDS
"""Seconds that containers get of which no pod says how long they may take (kubelet's
SyncTerminatingRuntimePod wants 1, and its killContainer makes it 2)."""

_FAILURES = (EdgedError, CallError, OSError)
"""What may go wrong with one pod without anything being wrong with edged."""


class _Turn(Struct):
    """What comes of one turn while it goes on."""

    troubles: Troubles = {}
    exchanged: set[ContainerId] = set()
    pending: bool = False
    ended: bool = False
    seen: tuple[float, PodFacts] | None = None
    """When the pod was looked at, in monotonic seconds, and what there was, if nothing of what runs had to change."""


class PodCarrier:
    """See the module's docstring. Used by several workers at once, by each for another pod.

    Args:
        actors: for calls that are made beside each other.
        runtime: the container runtime.
        reader: looks at it.
        files: the pods' directories and volumes.
        starter: makes sandboxes and containers.
        meta: knows configmaps, secrets and tokens.
        backoffs: the records of what keeps ending; a pod's records are touched only by the worker that has the pod.
        cgroups: of pods.
        lives: runs what pods want done after a container's start and before its stop.
        events: is told what is done.
        devices: given to containers, and taken back.
        kept: dead containers of each name that a pod keeps.
    """

    def __init__(
        self,
        actors: Runtime,
        runtime: ContainerRuntime,
        reader: RuntimeReader,
        files: PodFiles,
        starter: Starter,
        *,
        meta: MetaClient,
        backoffs: BackOffs,
        cgroups: PodCgroups,
        lives: Lives,
        events: PodEvents,
        devices: DeviceManager,
        kept: int = 1,
    ) -> None:
        self._events = events
        self._devices = devices
        self._kept = kept
        self._actors = actors
        self._runtime = runtime
        self._reader = reader
        self._files = files
        self._starter = starter
        self._meta = meta
        self._tokens = TokenCache(actors.clock)
        self._backoffs = backoffs
        self._cgroups = cgroups
        self._lives = lives

    def carry_out(self, job: Job) -> Done:
        """Do the job and look at what came of it.

        Never raises: an error that comes with one pod, be it a bug, would otherwise end edged again and again, and all
        other pods would go without it.
        """
        turn = _Turn()
        error: Exception | None = None
        verdict: Verdict | None = None
        try:
            if job.task is Task.SYNC and job.pod is not None:
                turn.pending = self._sync(job, job.pod, turn)
            elif job.task is Task.KILL and job.pod is not None:
                self._kill(job.pod, self._reader.look(job.ref))
                turn.ended = True
                self._ended(job.ref)
            else:
                self._remove(job)
        except AllocationRefusedError as refusal:
            verdict = self._refuse(job, refusal)
        except _FAILURES as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - see above
            _log.exception("%s of pod %s failed in a way nobody foresaw", job.task.value, job.ref)
            error = failure
            if job.pod is not None:
                self._events.sync_failed(job.pod, failure)
        retry_after = error.retry_after if isinstance(error, StartError) else None
        seen = turn.seen if error is None else None
        at, facts = (self._now_seconds(), None) if seen is None else seen
        facts = self._seen(job, facts)
        exchanged = frozenset(turn.exchanged)
        return Done(
            job, facts, at, turn.troubles, error, turn.pending, retry_after, exchanged, verdict, ended=turn.ended
        )

    def _sync(self, job: Job, pod: Pod, turn: _Turn) -> bool:
        """Whether something is under way that asks for the next turn. Containers that are ended to be exchanged are
        noted before that, for the answer may be lost.
        """
        at, found = self._now_seconds(), self._reader.look(job.ref)
        facts = with_exchanged(found, job.exchanged)
        self._lives.start_hooks.keep_only(job.ref.uid, {c.id for c in facts.containers if c.running})
        pending = False
        actions = compute_pod_actions(pod, facts, self._now(), self._backoffs, job.probes, job.hooks)
        if actions.nothing:
            turn.seen = at, found
        if actions.kill_pod and actions.create_sandbox:
            self._events.sandbox_changed(pod)
        if actions.kill_pod:
            self._kill(pod, facts)
        turn.exchanged |= {kill.container.id for kill in actions.kill if kill.fault is Fault.DEFINITION_CHANGED}
        self._kill_containers(pod, actions.kill)
        failures = _failed_hooks(job, actions.kill)
        turn.troubles.update({failure.container: failure.waiting for failure in failures})
        if self._lives.waits.is_ending(job.ref.uid):
            return False
        if is_terminal(pod) or (actions.sandbox is None and not actions.create_sandbox):
            self._ended(job.ref)
        else:
            pending = self._bring_up(pod, facts, actions, turn.troubles)
        if failures:
            raise failures[0]
        return pending

    def _bring_up(self, pod: Pod, facts: PodFacts, actions: PodActions, troubles: Troubles) -> bool:
        starts = actions.starts
        try:
            context = self._prepare(pod, facts, actions)
        except _FAILURES as error:
            reason = INITIALIZING if pod.spec.init_containers else CREATING
            waiting = ContainerStateWaiting(reason=reason, message=str(error))
            troubles.update({start.container.name: waiting for start in starts})
            raise
        if context is None:
            return False
        pending = False
        errors: list[StartError] = []
        for start in starts:
            try:
                made = self._starter.start(pod, start, context)
                self._note_start(facts, start)
                if self._begin_start_hook(pod, start, context, made):
                    break
            except ImagePendingError as error:
                troubles[error.container] = error.waiting
                pending = True
                break
            except StartError as error:
                troubles[error.container] = error.waiting
                errors.append(error)
        if errors:
            raise min(errors, key=lambda error: error.retry_after or 0.0)
        return pending

    def _ended(self, ref: PodRef) -> None:
        """Nothing of a pod runs any more: what it held is for others. Its logs and last words stay until it is deleted,
        its volumes do not (a kubelet's volume manager unmounts those of terminated pods): a full disk would stay so.
        """
        self._cgroups.remove(ref.uid)
        self._devices.release(ref.uid)
        self._files.remove_volumes(ref)

    def _refuse(self, job: Job, refusal: AllocationRefusedError) -> Verdict:
        """The verdict on a pod that cannot have its devices, in a kubelet's words."""
        message = f"Pod was rejected: Allocate failed due to {refusal}, which is unexpected"
        if job.pod is not None:
            self._events.refused(job.pod, Reason.UNEXPECTED_ADMISSION_ERROR, message)
        return Verdict(Reason.UNEXPECTED_ADMISSION_ERROR, message, refused=True)

    def _prepare(self, pod: Pod, facts: PodFacts, actions: PodActions) -> StartContext | None:
        """Devices, volumes, and the sandbox when anything is to be started in it. What fails here is also told as the
        reason of the containers' waiting, where a kubelet only has an event.
        """
        if actions.starts or actions.create_sandbox:
            running = {c.name for c in facts.containers if c.running}
            self._devices.ensure(pod, anew=actions.create_sandbox, running=running)
        sources = PodSources(pod, self._meta, self._tokens)
        try:
            volumes = self._files.prepare(pod, sources)
        except _FAILURES as error:
            self._events.mount_failed(pod, error)
            raise
        self._cgroups.apply(pod, anew=actions.create_sandbox)
        if not (actions.starts or actions.create_sandbox):
            return None
        try:
            sandbox = self._starter.sandbox(pod, facts, actions)
        except _FAILURES as error:
            self._events.sandbox_failed(pod, error)
            raise
        return StartContext(sandbox, volumes, sources, facts)

    def _note_start(self, facts: PodFacts, start: ContainerStart) -> None:
        if start.after is not None:
            key = container_key(facts.ref.uid, start.container)
            self._backoffs.advance(key, start.after, self._now())

    def _begin_start_hook(self, pod: Pod, start: ContainerStart, context: StartContext, made: ContainerId) -> bool:
        """Begin the container's postStart hook; whether it has one. The containers after it then wait for their pod's
        next turn, which the end of the hook asks for.
        """
        container = start.container
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is None:
            return False
        ips = self._starter.pod_ips(pod, context.sandbox)
        self._lives.start_hooks.begin(hook, Subject(ref_of(pod).uid, container, made, ips[0] if ips else ""))
        return True

    def _kill_containers(self, pod: Pod, kills: tuple[ContainerKill, ...]) -> None:
        for kill in kills:
            _log.info("pod %s: %s", ref_of(pod), kill.message)
            if kill.fault is Fault.START_HOOK:
                self._events.post_start_failed(pod, kill.container.name)
            self._events.killing(pod, kill.container.name, kill.message)
        farewell = self._farewell(pod, {kill.container.id: kill.fault for kill in kills})
        kill_containers(self._actors, self._runtime, [kill.container for kill in kills], farewell)

    def _kill(self, pod: Pod, facts: PodFacts) -> None:
        self._tell_of_stop(pod, facts)
        try:
            kill_pod(self._actors, self._runtime, facts, self._farewell_of_all(pod, facts))
        except CriError as error:
            self._events.kill_failed(pod, error)
            raise

    def _tell_of_stop(self, pod: Pod, facts: PodFacts) -> None:
        for container in facts.containers:
            if container.running:
                self._events.killing(pod, container.name)

    def _farewell(self, pod: Pod, faults: dict[ContainerId, Fault] | None = None) -> Farewell:
        return Farewell(self._actors, self._lives, pod, faults=faults, events=self._events)

    def _farewell_of_all(self, pod: Pod, facts: PodFacts) -> Farewell:
        turns = StopTurns(self._lives.waits, stop_order(pod, facts.containers))
        return Farewell(self._actors, self._lives, pod, turns=turns, events=self._events)

    def _remove(self, job: Job) -> None:
        facts = self._reader.look(job.ref)
        if job.pod is not None:
            self._kill(job.pod, facts)
        else:
            kill_pod(self._actors, self._runtime, facts, _ORPHAN_GRACE)
        remove_pod(self._runtime, facts)
        self._ended(job.ref)
        self._files.remove(job.ref)
        self._starter.forget(job.ref.uid)
        self._tokens.forget(job.ref.uid)

    def _prune(self, facts: PodFacts) -> PodFacts:
        """Remove what the pod does not need any more; the facts without it. What cannot be removed is left for the
        pod's next turn.
        """
        superfluous = prunable(facts, self._kept)
        try:
            for container in superfluous.containers:
                self._runtime.remove_container(ContainerId(container.id))
                self._files.remove_container(facts.ref, container.name, container.attempt)
            for sandbox in superfluous.sandboxes:
                self._runtime.remove_pod_sandbox(SandboxId(sandbox.id))
        except (CriError, OSError) as error:
            _log.warning("pod %s: what is left of its past cannot be removed: %s", facts.ref, error)
            return facts
        return replace(
            facts,
            containers=tuple(c for c in facts.containers if c not in superfluous.containers),
            sandboxes=tuple(s for s in facts.sandboxes if s not in superfluous.sandboxes),
        )

    def _seen(self, job: Job, facts: PodFacts | None) -> PodFacts | None:
        """What there is after the job, without what is not needed any more; None when it cannot be looked at.

        Args:
            job: that was carried out.
            facts: what there was before, if the job changed nothing.
        """
        try:
            facts = facts or self._reader.look(job.ref)
            return self._prune(facts) if job.task is Task.SYNC else facts
        except CriError as error:
            _log.warning("pod %s cannot be looked at: %s", job.ref, error)
        except Exception:  # noqa: BLE001 - see `carry_out`
            _log.exception("a look at pod %s failed in a way nobody foresaw", job.ref)
        return None

    def _now_seconds(self) -> float:
        return self._actors.clock.monotonic()

    def _now(self) -> Nanoseconds:
        return Nanoseconds(self._actors.clock.now_ns())


def _failed_hooks(job: Job, kills: tuple[ContainerKill, ...]) -> list[StartError]:
    """Those that were killed because their postStart hook has failed (kubelet's FailedPostStartHook)."""
    dead = [kill.container for kill in kills if kill.fault is Fault.START_HOOK]
    return [ContainerTroubleError(each.name, POST_START_ERROR, job.hooks.failed[each.id]) for each in dead]
