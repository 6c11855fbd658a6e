"""Worker: the actor that carries out jobs, one at a time."""

import logging
from collections.abc import Callable
from typing import Protocol

from beehive import Actor
from edged.pod_workers.job import Done, Job

_log = logging.getLogger(__name__)


class Syncer(Protocol):
    """Carries out jobs (`PodSyncer`)."""

    def sync(self, job: Job) -> Done:
        """Carry out a job; block until it is done. Errors that concern the pod are part of the result."""


class Worker(Actor):
    """Carries out jobs on a thread of its own.

    Args:
        syncer: carries out a job.
        done: takes the result; must not block.
    """

    def __init__(self, syncer: Syncer, done: Callable[[Done], None]) -> None:
        super().__init__()
        self._syncer = syncer
        self._done = done

    def on_receive(self, message: object) -> None:
        """Carry out a job."""
        if isinstance(message, Job):
            begin = self.clock.monotonic()
            done = self._syncer.sync(message)
            seconds = self.clock.monotonic() - begin
            _log.debug("%s of pod %s took %.3f s", message.state.value, message.ref, seconds)
            self._done(done)
