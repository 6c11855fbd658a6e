"""Asks the runtime how far a long pull is."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from beehive import Runtime
from beehive.clock import Timer
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError
from edged.images.progress import PullProgress, progress_of

FIRST_SECONDS: Final = 30.0
"""Age of a pull at the first question. The time to the next question doubles."""
LONGEST_SECONDS: Final = 600.0
"""Between two questions: the spam filter of events drops an object's events that are more frequent than every 300 s."""


class ProgressWatch:
    """Watches one pull from `start` to `stop`. A runtime that does not answer, or does not say it, is asked again.

    Args:
        actors: asks on an actor of its own, and has the clock.
        runtime: answers Status.
        image: the name in the request of the pull.
        told: gets the answers, on any thread.
    """

    def __init__(
        self, actors: Runtime, runtime: ContainerRuntime, image: str, told: Callable[[PullProgress], None]
    ) -> None:
        self._actors = actors
        self._runtime = runtime
        self._image = image
        self._told = told
        self._lock = threading.Lock()
        self._timer: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin to wait for the first question."""
        self._wait(FIRST_SECONDS)

    def stop(self) -> None:
        """Ask no more. An answer that is on its way is dropped."""
        with self._lock:
            self._stopped = True
            if self._timer is not None:
                self._timer.cancel()

    def _wait(self, seconds: float) -> None:
        with self._lock:
            if not self._stopped:
                self._timer = self._actors.clock.after(seconds, partial(self._ask_on_actor, seconds))

    def _ask_on_actor(self, waited: float) -> None:
        self._actors.call(partial(self._ask, waited), name="edged/pull-progress")

    def _ask(self, waited: float) -> None:
        try:
            progress = progress_of(self._image, self._runtime.status(verbose=True).info)
        except CriError:
            progress = None
        with self._lock:
            stopped = self._stopped
        if progress is not None and not stopped:
            self._told(progress)
        self._wait(min(2 * waited, LONGEST_SECONDS))
