"""SyncLoop: one handler for each event that concerns a pod, after kubelet's syncLoop."""

import logging
from collections.abc import Iterable

from beehive import ModuleContext
from edged.admission.admitter import was_admitted
from edged.api import Nanoseconds, Pod
from edged.api.versions import version_number
from edged.events.pods import PodEvents
from edged.node.status import NodeReport
from edged.pleg.messages import PodInspected, PodInspection, Relisted
from edged.pod_workers.job import Done
from edged.pods.labels import ref_of
from edged.pods.manager import PodRecord, same_spec, terminated_by_cloud
from edged.pods.model import PodUid
from edged.pods.pod_status.status import NodeView
from edged.pods.static import is_static
from edged.static_pods.directory import StaticPodChanges
from edged.sync_channel import (
    PluginsChanged,
    PodHealthChanged,
    PodReleased,
    PodsListed,
    RuntimeInspected,
    SyncChannel,
    SyncEvent,
)
from edged.sync_parts import NodeParts, PodParts, PodSources, StatusParts
from edged.work_completer import WorkCompleter

_log = logging.getLogger(__name__)


class SyncLoop:
    """Reconciles the pods that the cloud wants with those that the runtime has, and with this node's own decisions.

    Handlers are called by the module with messages of the bus, and by the channel with events of the parts below. Each
    updates the pod's record, has its status generated, and queues the pod for the workers. Lives on the edged module's
    thread; every part that it calls is below it and knows no sync loop.

    Args:
        context: the module.
        channel: delivers the events of the parts below.
        events: records containers that have to wait for their restart.
        pods: the pods, and the parts that change them.
        status: the statuses.
        sources: where pods come from.
        node: the node as a whole.
    """

    def __init__(
        self,
        context: ModuleContext,
        channel: SyncChannel,
        events: PodEvents,
        pods: PodParts,
        status: StatusParts,
        sources: PodSources,
        node: NodeParts,
    ) -> None:
        self._context = context
        self._pods = pods.manager
        self._orphans = pods.orphans
        self._admitter = pods.admitter
        self._recheck = pods.recheck
        self._workers = pods.workers
        self._requeue = pods.requeue
        self._killer = pods.killer
        self._status_generator = status.generator
        self._status_manager = status.manager
        self._sources = sources
        self._node = node
        self._completer = WorkCompleter(events, pods, status, node, removed=self.handle_pod_removed)
        self._updated: set[PodUid] = set()
        """Pods that messages named before the store was listed."""
        self._complete = False
        """Whether the store was listed."""
        self._sources_ready = False
        """Whether every source has sent all its pods."""
        channel.receive(self.sync_loop_iteration)

    def sync_loop_iteration(self, event: SyncEvent) -> None:
        """Call the handler of an event."""
        match event:
            case Done():
                self.handle_work_done(event)
            case PodInspected(inspection):
                self.handle_pleg_event(inspection)
            case Relisted():
                self.handle_relist(event)
            case PodHealthChanged(uid):
                self.handle_probe_result(uid)
            case PodReleased(pod):
                self.handle_released_pod(pod)
            case PodsListed(pods):
                self.handle_stored_pods(pods)
            case StaticPodChanges():
                self.handle_static_pods(event)
            case NodeReport():
                self.handle_node_report(event)
            case RuntimeInspected():
                self._node.snapshots.relisted_at = self._context.clock.monotonic()
            case PluginsChanged():
                self.handle_plugins_changed()

    # pods of the cloud, the store and the files

    def handle_pod_update(self, pod: Pod, *, is_stored: bool = True) -> None:
        """Take a pod that a message adds or changes. A mirror pod is not run: it stands for a static pod."""
        if self._sources.static_pods.is_mirror(pod):
            return
        self._update_pod(pod, is_stored=is_stored)
        self._sources.static_pods.pod_added(pod)
        self._check_sources()

    def handle_pod_remove(
        self, namespace: str, name: str, uid: str, grace_period: int | None = None, *, is_stored: bool = True
    ) -> None:
        """Remove a pod that the cloud has deleted for good.

        Args:
            namespace: of the pod.
            name: of the pod.
            uid: of the pod; empty for every pod of that name.
            grace_period: of the deletion, in seconds, if it states one: 0 of a forced deletion.
            is_stored: whether the deletion is in the store. If not, it comes again; until then the store has the pod.
        """
        if is_stored:
            self._note_message(PodUid(uid))
        self._pods.drop_held(namespace, name, uid)
        for record in self._pods.by_name(namespace, name):
            if uid in ("", record.ref.uid):
                self._remove(record, grace_period, is_stored=is_stored)

    def handle_stored_pods(self, pods: Iterable[Pod]) -> None:
        """Take the pods that the store has listed, except those that messages have named meanwhile."""
        for pod in sorted(pods, key=lambda pod: pod.metadata.creation_timestamp or ""):
            if ref_of(pod).uid not in self._updated:
                self._update_pod(pod)
                self._status_manager.mark_from_store(ref_of(pod).uid)
        self._complete = True
        self._updated.clear()
        self._status_generator.publish()
        self._check_sources()

    def handle_released_pod(self, pod: Pod) -> None:
        """Take a pod that was held back or requested until the cloud answered, unless a newer one has arrived."""
        known = self._pods.get(ref_of(pod).uid)
        version = version_number(pod.metadata.resource_version)
        if known is None or version >= version_number(known.pod.metadata.resource_version):
            self._update_pod(pod)

    def handle_static_pods(self, changes: StaticPodChanges) -> None:
        """Send the static pods that were added to or removed from their directory over the bus."""
        self._sources.static_pods.handle_changes(changes)
        self._check_sources()

    def handle_dependency_change(self, kind: str, namespace: str, name: str) -> None:
        """Sync the pods that mount a configmap or secret that has changed."""
        for record in self._pods.referencing(kind, namespace, name):
            if not record.termination_requested:
                self._workers.update_pod(record)

    # events of the runtime, the probes and the workers

    def handle_pleg_event(self, inspection: PodInspection) -> None:
        """Take the facts of a pod that the PLEG has read. While a worker has the pod most changes are the worker's own,
        so the pod is not queued: it is checked again when the job is done.
        """
        record = self._pods.get(inspection.facts.ref.uid)
        if record is not None and record.observe(inspection.facts, inspection.at):
            self._status_generator.regenerate(record)
            if not self._workers.is_working(record.ref.uid):
                self._workers.update_pod(record)

    def handle_relist(self, relisted: Relisted) -> None:
        """Take a relist of the PLEG, and remove the orphans that it shows (kubelet's HandlePodCleanups)."""
        for inspection in relisted.changed:
            self.handle_pleg_event(inspection)
        for record in self._pods:
            if not record.observed and record.ref.uid not in relisted.snapshots:
                record.observe(record.facts, relisted.at)
                self._status_generator.regenerate(record)
        for ref in self._orphans.find(relisted.snapshots, self._pods):
            _log.info("removing %s: no pod accounts for it", ref)
            self._workers.remove_orphan(ref)
        self._sources.store.handle_relist()
        if self._sources.store.recovers:
            self._node.runtime_watch.relist_soon()

    def handle_probe_result(self, uid: PodUid) -> None:
        """Generate the status of a pod after the result of a probe, of a postStart hook or of an image pull, and sync
        the pod: a container may have to be killed, or the next one may start.
        """
        record = self._pods.get(uid)
        if record is not None:
            self._status_generator.regenerate(record)
            self._workers.update_pod(record)

    def handle_work_done(self, done: Done) -> None:
        """Take the result of a job: the pod is queued again, retried, or removed."""
        self._completer.complete_work(done)

    def handle_pod_removed(self, record: PodRecord | None, uid: PodUid) -> None:
        """Forget a pod that is removed from the node. A pod of its uid or name that was held begins."""
        if record is not None:
            self._pods.forget(uid)
            self._workers.forget_pod(uid)
            self._requeue.forget_pod(uid)
            self._status_generator.forget_pod(uid)
            _log.info("pod %s is gone", record.ref)
        self._orphans.forget(uid)
        held = self._pods.release(uid)
        if held is not None:
            self._update_pod(held)

    # the node as a whole

    def handle_node_report(self, report: NodeReport) -> None:
        """Take a report of the machine and the runtime."""
        self._node.snapshots.node_reported(report, Nanoseconds(self._context.clock.now_ns()))
        runtime_name = report.runtime_version.partition("://")[0]
        self._status_generator.set_node(NodeView(report.machine.addresses, runtime_name))
        self._node.reporter.set_report(report)

    def handle_plugins_changed(self) -> None:
        """Report the drivers and devices of the node, and retry the pods that may have waited for them."""
        self._node.reporter.sync_node_status()
        self.retry_failed_pods()

    def handle_cloud_connected(self) -> None:
        """Send the statuses that the cloud has not acknowledged, and retry the pods that failed meanwhile."""
        self._node.reporter.connected()
        self._status_manager.connected()
        self.retry_failed_pods()
        self._sources.store.connected()

    def handle_status_period(self) -> None:
        """Send unacknowledged statuses again; called every status period."""
        self._node.reporter.sync_node_status()
        self._sources.static_pods.sync_mirrors()
        self._status_manager.sync_all()

    def retry_failed_pods(self) -> None:
        """Sync the pods whose last job failed, without waiting for their retry."""
        for uid in self._requeue.reset_all():
            record = self._pods.get(uid)
            if record is not None:
                self._workers.update_pod(record)

    def _update_pod(self, pod: Pod, *, is_stored: bool = True) -> None:
        """Take the desired state of a pod. The echo of a reported status changes nothing (kubelet's reconcile) but the
        conditions of others.

        A pod that arrives again during its removal is started after the removal, as in a kubelet.
        """
        uid = ref_of(pod).uid
        self._note_message(uid)
        known = self._pods.get(uid)
        if (known is not None and known.deleted) or self._orphans.get(uid) is not None:
            self._pods.hold(pod)
            if known is not None and not known.deletion_stored:
                self._workers.update_pod(known)
            return
        predecessor = self._static_predecessor(pod)
        if predecessor is not None:
            self._remove(predecessor)
            self._pods.hold(pod, behind=predecessor.ref.uid)
            return
        if known is None and not was_admitted(pod) and self._recheck.holds_back(pod):
            return
        ended = known is not None and terminated_by_cloud(known.pod, pod)
        echo = known is not None and not ended and same_spec(known.pod, pod)
        before = known.pod.status if known is not None else None
        record = self._pods.put(pod)
        if known is None and is_stored:
            self._remove_namesakes(record)
        self._status_manager.add_pod(record.ref, pod)
        if ended:
            self._status_manager.set_pod_status(uid, record.pod.status)
        if not echo:
            rejection = self._admitter.rejection(record, is_new=known is None)
            if rejection is not None:
                self._killer.reject_pod(record, rejection)
        if echo and record.pod.status == before:
            self._status_generator.publish()
        else:
            self._status_generator.regenerate(record)
        self._status_manager.correct_pod_status(uid)
        if not echo:
            self._workers.update_pod(record)

    def _static_predecessor(self, pod: Pod) -> PodRecord | None:
        """Return the still running predecessor of a static pod whose file has changed. It is removed first, as in a
        kubelet, because both use the same ports and directories of the node.
        """
        if not is_static(pod):
            return None
        others = self._pods.by_name(pod.metadata.namespace, pod.metadata.name)
        return next((other for other in others if other.ref.uid != pod.metadata.uid), None)

    def _remove_namesakes(self, record: PodRecord) -> None:
        """Remove the pods that had the name of a new one, whose place in the store it has taken: a cluster has one pod
        of a name. A cloud that lost its objects makes new ones, and never deletes the old ones.
        """
        ref, created = record.ref, record.pod.metadata.creation_timestamp or ""
        self._pods.drop_held(ref.namespace, ref.name)
        for other in self._pods.by_name(ref.namespace, ref.name):
            is_older = (other.pod.metadata.creation_timestamp or "") <= created
            if other is not record and not other.deletion_stored and is_older:
                _log.info("pod %s: another of its name has come", other.ref)
                self._remove(other)

    def _remove(self, record: PodRecord, grace_period: int | None = None, *, is_stored: bool = True) -> None:
        """Remove a pod from the node. Its status is not reported any more."""
        record.delete(grace_period, is_stored=is_stored)
        self._status_generator.stop(record)
        self._workers.update_pod(record)

    def _note_message(self, uid: PodUid) -> None:
        if not self._complete:
            self._updated.add(uid)

    def _check_sources(self) -> None:
        """Start to look for orphans once every source has sent all its pods (kubelet's sourcesReady)."""
        if self._sources.store.listed and self._sources.static_pods.all_ready and not self._sources_ready:
            self._sources_ready = True
            self._sources.store.sources_ready()
            self._node.runtime_watch.relist_soon()
            self._sources.static_pods.cloud_pods_listed()
