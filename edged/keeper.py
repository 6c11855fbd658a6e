"""Keeps the node's pods: what is wanted, what is, whose turn it is, and what the cloud is told.

Everything that is decided about a pod on the edged module's thread is decided here; effects are workers' jobs. It is
told of messages by the module, of facts by the PLEG and by workers, and answers each with a status, a job, or nothing.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec.structs import replace

from beehive import Clock, Timer
from edged.admission.admit import Place, refusal
from edged.api import Nanoseconds, Pod, seconds
from edged.deadlines import Deadlines
from edged.events.pods import PodEvents
from edged.lifecycle.lives import Lives
from edged.orphans import Orphans
from edged.pleg.messages import Relisted, Seen
from edged.pods.actions import ContainerWait, PodActions, compute_pod_actions
from edged.pods.backoff import BackOffPolicy, BackOffs
from edged.pods.labels import ref_of
from edged.pods.manager import PodManager, PodRecord
from edged.pods.model import PodRef, PodUid
from edged.pods.phase import Phase
from edged.pods.restart import is_terminal
from edged.pods.status import NodeView, crash_loop
from edged.pods.termination import grace_seconds
from edged.pods.verdict import Verdict
from edged.probes.crew import Crew
from edged.probes.manager import ProbeManager
from edged.report.pods import PodReporter
from edged.settings import EdgedSettings
from edged.static_pods.manifest import is_static
from edged.statuses import Statuses
from edged.volumes.usage import EVICTED
from edged.work.job import Done, Job, Task
from edged.work.pool import Pool, Worker
from edged.work.queues import Queue, Work
from edged.work.retries import Retries

_log = logging.getLogger(__name__)

MOST_ROUNDS = 20
"""Turns that a pod may have one right after the other: init containers that end at once need one each."""


class Turns(Protocol):
    """The module on whose thread this lives."""

    @property
    def clock(self) -> Clock:
        """Time and randomness."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call in the module's own turn."""


