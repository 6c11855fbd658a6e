"""WorkQueue: the pods that wait for a worker, each at most once."""

import heapq
from enum import Enum

import msgspec

from edged.pods.model import PodUid
from edged.pods.state import PodState


class Queue(Enum):
    """The queue that a pod is in, by the work that it needs."""

    ADDITION = "addition"
    DELETION = "deletion"
    REMOVAL = "removal"
    """The removal of a pod's files and cgroups when none of its containers runs any more."""


def queue_of(state: PodState) -> Queue:
    """Return the queue of a pod in a state, whose containers are stopped if any run."""
    return Queue.REMOVAL if state is PodState.TERMINATED else Queue.DELETION


class Work(msgspec.Struct, frozen=True, gc=False):
    """A pod that a worker takes next."""

    uid: PodUid
    queue: Queue


class WorkQueue:
    """The queues of pods. A pod is never on two workers at the same time.

    As in a kubelet's work queues: a pod that waits is not queued twice; a pod that is added while
    a worker has it is queued again when the worker is done; a delayed pod keeps its earliest time. A deletion or a
    removal overrides an addition of the same pod. A data structure without effects.
    """

    def __init__(self) -> None:
        self._waiting: dict[PodUid, Queue] = {}
        self._working: set[PodUid] = set()
        self._again: dict[PodUid, Queue] = {}
        self._delayed: list[tuple[float, int, PodUid, Queue]] = []
        self._due: dict[PodUid, float] = {}
        self._order = 0

    def add(self, uid: PodUid, queue: Queue) -> None:
        """Add a pod at the end of a queue, or after the worker that has it now."""
        self._due.pop(uid, None)
        target = self._again if uid in self._working else self._waiting
        if target.get(uid) in (None, Queue.ADDITION):
            target[uid] = queue

    def add_at(self, uid: PodUid, queue: Queue, due: float) -> None:
        """Add a pod at a time in monotonic seconds, unless it is added earlier anyway."""
        if uid in self._waiting or self._due.get(uid, float("inf")) <= due:
            return
        self._order += 1
        self._due[uid] = due
        heapq.heappush(self._delayed, (due, self._order, uid, queue))

    def take(self, *queues: Queue) -> Work | None:
        """Take the next pod out of these queues (out of all by default): deletions first, each in its order."""
        for chosen in queues or (Queue.DELETION, Queue.ADDITION, Queue.REMOVAL):
            for uid, queue in self._waiting.items():
                if queue is chosen:
                    del self._waiting[uid]
                    self._working.add(uid)
                    return Work(uid, queue)
        return None

    def waits(self, queue: Queue) -> bool:
        """Return whether a pod is in a queue."""
        return queue in self._waiting.values()

    def done(self, uid: PodUid) -> None:
        """Note that a worker has finished with a pod."""
        self._working.discard(uid)
        again = self._again.pop(uid, None)
        if again is not None:
            self.add(uid, again)

    def forget(self, uid: PodUid) -> None:
        """Drop a pod from all queues. A worker that has it now goes on."""
        self._waiting.pop(uid, None)
        self._again.pop(uid, None)
        self._due.pop(uid, None)

    def release(self, now: float) -> None:
        """Queue the delayed pods that are due at `now` (monotonic seconds)."""
        while self._delayed and self._delayed[0][0] <= now:
            due, _, uid, queue = heapq.heappop(self._delayed)
            if self._due.get(uid) == due:
                self.add(uid, queue)

    def next_due(self) -> float | None:
        """Return when the next delayed pod is due, in monotonic seconds; None when none is delayed."""
        while self._delayed and self._due.get(self._delayed[0][2]) != self._delayed[0][0]:
            heapq.heappop(self._delayed)
        return self._delayed[0][0] if self._delayed else None

    def working(self, uid: PodUid) -> bool:
        """Return whether a worker has the pod."""
        return uid in self._working

    def number_working(self) -> int:
        """Return the number of pods that workers have."""
        return len(self._working)

    def due(self) -> dict[PodUid, float]:
        """Return a copy of the times at which delayed pods are due, in monotonic seconds; any thread."""
        return self._due.copy()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._again)
