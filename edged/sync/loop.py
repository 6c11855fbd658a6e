"""SyncLoop: carries out the effects of each event that concerns a pod, after kubelet's syncLoop."""

import logging
from collections.abc import Iterable

import msgspec

from beehive import ModuleContext, Timer
from edged.admission.admit import NodeInfo, refusal_by_node
from edged.admission.admitter import PodAdmitter
from edged.chains.chains import Chains
from edged.cri.errors import UnavailableError
from edged.errors import found_no_room
from edged.events.pods import PodEvents
from edged.housekeeping import Housekeeping
from edged.lifecycle.pod_lifecycle import PodLifecycle
from edged.node.reporter import NodeReporter
from edged.node.status import NodeReport
from edged.pleg.messages import PlegEvent, PodInspection, Relisted, WorkerInspection
from edged.pleg.watch import RuntimeWatch
from edged.pod_workers.job import DeliveredObject, Done, Job, ObjectKey, Queue, Work
from edged.pod_workers.syncer import PodSyncer
from edged.pod_workers.workers import PodWorkers
from edged.pods.backoff import BackOffs
from edged.pods.deadline import DEADLINE_EXCEEDED, deadline_of
from edged.pods.hold import Released
from edged.pods.kill_options import KillCause, KillPod
from edged.pods.labels import ref_of
from edged.pods.manager import PodManager, PodRecord, is_newer, same_spec, terminated_by_cloud
from edged.pods.model import PodRef, PodState, PodUid, WorkFigures
from edged.pods.pod_status.status import NodeView
from edged.pods.restart import is_terminal
from edged.probes.manager import ProbeManager
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.static_pods.directory import StaticPodChanges
from edged.static_pods.manager import StaticPodManager
from edged.status.generator import StatusGenerator
from edged.status.manager import StatusManager
from edged.sync import pod_machine as machine
from edged.sync.events import PodReleased, PodsListed, SyncEvent, turn_of
from edged.sync.orphans import Orphans
from edged.sync.pod_machine import Effect, PodEvent, PodSyncRecord, SyncFacts
from edged.sync.store import PodStore
from edged.sync_events import PluginsChanged, PodHealthChanged, PostStartHookEnded
from modules.apimachinery.pods.static import is_static
from modules.apimachinery.types import Nanoseconds, Pod
from modules.apimachinery.types.versions import version_number

_log = logging.getLogger(__name__)


class PodParts(msgspec.Struct, frozen=True):
    """The parts that keep what edged knows of its pods, and carry out effects of their machines."""

    pods: PodManager
    lifecycle: PodLifecycle
    backoffs: BackOffs
    probes: ProbeManager
    status_generator: StatusGenerator
    status_manager: StatusManager
    events: PodEvents
    chains: Chains


class NodeParts(msgspec.Struct, frozen=True):
    """The parts that observe the node and its runtime, and decide which pods it admits."""

    admitter: PodAdmitter
    reporter: NodeReporter
    runtime_watch: RuntimeWatch
    housekeeping: Housekeeping
    snapshots: Snapshots


class PodSources(msgspec.Struct, frozen=True):
    """Sources of pods, and parts that belong to none of them."""

    store: PodStore
    static_pods: StaticPodManager
    orphans: Orphans


class _Deadline(msgspec.Struct, frozen=True):
    at: Nanoseconds
    """Wall clock."""
    timer: Timer


