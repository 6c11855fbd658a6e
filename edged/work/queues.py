"""The addition and the deletion queue of pods, and the rule that one pod is never on two workers at once.

Pure: a data structure of the edged module, which alone touches it. The semantics are those of a kubelet's work
queues: a key that waits is not queued twice; a key that is worked on and asked for again is queued again when its
worker is done; a delayed key keeps its earliest time. A deletion overrides an addition of the same pod.
"""

import heapq
from enum import Enum

import msgspec

from edged.pods.model import PodUid


class Queue(Enum):
    """Which queue a pod is in."""

    ADDITION = "addition"
    DELETION = "deletion"


class Work(msgspec.Struct, frozen=True, gc=False):
    """A pod whose turn it is."""

    uid: PodUid
    queue: Queue


class WorkQueues:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._waiting: dict[PodUid, Queue] = {}
        self._working: set[PodUid] = set()
        self._again: dict[PodUid, Queue] = {}
        self._delayed: list[tuple[float, int, PodUid, Queue]] = []
        self._due: dict[PodUid, float] = {}
        self._order = 0

    def add(self, uid: PodUid, queue: Queue) -> None:
        """Ask for a pod to be worked on; at the end of its queue, or after the worker that has it now."""
        self._due.pop(uid, None)
        target = self._again if uid in self._working else self._waiting
        if target.get(uid) is not Queue.DELETION:
            target[uid] = queue

    def add_at(self, uid: PodUid, queue: Queue, due: float) -> None:
        """Ask for it at a point in time (monotonic seconds); an earlier wish stands."""
        if uid in self._waiting or self._due.get(uid, float("inf")) <= due:
            return
        self._order += 1
        self._due[uid] = due
        heapq.heappush(self._delayed, (due, self._order, uid, queue))

    def take(self, *queues: Queue) -> Work | None:
        """The next pod to work on, of these queues or (without any) of all: deletions first, each in its order."""
        for wanted in queues or (Queue.DELETION, Queue.ADDITION):
            for uid, queue in self._waiting.items():
                if queue is wanted:
                    del self._waiting[uid]
                    self._working.add(uid)
                    return Work(uid, queue)
        return None

    def done(self, uid: PodUid) -> None:
        """Say that a worker has finished with a pod."""
        self._working.discard(uid)
        again = self._again.pop(uid, None)
        if again is not None:
            self.add(uid, again)

    def forget(self, uid: PodUid) -> None:
        """Drop every wish for a pod that is gone; a worker that has it now goes on."""
        self._waiting.pop(uid, None)
        self._again.pop(uid, None)
        self._due.pop(uid, None)

    def release(self, now: float) -> None:
        """Queue what is due."""
        while self._delayed and self._delayed[0][0] <= now:
            due, _, uid, queue = heapq.heappop(self._delayed)
            if self._due.get(uid) == due:
                self.add(uid, queue)

    def next_due(self) -> float | None:
        """When `release` has something to do, in monotonic seconds."""
        while self._delayed and self._due.get(self._delayed[0][2]) != self._delayed[0][0]:
            heapq.heappop(self._delayed)
        return self._delayed[0][0] if self._delayed else None

    def working(self, uid: PodUid) -> bool:
        """Whether a worker has the pod."""
        return uid in self._working

    def __len__(self) -> int:
        return len(self._waiting) + len(self._again)
