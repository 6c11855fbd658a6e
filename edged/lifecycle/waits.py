"""Waits that another thread can end."""

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

import pykka

from beehive import Runtime
from edged.lifecycle.running_grace_periods import GracePeriod
from edged.pods.model import PodUid

HOOK: Final = "hook"
"""Name of the actors that run hooks."""


class Wait:
    """One wait. Only its first end counts. Thread-safe."""

    def __init__(self, future: pykka.Future[None]) -> None:
        self._future = future
        self._lock = threading.Lock()
        self._over = False

    def end(self, error: Exception | None = None) -> None:
        """End the wait, with an error that `get` raises; without effect when it has ended."""
        with self._lock:
            first, self._over = not self._over, True
        if not first:
            return
        if error is None:
            self._future.set(None)
        else:
            self._future.set_exception((type(error), error, None))

    def get(self) -> None:
        """Wait for the end. Raises the error that it ended with."""
        self._future.get()


class Waits:
    """The waits of pod workers, by pod. Thread-safe.

    A postStart hook has no time limit in Kubernetes. The pod may be deleted meanwhile, or edged be stopped: the thread
    that waits for the hook must return then, even if the hook does not.

    Args:
        actors: futures, time and threads.
    """

    def __init__(self, actors: Runtime) -> None:
        self._actors = actors
        self._lock = threading.Lock()
        self._waits: dict[Wait, PodUid | None] = {}
        self._ending: set[PodUid] = set()
        self._closed = False

    def terminate_pod(self, uid: PodUid) -> None:
        """End the present and later waits of a pod."""
        with self._lock:
            self._ending.add(uid)
            concerned = [wait for wait, about in self._waits.items() if about == uid]
        _end(concerned)

    def is_terminating(self, uid: PodUid) -> bool:
        """Return whether waits of a pod end immediately: hooks that begin now are of no use."""
        with self._lock:
            return self._closed or uid in self._ending

    def forget_pod(self, uid: PodUid) -> None:
        """Drop a pod that is removed from the node."""
        with self._lock:
            self._ending.discard(uid)

    def close(self) -> None:
        """End all present and later waits."""
        with self._lock:
            self._closed = True
            concerned = list(self._waits)
        _end(concerned)

    def wait(self, begin: Callable[[Wait], None], uid: PodUid | None = None, limit: GracePeriod | None = None) -> None:
        """Begin something, and wait until it ends its `Wait`, raising the error that it ends with.

        Args:
            begin: begins it; must not block.
            uid: the pod whose end ends the wait; None if only the end of edged does.
            limit: ends the wait too, when it is over.

        Raises:
            WaitEndedError: the pod or edged has ended.
            WaitOverError: the limit was reached.
        """
        wait = Wait(self._actors.future())
        with self._lock:
            self._waits[wait] = uid
            ended = self._closed or uid in self._ending
        try:
            if ended:
                raise WaitEndedError
            with limit.limiting(lambda: wait.end(WaitOverError())) if limit is not None else nullcontext():
                begin(wait)
                wait.get()
        finally:
            with self._lock:
                del self._waits[wait]

    def pause(self, seconds: float, uid: PodUid | None = None, limit: GracePeriod | None = None) -> None:
        """Wait for so many seconds. Raises as `wait`."""
        self.wait(lambda wait: _start_timer(self._actors, seconds, wait), uid, limit)

    def call(self, function: Callable[[], None], uid: PodUid | None = None, limit: GracePeriod | None = None) -> None:
        """Call a function that blocks, on an actor of its own that outlives the wait. Raises as `wait`."""
        self.wait(lambda wait: _start_call(self._actors, function, wait), uid, limit)


class WaitEndedError(Exception):
    """The pod or edged has ended."""


class WaitOverError(Exception):
    """The limit of a wait was reached."""


def _start_timer(actors: Runtime, seconds: float, wait: Wait) -> None:
    actors.clock.after(seconds, wait.end)


def _start_call(actors: Runtime, function: Callable[[], None], wait: Wait) -> None:
    def call() -> None:
        try:
            function()
        except Exception as error:  # noqa: BLE001 - raised by the wait
            wait.end(error)
        else:
            wait.end()

    actors.call(call, name=HOOK)


def _end(waits: list[Wait]) -> None:
    for wait in waits:
        wait.end(WaitEndedError())
