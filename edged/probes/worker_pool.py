"""The actors that make probes, started when needed."""

from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pykka

from beehive import Actor, ModuleContext
from edged.pods.model import PodUid
from edged.probes.model import ProbeResult
from edged.probes.runner import ProbeAttempt, ProbeRunner

MAX_WORKERS = 32
"""Largest number of busy actors; beyond it each pod has a single actor."""

MAX_WORKERS_PER_POD = 16
"""Largest number of actors that are busy with one pod: so many of its containers may hang at the same time."""

_SPARE = 2
"""Idle actors to keep."""

PROBER: Final = "edged/prober"
"""Name of the actors."""
PROBED: Final = "probed"
"""First word of the turn in which edged takes the result of a probe; the container's id and the probe's kind follow."""


def turn_of(attempt: ProbeAttempt) -> str:
    """Return the name of the turn in which edged takes the result of a probe: a container's probes are made at once."""
    return f"{PROBED} {attempt.container} {attempt.kind.value}"


class CompletedProbe(msgspec.Struct, frozen=True):
    """The result of a probe, by the number that the pool gave it."""

    number: int
    result: ProbeResult


class Assignment(msgspec.Struct, frozen=True):
    """A probe for a worker, with the number that the pool gave it."""

    number: int
    attempt: ProbeAttempt


class ProbeWorker(Actor):
    """Actor that makes one probe at a time. `runner` makes it, the pool gets the result on the thread of `context`."""

    def __init__(self, runner: ProbeRunner, context: ModuleContext, pool: "ProbeWorkerPool") -> None:
        super().__init__()
        self._runner = runner
        self._context = context
        self._pool = pool

    def on_receive(self, message: object) -> None:
        """Make a probe."""
        if isinstance(message, Assignment):
            begun = self.clock.monotonic()
            completed = CompletedProbe(message.number, self._runner.run(message.attempt))
            self._context.call_soon(lambda: self._pool.complete(completed), turn_of(message.attempt), begun)


class _Waiting(msgspec.Struct, frozen=True):
    assignment: Assignment
    answered: Callable[[ProbeResult], None]
    still_needed: Callable[[], bool]


class _Busy(msgspec.Struct, frozen=True):
    worker: pykka.ActorRef[Any]
    uid: PodUid
    answered: Callable[[ProbeResult], None]


class ProbeWorkerPool:
    """A pool of `ProbeWorker` actors that take the probes, on the edged module's thread.

    A probe blocks (a container may take its time to answer), so it cannot run on the module's thread; and a thread for
    each probe would be hundreds on a full node, nearly all of them asleep. (A kubelet has a goroutine for each.)

    Waiting probes are queued by pod, and pods are served in turn, so no pod's containers delay another pod's. A pod has
    at most `MAX_WORKERS_PER_POD` actors; one it gets always, however many other pods have hanging probes: then there
    are more than `MAX_WORKERS` actors, at most one for each pod. A waiting probe is late, which does not count against
    its container.

    Args:
        context: the module.
        runner: makes a probe, on the thread of a worker.
    """

    def __init__(self, context: ModuleContext, runner: ProbeRunner) -> None:
        self._context = context
        self._runner = runner
        self._idle: list[pykka.ActorRef[Any]] = []
        self._busy: dict[int, _Busy] = {}
        self._busy_with: Counter[PodUid] = Counter()
        self._waiting: dict[PodUid, deque[_Waiting]] = {}
        """By pod; the pod to serve next comes first."""
        self._number = 0

    def submit(
        self,
        uid: PodUid,
        attempt: ProbeAttempt,
        answered: Callable[[ProbeResult], None],
        still_needed: Callable[[], bool],
    ) -> None:
        """Make a probe as soon as an actor is free, and call `answered` with the result.

        The probe is dropped if `still_needed` then returns false.
        """
        self._number += 1
        waiting = _Waiting(Assignment(self._number, attempt), answered, still_needed)
        self._waiting.setdefault(uid, deque()).append(waiting)
        self._dispatch()

    def complete(self, probe: CompletedProbe) -> None:
        """Take a worker's result, and give the worker the next probe."""
        busy = self._busy.pop(probe.number)
        self._busy_with[busy.uid] -= 1
        if not self._busy_with[busy.uid]:
            del self._busy_with[busy.uid]
        self._idle.append(busy.worker)
        self._dispatch()
        while len(self._idle) > _SPARE:
            self._idle.pop().stop(block=False)
        busy.answered(probe.result)

    def stop_idle(self) -> None:
        """Stop all idle workers."""
        while self._idle:
            self._idle.pop().stop(block=False)

    def _dispatch(self) -> None:
        while (uid := self._next_pod()) is not None:
            waiting = self._waiting.pop(uid)
            next_up = waiting.popleft()
            if waiting:
                self._waiting[uid] = waiting
            if next_up.still_needed():
                self._give(uid, next_up)

    def _start_worker(self) -> pykka.ActorRef[Any]:
        return self._context.start_actor(ProbeWorker, self._runner, self._context, self, name=PROBER)

    def _next_pod(self) -> PodUid | None:
        """Return the first pod that may have one more worker now."""
        room = len(self._busy) < MAX_WORKERS
        fits = (uid for uid in self._waiting if self._busy_with[uid] < (MAX_WORKERS_PER_POD if room else 1))
        return next(fits, None)

    def _give(self, uid: PodUid, next_up: _Waiting) -> None:
        worker = self._idle.pop() if self._idle else self._start_worker()
        self._busy[next_up.assignment.number] = _Busy(worker, uid, next_up.answered)
        self._busy_with[uid] += 1
        worker.tell(next_up.assignment)
