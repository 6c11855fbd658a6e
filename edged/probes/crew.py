"""A few actors that ask, hired when there is something to ask. Lives on the edged module's thread.

Asking blocks (a container may take its time to answer), so it is not done on the module's thread; but a thread for each
probe would be hundreds on a full node, nearly all of them asleep. When all are busy, questions wait in their order:
they are asked late then, which is not counted against a container.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import pykka

from beehive import Actor
from edged.probes.model import Answer
from edged.probes.runner import Attempt, ProbeRunner

MOST = 16
"""Actors at most: so many containers that do not answer can be waited for at once."""

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


class Crew:
    """See the module's docstring. `hire` makes one more `ProbeWorker`, which says to `done` what came of a question."""

    def __init__(self, hire: Callable[[], pykka.ActorRef[Any]]) -> None:
        self._hire = hire
        self._idle: list[pykka.ActorRef[Any]] = []
        self._busy: dict[int, tuple[pykka.ActorRef[Any], Callable[[Answer], None]]] = {}
        self._waiting: deque[_Waiting] = deque()
        self._number = 0

    def ask(self, attempt: Attempt, answered: Callable[[Answer], None], wanted: Callable[[], bool]) -> None:
        """Ask as soon as somebody is free, and call `answered`; nobody is asked when it is not `wanted` any more."""
        self._number += 1
        self._waiting.append(_Waiting(_Question(self._number, attempt), answered, wanted))
        self._dispatch()

    def done(self, asked: Asked) -> None:
        """A worker has an answer."""
        worker, answered = self._busy.pop(asked.number)
        self._idle.append(worker)
        self._dispatch()
        while len(self._idle) > _SPARE:
            self._idle.pop().stop(block=False)
        answered(asked.answer)

    def rest(self) -> None:
        """There is nothing to be asked any more: keep nobody."""
        while self._idle:
            self._idle.pop().stop(block=False)

    def _dispatch(self) -> None:
        while self._waiting and (self._idle or len(self._busy) < MOST):
            next_up = self._waiting.popleft()
            if next_up.wanted():
                worker = self._idle.pop() if self._idle else self._hire()
                self._busy[next_up.question.number] = worker, next_up.answered
                worker.tell(next_up.question)
