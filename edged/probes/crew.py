"""A few actors that ask, hired when there is something to ask. Lives on the edged module's thread.

Asking blocks (a container may take its time to answer), so it is not done on the module's thread; but a thread for each
probe would be hundreds on a full node, nearly all of them asleep. A kubelet has a goroutine for each.

So that nobody's containers keep those of others from being asked, questions wait pod by pod, and the pods take turns. A
pod has so many actors at most; and one it always gets, however many other pods have questions that are not answered:
then there are more actors than usual, at most one for each pod. What waits is asked late, which is not counted against
a container.
"""

from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import pykka

from beehive import Actor
from edged.pods.model import PodUid
from edged.probes.model import Answer
from edged.probes.runner import Attempt, ProbeRunner

MOST = 32
"""Actors for all pods; beyond it a pod only gets the one that it always gets."""

MOST_OF_A_POD = 16
"""Actors that are busy with one pod: so many of its containers that do not answer are waited for at once."""

_SPARE = 2
"""Actors that are kept when there is nothing to ask."""


class Asked(NamedTuple):
    """What came of a question."""

    number: int
    answer: Answer


class _Question(NamedTuple):
    number: int
    attempt: Attempt


class ProbeWorker(Actor):
    """Args: `runner` asks; `done` takes the answer and must not block."""

    def __init__(self, runner: ProbeRunner, done: Callable[[Asked], None]) -> None:
        super().__init__()
        self._runner = runner
        self._done = done

    def on_receive(self, message: object) -> None:
        """Ask."""
        if isinstance(message, _Question):
            self._done(Asked(message.number, self._runner.run(message.attempt)))


class _Waiting(NamedTuple):
    question: _Question
    answered: Callable[[Answer], None]
    wanted: Callable[[], bool]


class _Busy(NamedTuple):
    worker: pykka.ActorRef[Any]
    uid: PodUid
    answered: Callable[[Answer], None]


class Crew:
    """See the module's docstring. `hire` makes one more `ProbeWorker`, which says to `done` what came of a question."""

    def __init__(self, hire: Callable[[], pykka.ActorRef[Any]]) -> None:
        self._hire = hire
        self._idle: list[pykka.ActorRef[Any]] = []
        self._busy: dict[int, _Busy] = {}
        self._busy_with: Counter[PodUid] = Counter()
        self._waiting: dict[PodUid, deque[_Waiting]] = {}
        """By pod; the pod whose turn is next comes first."""
        self._number = 0

    def ask(
        self, uid: PodUid, attempt: Attempt, answered: Callable[[Answer], None], wanted: Callable[[], bool]
    ) -> None:
        """Ask for a pod as soon as it is its turn and somebody is free, and call `answered`; nobody is asked when it is
        not `wanted` any more.
        """
        self._number += 1
        self._waiting.setdefault(uid, deque()).append(_Waiting(_Question(self._number, attempt), answered, wanted))
        self._dispatch()

    def done(self, asked: Asked) -> None:
        """A worker has an answer."""
        busy = self._busy.pop(asked.number)
        self._busy_with[busy.uid] -= 1
        if not self._busy_with[busy.uid]:
            del self._busy_with[busy.uid]
        self._idle.append(busy.worker)
        self._dispatch()
        while len(self._idle) > _SPARE:
            self._idle.pop().stop(block=False)
        busy.answered(asked.answer)

    def rest(self) -> None:
        """There is nothing to be asked any more: keep nobody."""
        while self._idle:
            self._idle.pop().stop(block=False)

    def _dispatch(self) -> None:
        while (uid := self._next_pod()) is not None:
            waiting = self._waiting.pop(uid)
            next_up = waiting.popleft()
            if waiting:
                self._waiting[uid] = waiting
            if next_up.wanted():
                self._give(uid, next_up)

    def _next_pod(self) -> PodUid | None:
        """The first pod in turn that may have one more worker now."""
        room = len(self._busy) < MOST
        fits = (uid for uid in self._waiting if self._busy_with[uid] < (MOST_OF_A_POD if room else 1))
        return next(fits, None)

    def _give(self, uid: PodUid, next_up: _Waiting) -> None:
        worker = self._idle.pop() if self._idle else self._hire()
        self._busy[next_up.question.number] = _Busy(worker, uid, next_up.answered)
        self._busy_with[uid] += 1
        worker.tell(next_up.question)
