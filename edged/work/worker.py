"""A worker: takes one job at a time and says what came of it."""

import logging
from collections.abc import Callable
from typing import Protocol

from beehive import Actor
from edged.work.job import Done, Job

_log = logging.getLogger(__name__)


class Carrier(Protocol):
    """Carries jobs out. Errors that concern the pod are part of what it returns."""

    def carry_out(self, job: Job) -> Done:
        """Do it; blocks as long as it takes."""


class Worker(Actor):
    """Args: `carrier` does the work; `done` takes the outcome and must not block."""

    def __init__(self, carrier: Carrier, done: Callable[[Done], None]) -> None:
        super().__init__()
        self._carrier = carrier
        self._done = done

    def on_receive(self, message: object) -> None:
        """Carry out a job."""
        if isinstance(message, Job):
            begin = self.clock.monotonic()
            done = self._carrier.carry_out(message)
            seconds = self.clock.monotonic() - begin
            _log.debug("%s of pod %s took %.3f s", message.task.value, message.ref, seconds)
            self._done(done)