class SyncLoop:
    """The reconciliation of the cloud's pods with the pods that the runtime has, and with this node's own decisions.

    The module calls it with messages of the bus, the parts below with events (`handle`). The machine of a pod
    (`pod_machine`) decides on the effects of an event; the loop finds the pod's record, and carries the effects out.
    Lives on the edged module's thread; every part that it calls is below it and knows no sync loop.
    """

    def __init__(
        self,
        context: ModuleContext,
        settings: EdgedSettings,
        syncer: PodSyncer,
        *,
        of_pods: PodParts,
        of_node: NodeParts,
        sources: PodSources,
    ) -> None:
        self._context = context
        self._settings = settings
        self._of_pods = of_pods
        self._of_node = of_node
        self._sources = sources
        self._workers = PodWorkers(context, syncer, self, self._next_job)
        self._records: dict[PodUid, PodSyncRecord] = {}
        """Pods and orphans."""
        self._deadlines: dict[PodUid, _Deadline] = {}
        self._node_requests: dict[PodUid, bool] = {}
        """Pods that wait for the Node object, and whether the cloud has answered."""
        self._updated: set[PodUid] = set()
        """Pods that messages named before the store was listed."""
        self._complete = False
        """Whether the store was listed."""
        self._in_runtime: set[PodUid] | None = None
        """Pods of the last relist, and those forgotten since; None before the first."""
        self._sources_ready = False
        """Whether every source has sent all its pods."""

    def start(self) -> None:
        """Start the workers."""
        self._of_node.snapshots.pods_are_complete = False
        self._workers.start(self._settings.workers)

    def handle(self, event: SyncEvent) -> None:
        """Call the handler of an event; on the module's thread only."""
        if isinstance(event, PlegEvent):
            self._of_node.snapshots.relisted_at = self._context.clock.monotonic()
            self._of_node.runtime_watch.observe(event)
        match event:
            case Done():
                self.handle_work_done(event)
            case PodInspection() | KillPod():
                self._step(event.uid, event)
            case Relisted():
                self._handle_relist(event)
            case PodHealthChanged(uid):
                self._step(uid, machine.HealthChanged())
            case PostStartHookEnded(uid):
                self._of_pods.lifecycle.post_start_hooks.end(event)
                self._step(uid, machine.HealthChanged())
            case PodReleased(pod):
                self.handle_released_pod(pod)
            case PodsListed(pods):
                self.handle_stored_pods(pods)
            case StaticPodChanges():
                self.handle_static_pods(event)
            case NodeReport():
                self.handle_node_report(event)
            case PluginsChanged():
                self.handle_plugins_changed()
        self._check_complete()

    def post(self, event: SyncEvent) -> None:
        """Handle an event later, on the module's thread. May be called from any thread."""
        name, since = turn_of(event)
        self._context.call_soon(lambda: self.handle(event), name, since)

    def figures(self) -> WorkFigures:
        """Return the figures of the pod workers' queues; any thread."""
        failed = (uid for uid, record in self._records.copy().items() if record.retry is not None)
        return self._workers.figures(frozenset(failed))

    # pods of the cloud, the store and the files

    def handle_pod_update(self, pod: Pod, *, is_stored: bool = True) -> None:
        """Take a pod that a message adds or changes. A mirror pod is not run: it stands for a static pod."""
        if self._sources.static_pods.is_mirror(pod):
            return
        self._update_pod(pod, is_stored=is_stored)
        self._sources.static_pods.pod_added(pod)
        self._check_sources()

    def handle_pod_remove(
        self,
        namespace: str,
        name: str,
        uid: str,
        grace_period: int | None = None,
        *,
        is_stored: bool = True,
        static: bool = False,
    ) -> None:
        """Remove a pod that the cloud has deleted for good, or a static pod whose file is gone.

        Args:
            namespace: of the pod.
            name: of the pod.
            uid: of the pod; empty for every pod of that name.
            grace_period: of the deletion, in seconds, if it states one: 0 of a forced deletion.
            is_stored: whether the deletion is in the store. If not, it comes again; until then the store has the pod.
            static: whether a file is gone. The cloud ends no static pod.
        """
        if is_stored:
            self._record_update(PodUid(uid))
        self._of_pods.pods.drop_held(namespace, name, uid, static=static)
        for record in self._of_pods.pods.by_name(namespace, name, static=static):
            if uid in ("", record.ref.uid):
                self._step(record.ref.uid, machine.RemovePod(grace_period, is_stored))

    def handle_stored_pods(self, pods: Iterable[Pod]) -> None:
        """Take the pods that the store has listed, except pods that messages have named meanwhile."""
        for pod in sorted(pods, key=lambda pod: pod.metadata.creation_timestamp or ""):
            if ref_of(pod).uid not in self._updated:
                self._update_pod(pod)
                self._of_pods.status_manager.mark_from_store(ref_of(pod).uid)
        self._complete = True
        self._updated.clear()
        self._of_pods.status_generator.publish()
        self._check_sources()

    def handle_released_pod(self, pod: Pod, *, is_stored: bool = True) -> None:
        """Take a pod that was held back or requested until the cloud answered, unless a newer one has arrived."""
        known = self._of_pods.pods.get(ref_of(pod).uid)
        version = version_number(pod.metadata.resource_version)
        if known is None or version >= version_number(known.pod.metadata.resource_version):
            self._update_pod(pod, is_stored=is_stored)

    def handle_static_pods(self, changes: StaticPodChanges) -> None:
        """Send the static pods that were added to or removed from their directory over the bus."""
        self._sources.static_pods.handle_changes(changes)
        self._check_sources()

    def handle_dependency_change(self, key: ObjectKey, delivered: DeliveredObject | None) -> None:
        """Sync the pods that mount a configmap or secret that has changed.

        Args:
            key: of the configmap or secret.
            delivered: the object; None when the message does not have it.
        """
        for record in self._of_pods.pods.referencing(*key):
            self._step(record.ref.uid, machine.DependencyChanged(key, delivered))

    # events of the runtime and the workers

    def _handle_relist(self, relisted: Relisted) -> None:
        """Take a relist of the PLEG, and remove the orphans that it shows (kubelet's HandlePodCleanups)."""
        self._in_runtime = set(relisted.snapshots)
        for inspection in relisted.changed:
            self._step(inspection.uid, inspection)
        for record in self._of_pods.pods:
            if not record.observed and record.ref.uid not in relisted.snapshots:
                self._step(record.ref.uid, machine.NotListed(relisted.at))
        for ref in self._sources.orphans.find(relisted.snapshots, self._records):
            _log.info("removing %s: no pod accounts for it", ref)
            self._records[ref.uid] = PodSyncRecord(ref)
            self._workers.add(ref.uid, Queue.DELETION)
        self._sources.store.handle_relist()
        if self._sources.store.recovers:
            self._of_node.runtime_watch.relist_soon()

    def handle_work_done(self, done: Done) -> None:
        """Take the result of a job: the pod is queued again, retried, or removed. The worker is freed last, when the
        record has all that its next job needs.
        """
        if done.error is not None and found_no_room(done.error):
            self._of_node.housekeeping.check_now()
        if done.facts is not None:
            self._of_node.runtime_watch.add_inspection(
                WorkerInspection(done.facts, self._settings.owner, done.facts_at)
            )
        self._step(done.job.ref.uid, machine.WorkCompleted(done))
        self._step(done.job.ref.uid, machine.Requeue(done))
        self._workers.complete_work(done)

    # the node as a whole

    def handle_node_report(self, report: NodeReport) -> None:
        """Take a report of the machine and the runtime."""
        self._of_node.snapshots.node_reported(report, Nanoseconds(self._context.clock.now_ns()))
        runtime_name = report.runtime_version.partition("://")[0]
        recursive = frozenset(each.name for each in report.runtime_handlers if each.features.recursive_read_only_mounts)
        if self._of_pods.status_generator.set_node(NodeView(report.machine.addresses, runtime_name, recursive)):
            for record in list(self._records.values()):
                self._carry_out(record, machine.UpdateStatus())
        self._of_node.reporter.set_report(report)

    def handle_plugins_changed(self) -> None:
        """Report the drivers and devices of the node, and retry the pods that may have waited for them."""
        self._of_node.reporter.sync_node_status()
        self.retry_failed_pods()

    def handle_cloud_connected(self) -> None:
        """Send the statuses that the cloud has not acknowledged, and retry the pods that failed meanwhile."""
        self._of_node.reporter.connected()
        self._of_pods.status_manager.connected()
        self.retry_failed_pods()
        self._sources.store.connected()

    def handle_status_period(self) -> None:
        """Send unacknowledged statuses again; called every status period."""
        self._of_node.reporter.sync_node_status()
        self._sources.static_pods.sync_mirrors()
        self._of_pods.status_manager.sync_all()

    def retry_failed_pods(self) -> None:
        """Sync the pods whose last job failed, without waiting for their retry."""
        for record in [record for record in self._records.values() if record.retry is not None]:
            self._step(record.ref.uid, machine.RetryPod())

    def release_pods(self, namespace: str = "", name: str = "") -> Released:
        """Let pods that wait for the owner of the node begin: one, or all without a name."""
        named = self._of_pods.pods.by_name(namespace, name) if name else list(self._of_pods.pods)
        waiting = [record for record in named if record.is_on_hold]
        for record in waiting:
            record.release()
            self._step(record.ref.uid, machine.HealthChanged())
        return Released([f"{record.ref.namespace}/{record.ref.name}" for record in waiting], bool(named))

    # a pod that comes

    def _update_pod(self, pod: Pod, *, is_stored: bool = True) -> None:
        """Take the desired state of a pod. A pod that arrives again during its removal is started after the removal, as
        in a kubelet.
        """
        ref = ref_of(pod)
        self._record_update(ref.uid)
        record = self._records.get(ref.uid)
        if record is not None and record.is_being_removed:
            self._step(ref.uid, machine.UpdatePod(pod, is_stored))
            return
        predecessor = self._static_predecessor(pod)
        if predecessor is not None:
            self._step(predecessor.uid, machine.RemovePod())
            self._of_pods.pods.hold(pod, behind=predecessor.uid, is_stored=is_stored)
        elif record is not None and record.pod is not None:
            self._step(ref.uid, self._update_of(record.pod, pod))
            if is_stored:
                self._remove_older(ref, pod)
        else:
            node_info = self._of_node.admitter.node_info_for(pod)
            if node_info is None or not self._holds_back(pod, node_info, is_stored=is_stored):
                self._add_pod(ref, pod, node_info, is_stored=is_stored)

    def _add_pod(self, ref: PodRef, pod: Pod, node_info: NodeInfo | None, *, is_stored: bool) -> None:
        added = self._of_pods.pods.put(pod)
        is_new = self._in_runtime is not None and ref.uid not in self._in_runtime
        self._records[ref.uid] = PodSyncRecord(ref, added, known=added.facts if is_new else None)
        self._of_pods.events.accepted(pod)
        if is_stored:
            self._of_pods.pods.drop_held(ref.namespace, ref.name, up_to=pod, static=is_static(pod))
            self._remove_older(ref, pod)
        for victim in self._of_node.admitter.preemption(added, node_info):
            self._step(victim.uid, victim)
        self._step(ref.uid, machine.AddPod(pod, self._of_node.admitter.rejection(added, node_info)))

    def _update_of(self, known: PodRecord, pod: Pod) -> PodEvent:
        """Return the event of a known pod's new state (kubelet's UPDATE and RECONCILE)."""
        if same_spec(known.pod, pod) and not terminated_by_cloud(known.pod, pod):
            return machine.ReconcilePod(pod)
        return machine.UpdatePod(pod, rejection=self._of_node.admitter.fault(pod))

    def _static_predecessor(self, pod: Pod) -> PodRef | None:
        """Return the still running predecessor of a static pod whose file has changed. It is removed first, as in a
        kubelet, because both use the same ports and directories of the node.
        """
        if not is_static(pod):
            return None
        others = self._of_pods.pods.by_name(pod.metadata.namespace, pod.metadata.name, static=True)
        return next((other.ref for other in others if other.ref.uid != pod.metadata.uid), None)

    def _holds_back(self, pod: Pod, node_info: NodeInfo, *, is_stored: bool) -> bool:
        """Return whether a new pod has to wait until the cloud has sent the Node object, because the known labels,
        taints or extended resources of the node keep the pod out. It is released later in its newest form, unless it is
        deleted.

        KubeEdge's cloud sends nodes and pods from two loops: a label that was just set may arrive after the pod that
        the scheduler placed here because of it, and a pod that is rejected is rejected for good.
        """
        uid = ref_of(pod).uid
        if uid not in self._node_requests:
            doubtful = not is_static(pod) and refusal_by_node(pod, node_info) is not None
            if not doubtful or not self._of_node.reporter.request_node(lambda: self._handle_requested_node(uid)):
                return False
            self._node_requests[uid] = False
        if self._node_requests[uid]:
            return False
        self._of_pods.pods.hold(pod, is_stored=is_stored)
        return True

    def _handle_requested_node(self, uid: PodUid) -> None:
        held = self._of_pods.pods.release(uid)
        self._node_requests[uid] = True
        if held is not None:
            self.handle_released_pod(held.pod, is_stored=held.is_stored)
        del self._node_requests[uid]

    def _remove_older(self, ref: PodRef, pod: Pod) -> None:
        """Remove the older pods of the name of one whose state is in the store, in their place: a cluster has one pod
        of a name. A cloud that lost its objects makes new ones, and never deletes the old ones.
        """
        for other in self._of_pods.pods.by_name(ref.namespace, ref.name, static=is_static(pod)):
            if other.ref.uid != ref.uid and not other.deletion_stored and not is_newer(other.pod, pod):
                _log.info("pod %s: a newer pod has its name", other.ref)
                self._step(other.ref.uid, machine.RemovePod())

    # the machine of a pod

    def _step(self, uid: PodUid, event: PodEvent) -> None:
        """Step the machine of a pod, and carry the effects out."""
        record = self._records.get(uid)
        if record is None:
            return
        for effect in machine.step(record, event, self._now(uid)):
            self._carry_out(record, effect)
        if self._records.get(uid) is not record:
            self._begin_held_pod(uid)

    def _now(self, uid: PodUid) -> SyncFacts:
        clock, settings = self._context.clock, self._settings
        return SyncFacts(
            clock.monotonic(),
            Nanoseconds(clock.now_ns()),
            self._of_pods.probes.facts(uid),
            self._of_pods.lifecycle.post_start_hooks.facts(uid),
            self._of_pods.backoffs,
            settings.relist_period,
            settings.resync_period,
            self._workers.is_working(uid),
            self._of_pods.pods.is_held(uid),
        )

    def _next_job(self, work: Work) -> Job | None:
        """Return the job of a pod for a worker that is free; None when nothing is left to do."""
        record = self._records.get(work.uid)
        if record is None:
            return None
        job = machine.next_job(record, self._now(work.uid))
        if job.state is PodState.SYNC:
            self._of_node.runtime_watch.add_sync(work.uid)
        return job

    def _carry_out(self, record: PodSyncRecord, effect: Effect) -> None:
        uid, pod = record.ref.uid, record.pod
        match effect:
            case machine.Enqueue():
                self._workers.add(uid, machine.queue_for(record, self._now(uid)))
            case machine.EnqueueAfter(seconds, jitter):
                delay = seconds * (1 + self._context.clock.random.uniform(0, jitter)) if jitter else seconds
                self._workers.add_after(uid, Queue.ADDITION, delay)
            case machine.RetryAfter(queue, seconds, error):
                level = logging.DEBUG if isinstance(error, UnavailableError) else logging.WARNING
                _log.log(level, "pod %s: %s; again in %.0f s", record.ref, error, seconds)
                self._workers.add_after(uid, queue, seconds)
            case machine.Kill(grace_period):
                self._of_pods.pods.taken_room.remove(uid)
                self._of_pods.lifecycle.terminate_pod(uid, grace_period)
            case machine.Hold(held, is_stored):
                self._of_pods.pods.hold(held, is_stored=is_stored)
            case machine.Forget():
                self._forget_pod(record)
            case machine.DeletePod():
                self._of_pods.status_manager.terminate_pod(uid)
            case machine.SetCloudStatus(sent):
                self._of_pods.status_manager.add_pod(record.ref, sent)
            case machine.CorrectStatus():
                self._of_pods.status_manager.correct_pod_status(uid)
            case machine.Publish():
                self._of_pods.status_generator.publish()
            case _ if pod is not None:
                self._carry_out_for_pod(pod, effect)

    def _carry_out_for_pod(self, pod: PodRecord, effect: Effect) -> None:
        match effect:
            case machine.UpdateStatus(is_final):
                uid = pod.ref.uid
                working = not is_final and self._workers.is_working(uid)
                if self._of_pods.status_generator.regenerate(pod, working=working):
                    self._set_deadline(pod)
                if is_terminal(pod.pod):
                    self._of_pods.pods.taken_room.remove(uid)
            case machine.StopStatus():
                self._of_pods.status_generator.stop(pod)
            case machine.RecordBackOff(container):
                self._of_pods.events.back_off(pod.pod, container)
            case machine.RecordEnd(event):
                self._record_end(pod, event)

    def _record_end(self, pod: PodRecord, event: KillPod) -> None:
        options = event.options
        _log.warning("pod %s is ended: %s: %s", pod.ref, options.reason, options.message)
        match event.cause:
            case KillCause.EVICTION:
                self._of_pods.events.evicted(pod.pod, options.message)
            case KillCause.DEADLINE:
                self._of_pods.events.deadline_exceeded(pod.pod, options.message)
            case KillCause.REJECTION | KillCause.PREEMPTION:
                self._of_pods.events.refused(pod.pod, options.reason, options.message)

    def _forget_pod(self, record: PodSyncRecord) -> None:
        """Forget a pod that is removed from the node."""
        uid = record.ref.uid
        del self._records[uid]
        if self._in_runtime is not None:
            self._in_runtime.add(uid)  # its last containers may be left
        self._of_pods.chains.forget(record.ref)
        if record.pod is not None:
            self._of_pods.pods.forget(uid)
            self._workers.forget_pod(uid)
            self._of_pods.backoffs.forget_pod(uid)
            self._of_pods.lifecycle.forget_pod(uid)
            self._of_pods.status_generator.forget_pod(uid)
            self._drop_deadline(uid)
            _log.info("pod %s is gone", record.ref)
            if is_static(record.pod.pod):
                self._sources.static_pods.sync_mirrors()

    def _begin_held_pod(self, uid: PodUid) -> None:
        """Begin the pod that was held until the one of its uid or name was removed."""
        held = self._of_pods.pods.release(uid)
        if held is not None:
            self._update_pod(held.pod, is_stored=held.is_stored)
            self._sources.static_pods.pod_added(held.pod)

    def _set_deadline(self, record: PodRecord) -> None:
        """Wait for the active deadline of a pod, if it has one (kubelet's activeDeadlineHandler).

        A deadline is a time of the wall clock, because it must outlive the agent. The wait for it is measured by the
        monotonic clock: a wall clock that is corrected meanwhile (a board that booted in 1970) ends no pod.
        """
        uid, at, known = record.ref.uid, deadline_of(record.pod), self._deadlines.get(record.ref.uid)
        if at == (known.at if known is not None else None):
            return
        self._drop_deadline(uid)
        if at is not None:
            left = max((at - self._context.clock.now_ns()) / 1e9, 0.0)
            kill = KillPod(uid, DEADLINE_EXCEEDED, KillCause.DEADLINE)
            self._deadlines[uid] = _Deadline(at, self._context.after(left, lambda: self.handle(kill)))

    def _drop_deadline(self, uid: PodUid) -> None:
        known = self._deadlines.pop(uid, None)
        if known is not None:
            known.timer.cancel()

    # the sources of pods

    def _record_update(self, uid: PodUid) -> None:
        if not self._complete:
            self._updated.add(uid)

    def _check_complete(self) -> None:
        """Publish once that the pods are all of the node's, and as the runtime has them."""
        if self._of_node.snapshots.pods_are_complete or not self._sources_ready:
            return
        if all(record.observed for record in self._of_pods.pods):
            self._of_node.snapshots.pods_are_complete = True
            self._of_pods.status_generator.publish()

    def _check_sources(self) -> None:
        """Start to look for orphans once every source has sent all its pods (kubelet's sourcesReady)."""
        if self._sources.store.listed and self._sources.static_pods.all_ready and not self._sources_ready:
            self._sources_ready = True
            self._sources.store.sources_ready()
            self._of_node.runtime_watch.relist_soon()
            self._sources.static_pods.cloud_pods_listed()
            self._check_complete()
