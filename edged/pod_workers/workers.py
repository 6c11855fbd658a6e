"""PodWorkers: syncs every pod on a worker of its own, one job of a pod at a time."""

from collections.abc import Callable

import pykka

from beehive import ModuleContext
from edged.lifecycle.pod_lifecycle import PodLifecycle
from edged.pod_workers.job import Done
from edged.pod_workers.job_source import JobSource
from edged.pod_workers.pool import WorkerPool
from edged.pod_workers.syncer import PodSyncer
from edged.pod_workers.work_queue import Queue, queue_of
from edged.pod_workers.worker import Worker
from edged.pods.grace_period import grace_seconds
from edged.pods.manager import PodRecord
from edged.pods.model import PodRef, PodUid
from edged.pods.work_figures import WorkFigures


class PodWorkers:
    """Queues pods and gives their jobs to workers (kubelet's podWorkers). Lives on the edged module's thread.

    It knows no sync loop: `done` takes the result of every job, and the receiver calls `complete_work` when it has used
    the result and queued the pod again. A job is made by the `JobSource` at the moment a worker is free, because the
    facts may have changed since the pod was queued.

    Args:
        context: the module.
        jobs: makes the jobs.
        syncer: carries them out, on the workers' threads.
        lifecycle: hooks and grace periods, which end earlier when the end of their pod is requested.
        done: takes the result of a job; called on a worker's thread.
    """

    def __init__(
        self,
        context: ModuleContext,
        jobs: JobSource,
        syncer: PodSyncer,
        lifecycle: PodLifecycle,
        done: Callable[[Done], None],
    ) -> None:
        self._context = context
        self._jobs = jobs
        self._syncer = syncer
        self._lifecycle = lifecycle
        self._done = done
        self._pool = WorkerPool(context.clock, context.after, jobs.job, self._start_terminating_worker)

    def start(self, workers: int) -> None:
        """Start the workers that pods share which are synced."""
        for number in range(workers):
            self._pool.add_worker(self._start_worker(f"edged/worker-{number}"))

    def update_pod(self, record: PodRecord) -> None:
        """Queue a pod to be synced. A job that stops containers may take their grace period: it gets a worker of its
        own.
        """
        if record.termination_requested:
            self._lifecycle.terminate_pod(record.ref.uid, grace_seconds(record.terminating_pod))
        runs = any(container.running for container in record.facts.containers)
        stops = record.termination_requested or (runs and self._jobs.next_actions(record).stops)
        self._pool.add(record.ref.uid, queue_of(record.state) if stops else Queue.ADDITION)

    def update_pod_after(self, uid: PodUid, queue: Queue, seconds: float) -> None:
        """Queue a pod when so many seconds have passed."""
        self._pool.add_after(uid, queue, seconds)

    def remove_orphan(self, orphan: PodRef) -> None:
        """Queue the removal of the sandboxes, containers and files of an orphan, which belong to no pod."""
        self._pool.add(orphan.uid, Queue.DELETION)

    def shorten_grace_period(self, record: PodRecord, seconds: int) -> None:
        """Limit the time that the containers of an ending pod have from now on."""
        self._lifecycle.terminate_pod(record.ref.uid, seconds)

    def complete_work(self, done: Done) -> None:
        """Free the worker of a job, and give it the next one."""
        self._pool.done(done)

    def is_working(self, uid: PodUid) -> bool:
        """Return whether a worker has a job of the pod now."""
        return self._pool.working(uid)

    def figures(self, failed: frozenset[PodUid]) -> WorkFigures:
        """Return the figures of the queues, with the pods whose last sync failed; any thread."""
        return self._pool.figures(failed)

    def forget_pod(self, uid: PodUid) -> None:
        """Drop a pod that is removed from the node."""
        self._pool.forget(uid)
        self._jobs.forget_pod(uid)
        self._lifecycle.forget_pod(uid)

    def _start_worker(self, name: str) -> pykka.ActorRef[Worker]:
        return self._context.start_actor(Worker, self._syncer, self._done, name=name)

    def _start_terminating_worker(self) -> pykka.ActorRef[Worker]:
        return self._start_worker("edged/terminating")