class PodKeeper:
    """See the module's docstring.

    Args:
        turns: the module.
        settings: edged's.
        reporter: takes statuses.
        owner: the mark of what this agent made in the runtime.
        publish: takes the pods whenever one changed, for the local HTTP server.
        hire: makes a worker for a pod that goes.
        crew: asks containers how they are.
        lives: hooks, waits and grace periods of containers; ended sooner when their pod is to end.
        place: what a new pod finds on this node.
        events: is told what becomes of pods.
    """

    def __init__(
        self,
        turns: Turns,
        settings: EdgedSettings,
        reporter: PodReporter,
        owner: str,
        publish: Callable[[tuple[Pod, ...]], None],
        hire: Callable[[], Worker],
        *,
        crew: Crew,
        lives: Lives,
        place: Callable[[], Place],
        events: PodEvents,
    ) -> None:
        self._events = events
        self._clock = turns.clock
        self._settings = settings
        self._reporter = reporter
        self.pods = PodManager()
        self.backoffs = BackOffs(BackOffPolicy.up_to(seconds(settings.crash_loop_limit)))
        self.pool = Pool(turns.clock, turns.after, self._job_of, hire)
        self._probes = ProbeManager(turns, crew, self._pod_of, self.health_changed, events)
        self._deadlines = Deadlines(turns, self._overdue)
        self._statuses = Statuses(
            turns.clock,
            self.pods,
            self._probes,
            reporter,
            working=self.pool.working,
            hooks=lives.start_hooks.facts,
            deadlines=self._deadlines,
            publish=publish,
        )
        self._lives = lives
        self._place = place
        self._retries = Retries()
        self._orphans = Orphans(owner)
        self._heard_of: set[PodUid] = set()
        self._complete = False

    def listed(self, pods: Iterable[Pod]) -> None:
        """The store has said which pods belong here. Of one that messages spoke of meanwhile they know better."""
        for pod in sorted(pods, key=lambda pod: pod.metadata.creation_timestamp or ""):
            if ref_of(pod).uid not in self._heard_of:
                self.take(pod)
        self._complete = True
        self._heard_of.clear()
        self._statuses.publish()

    def all_known(self, directories: Iterable[PodUid], *, is_disowned: Callable[[PodRef], bool] | None = None) -> None:
        """Every pod that belongs here has come: from now on others of ours are orphans.

        Args:
            directories: the pods that have files on the node. An agent that was killed in the middle of a removal
                leaves such, when nothing of the pod is in the runtime any more.
            is_disowned: with a store that may not know all pods, see `edged.inquiry`.
        """
        self._orphans.look_for(directories, is_disowned=is_disowned)

    def connected(self) -> None:
        """The cloud is there: what may have failed for want of it is tried again at once."""
        for uid in self._retries.forget_all():
            record = self.pods.get(uid)
            if record is not None:
                self.want(record)

    def take(self, pod: Pod) -> None:
        """A pod is wanted like this. The echo of a status that was reported is no new wish (kubelet's reconcile).

        One that comes again while its former life is being removed begins when that is over, as with a kubelet.
        """
        uid = ref_of(pod).uid
        self._hear_of(uid)
        known = self.pods.get(uid)
        if (known is not None and known.removed) or self._orphans.get(uid) is not None:
            self.pods.hold(pod)
            return
        former = self._former(pod)
        if former is not None:
            self._drop(former)
            self.pods.hold(pod, behind=former.ref.uid)
            return
        echo = known is not None and _same_wish(known.pod, pod)
        record = self.pods.put(pod)
        if known is None:
            self._end_namesakes(record)
        self._reporter.track(record.ref, pod)
        if known is None:
            self._admit(record)
        self._statuses.recompute(record)
        if not echo:
            self.want(record)

    def _admit(self, record: PodRecord) -> None:
        """A pod that has been here before (its status has a start) is not asked again, as it may well run.

        Pods that are ending make room for others: a kubelet would refuse the successor for good.
        """
        if record.ending or is_terminal(record.pod) or record.pod.status.start_time:
            return
        others = [r.pod for r in self.pods if r is not record and not r.ending and not is_terminal(r.pod)]
        verdict = refusal(record.pod, others, self._place())
        if verdict is not None:
            self.end(record.ref.uid, verdict)

    def _former(self, pod: Pod) -> PodRecord | None:
        """What runs yet of a static pod whose file has changed: it has to be gone first, as with a kubelet.

        The two want the same ports and directories of the node.
        """
        if not is_static(pod):
            return None
        others = self.pods.named(pod.metadata.namespace, pod.metadata.name)
        return next((other for other in others if other.ref.uid != pod.metadata.uid), None)

    def _end_namesakes(self, record: PodRecord) -> None:
        """A cluster has one pod of a name: a later one says that the earlier is gone, should nobody else say so.

        A cloud that lost its objects makes them anew, and never deletes the old ones.
        """
        ref, made = record.ref, record.pod.metadata.creation_timestamp or ""
        self.pods.drop_held(ref.namespace, ref.name)
        for other in self.pods.named(ref.namespace, ref.name):
            if other is not record and not other.removed and (other.pod.metadata.creation_timestamp or "") <= made:
                _log.info("pod %s: another of its name has come", other.ref)
                self._drop(other)

    def want(self, record: PodRecord) -> None:
        """A pod has to be looked at. A turn that stops something that runs may take its grace period: it gets a worker
        of its own, as the turns of a pod that goes do.
        """
        if record.ending:
            self._lives.pod_ends(record.ref.uid, grace_seconds(record.to_end))
        runs = any(container.running for container in record.facts.containers)
        stops = record.ending or (runs and self._next_actions(record).stops)
        self.pool.add(record.ref.uid, Queue.DELETION if stops else Queue.ADDITION)

    def end(self, uid: PodUid, verdict: Verdict) -> bool:
        """The node itself ends a pod for good; see `edged.pods.verdict`. The first verdict stands.

        Nothing happens to a pod that has ended already, or that the cloud ends: whether something does is the answer.
        """
        record = self.pods.get(uid)
        if record is None or record.ending or is_terminal(record.pod):
            return False
        _log.warning("pod %s is ended: %s: %s", record.ref, verdict.reason, verdict.message)
        record.verdict = verdict
        self.want(record)
        return True

    def staying(self) -> list[Pod]:
        """The pods that are not ending."""
        return [record.pod for record in self.pods if not record.ending]

    def evict(self, uid: PodUid, message: str) -> None:
        """A pod takes more than it may: it goes, at once and for good (kubelet's evictPod with its shortest grace)."""
        pod = self._pod_of(uid)
        if self.end(uid, Verdict(EVICTED, message, grace=1)) and pod is not None:
            self._events.evicted(pod, message)

    def _overdue(self, uid: PodUid, verdict: Verdict) -> None:
        pod = self._pod_of(uid)
        if self.end(uid, verdict) and pod is not None:
            self._events.overdue(pod, verdict.message)

    def remove(self, namespace: str, name: str, uid: str, grace: int | None = None) -> None:
        """The cloud has deleted a pod for good; without a uid: whatever has the name.

        `grace` is the deletion's grace period in seconds, when it says one: 0 of a forced deletion.
        """
        self._hear_of(PodUid(uid))
        self.pods.drop_held(namespace, name, uid)
        for record in self.pods.named(namespace, name):
            if uid in ("", record.ref.uid):
                if grace is not None:
                    metadata = replace(record.pod.metadata, deletion_grace_period_seconds=grace)
                    record.pod = replace(record.pod, metadata=metadata)
                self._drop(record)

    def dependency_changed(self, kind: str, namespace: str, name: str) -> None:
        """A configmap or secret has changed: the files of the pods that mount it follow."""
        for record in self.pods.using(kind, namespace, name):
            if not record.ending:
                self.want(record)

    @property
    def node(self) -> NodeView:
        """What statuses take from the node."""
        return self._statuses.node

    def node_changed(self, view: NodeView) -> None:
        """The node has other addresses, or its runtime another name."""
        self._statuses.node_changed(view)

    def observe(self, seen: Seen) -> None:
        """A pod was looked at. While a worker is at it, what was seen counts when he is done: most is his doing."""
        record = self.pods.get(seen.facts.ref.uid)
        if record is None or seen.at < record.facts_at:
            return
        changed = record.facts != seen.facts
        record.facts, record.facts_at = seen.facts, seen.at
        if changed:
            self._statuses.recompute(record)
            if not self.pool.working(record.ref.uid):
                self.want(record)

    def relisted(self, relisted: Relisted) -> None:
        """The runtime was looked at."""
        for seen in relisted.changed:
            self.observe(seen)
        for record in self.pods:
            if not record.looked_at and record.ref.uid not in relisted.glances:
                record.facts_at = relisted.at
                self._statuses.recompute(record)
        for ref in self._orphans.found(relisted.glances, self.pods):
            _log.info("removing %s: no pod accounts for it", ref)
            self.pool.add(ref.uid, Queue.DELETION)

    def done(self, done: Done) -> None:
        """A worker has finished with a pod. The next job is given out last, when it is known what it is to be."""
        uid = done.job.ref.uid
        record = self.pods.get(uid)
        if record is not None:
            self._take_over(record, done)
        if done.error is not None:
            self._retry(done)
        else:
            self._retries.forget(uid)
            self._go_on(record, done)
        self.pool.done(done)

    def _drop(self, record: PodRecord) -> None:
        """Nothing of the pod is to stay, and nobody is to be told of it any more."""
        record.removed = True
        self._reporter.forget(record.ref.uid)
        self._probes.follow(record.pod, record.facts, going=True)
        self.want(record)

    def _pod_of(self, uid: PodUid) -> Pod | None:
        record = self.pods.get(uid)
        return record.pod if record is not None else None

    def health_changed(self, uid: PodUid) -> None:
        """A probe says something else than before, or a postStart hook or a pull is through: the status changes at
        once, and maybe a container has to end, or the next one may begin.
        """
        record = self.pods.get(uid)
        if record is not None:
            self._statuses.recompute(record)
            self.want(record)

    def _hear_of(self, uid: PodUid) -> None:
        if not self._complete:
            self._heard_of.add(uid)

    def _job_of(self, work: Work) -> Job | None:
        record = self.pods.get(work.uid)
        if record is None:
            orphan = self._orphans.get(work.uid)
            return Job(Task.REMOVE, orphan) if orphan is not None else None
        task = Task.REMOVE if record.removed else Task.KILL if record.ending else Task.SYNC
        hooks = self._lives.start_hooks.facts(work.uid)
        return Job(task, record.ref, record.to_end, self._probes.facts(work.uid), hooks)

    def _take_over(self, record: PodRecord, done: Done) -> None:
        if done.facts is not None and done.facts_at >= record.facts_at:
            record.facts, record.facts_at = done.facts, done.facts_at
        waits = self._next_actions(record).waiting if done.job.task is Task.SYNC else ()
        self._tell_of_waits(record, waits)
        record.troubles = {**{wait.container.name: crash_loop(record.ref, wait) for wait in waits}, **done.troubles}
        record.killed = record.killed or (record.ending and done.job.task is not Task.SYNC and done.error is None)
        self._statuses.recompute(record, record.facts)

    def _tell_of_waits(self, record: PodRecord, waits: tuple[ContainerWait, ...]) -> None:
        """Of each container that keeps ending, once for each time it has to wait."""
        for wait in waits:
            if record.troubles.get(wait.container.name) != crash_loop(record.ref, wait):
                self._events.waits_to_restart(record.pod, wait.container.name)

    def _go_on(self, record: PodRecord | None, done: Done) -> None:
        """What comes after a job that was done."""
        job = done.job
        if job.task is Task.REMOVE:
            self._removed(record, job.ref.uid)
        elif record is None:
            return
        elif job.task is Task.KILL:
            if record.going:
                self._reporter.finish(record.ref.uid)
        elif done.pending:
            record.rounds = 0
            self.pool.add_after(record.ref.uid, Queue.ADDITION, self._settings.resync_period)
        elif not self._is_final(record):
            self._look_again(record)

    def _removed(self, record: PodRecord | None, uid: PodUid) -> None:
        if record is not None:
            self._forget(record)
        self._orphans.removed(uid)
        again = self.pods.release(uid)
        if again is not None:
            self.take(again)

    def _next_actions(self, record: PodRecord) -> PodActions:
        """What would be done if it were the pod's turn now."""
        probes = self._probes.facts(record.ref.uid)
        hooks = self._lives.start_hooks.facts(record.ref.uid)
        now = Nanoseconds(self._clock.now_ns())
        return compute_pod_actions(record.pod, record.facts, now, self.backoffs, probes, hooks)

    def _look_again(self, record: PodRecord) -> None:
        """At once when the job's own result asks for a next step (an init container has ended), else later.

        A runtime that does not do what it says asks for a next step for ever: it gets one in a second.
        """
        actions = self._next_actions(record)
        record.rounds = 0 if actions.nothing else record.rounds + 1
        if 0 < record.rounds <= MOST_ROUNDS:
            self.want(record)
            return
        if not actions.nothing:
            delay = self._settings.relist_period
        elif actions.next_try is not None:
            delay = (actions.next_try - self._clock.now_ns()) / 1e9
        else:
            delay = self._settings.resync_period * (1 + self._clock.random.uniform(0, 0.5))
        self.pool.add_after(record.ref.uid, Queue.ADDITION, delay)

    def _retry(self, done: Done) -> None:
        uid = done.job.ref.uid
        delay = self._retries.after_failure(uid) if done.retry_after is None else done.retry_after
        queue = Queue.ADDITION if done.job.task is Task.SYNC else Queue.DELETION
        _log.warning("pod %s: %s; again in %.0f s", done.job.ref, done.error, delay)
        self.pool.add_after(uid, queue, delay)

    def _forget(self, record: PodRecord) -> None:
        uid = record.ref.uid
        self.pods.forget(uid)
        self.pool.forget(uid)
        self.backoffs.forget_pod(uid)
        self._reporter.forget(uid)
        self._probes.forget(uid)
        self._lives.pod_gone(uid)
        self._deadlines.forget(uid)
        self._retries.forget(uid)
        self._statuses.publish()
        _log.info("pod %s is gone", record.ref)

    def _is_final(self, record: PodRecord) -> bool:
        return record.pod.status.phase in (Phase.SUCCEEDED, Phase.FAILED) and not record.facts.anything_running


def _same_wish(known: Pod, pod: Pod) -> bool:
    """Whether two states of one pod ask for the same."""
    meta = replace(pod.metadata, resource_version=known.metadata.resource_version)
    return known.spec == pod.spec and known.metadata == meta
