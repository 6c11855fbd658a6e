"""WorkCompleter: takes the results of jobs, after kubelet's completeWork."""

import logging
from collections.abc import Callable, Mapping

from edged.api import ContainerStateWaiting
from edged.cri.errors import UnavailableError
from edged.errors import found_no_room
from edged.events.pods import PodEvents
from edged.pleg.messages import WorkerInspection
from edged.pod_workers.job import Done
from edged.pod_workers.work_queue import Queue, queue_of
from edged.pods.manager import PodRecord
from edged.pods.model import PodUid
from edged.pods.pod_status.status import crash_loop
from edged.pods.state import PodState
from edged.sync_parts import NodeParts, PodParts, StatusParts

_log = logging.getLogger(__name__)


class WorkCompleter:
    """Notes a worker's result, and queues the pod again, retries it or removes it. Lives on the edged module's thread.

    Args:
        events: records containers that have to wait for their restart.
        pods: the pods, and the parts that change them.
        status: the statuses.
        node: the node as a whole.
        removed: called with the record, if there is one, and the uid when a pod has left nothing on the node.
    """

    def __init__(
        self,
        events: PodEvents,
        pods: PodParts,
        status: StatusParts,
        node: NodeParts,
        removed: Callable[[PodRecord | None, PodUid], None],
    ) -> None:
        self._events = events
        self._pods = pods.manager
        self._workers = pods.workers
        self._jobs = pods.jobs
        self._requeue = pods.requeue
        self._killer = pods.killer
        self._status_generator = status.generator
        self._status_manager = status.manager
        self._runtime_watch = node.runtime_watch
        self._housekeeping = node.housekeeping
        self._owner = node.owner
        self._removed = removed

    def complete_work(self, done: Done) -> None:
        """Take the result of a job. The worker is freed last, when the record has all that its next job needs."""
        if done.error is not None and found_no_room(done.error):
            self._housekeeping.check_now()
        if done.facts is not None:
            inspection = WorkerInspection(done.facts, self._owner, done.facts_at)
            self._runtime_watch.add_inspection(inspection)
        uid = done.job.ref.uid
        record = self._pods.get(uid)
        if record is not None:
            self._update_record(record, done)
        if done.kill_options is not None:
            self._killer.kill_pod(uid, done.kill_options)
        elif done.error is not None:
            self._retry(record, done)
        else:
            self._continue(record, done)
        self._workers.complete_work(done)

    def _update_record(self, record: PodRecord, done: Done) -> None:
        if done.facts is not None:
            record.synced(done.facts, done.facts_at, done.replaced)
        record.wait({**self._restart_waits(record, done), **done.waiting_reasons})
        if done.terminated and record.termination_requested:
            record.terminate()
        self._status_generator.regenerate(record, record.facts)

    def _restart_waits(self, record: PodRecord, done: Done) -> Mapping[str, ContainerStateWaiting]:
        """Return the containers that wait for their restart, and record an event for each that did not wait before."""
        if done.job.state is not PodState.SYNC:
            return {}
        waits = self._jobs.next_actions(record).waiting
        reasons = {wait.container.name: crash_loop(record.ref, wait) for wait in waits}
        for name, reason in reasons.items():
            if record.waiting_reasons.get(name) != reason:
                self._events.back_off(record.pod, name)
        return reasons

    def _continue(self, record: PodRecord | None, done: Done) -> None:
        """Queue a pod again after a job without error. A job that only waits does not show whether the cause of the
        last failure is gone, so the retry delay keeps growing.
        """
        uid = done.job.ref.uid
        if not done.pending:
            self._requeue.reset(uid)
        if done.job.state is PodState.TERMINATED:
            if record is not None and done.job.keeps_last and not self._pods.is_held(uid):
                record.end()
                self._status_generator.publish()
            else:
                self._removed(record, uid)
        elif record is None:
            return
        elif done.job.state is PodState.TERMINATING:
            if record.deletion_requested:
                self._status_manager.terminate_pod(uid)
        elif done.pending or not record.finished:
            delay = self._requeue.after_success(record, done)
            if delay is None:
                self._workers.update_pod(record)
            else:
                self._workers.update_pod_after(uid, Queue.ADDITION, delay)

    def _retry(self, record: PodRecord | None, done: Done) -> None:
        delay = self._requeue.after_failure(record, done)
        queue = Queue.ADDITION if done.job.state is PodState.SYNC else queue_of(done.job.state)
        level = logging.DEBUG if isinstance(done.error, UnavailableError) else logging.WARNING
        _log.log(level, "pod %s: %s; again in %.0f s", done.job.ref, done.error, delay)
        self._workers.update_pod_after(done.job.ref.uid, queue, delay)
