"""Waits that can be ended from elsewhere: of a worker, for a hook that may take for ever.

A `postStart` hook has no time limit in Kubernetes. The pod may be deleted meanwhile, or edged be stopped: the worker
must then come back, and not only when the hook does.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import pykka

from beehive import Actor, Runtime
from edged.pods.model import PodUid


class Limit(Protocol):
    """What may end a wait beside its pod and edged: the end of a grace period."""

    def limiting(self, end: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `end` when it is reached meanwhile."""


class Wait:
    """One wait; ended once, by whoever comes first. Thread-safe."""

    def __init__(self, future: pykka.Future[None]) -> None:
        self._future = future
        self._lock = threading.Lock()
        self._over = False

    def end(self, error: Exception | None = None) -> None:
        """End it, with an error for who waits; without effect when it has ended."""
        with self._lock:
            first, self._over = not self._over, True
        if not first:
            return
        if error is None:
            self._future.set(None)
        else:
            self._future.set_exception((type(error), error, None))

    def get(self) -> None:
        """Wait for the end; raises its error."""
        self._future.get()


class Waits:
    """The waits that there are, by the pod that they are about. Thread-safe."""

    def __init__(self, actors: Runtime) -> None:
        self._actors = actors
        self._lock = threading.Lock()
        self._waits: dict[Wait, PodUid | None] = {}
        self._ending: set[PodUid] = set()
        self._closed = False

    def pod_ends(self, uid: PodUid) -> None:
        """Waits about this pod end, those that are yet to begin too."""
        with self._lock:
            self._ending.add(uid)
            concerned = [wait for wait, about in self._waits.items() if about == uid]
        _end(concerned)

    def is_ending(self, uid: PodUid) -> bool:
        """Whether waits about this pod have ended: what is begun for it now is of no use."""
        with self._lock:
            return self._closed or uid in self._ending

    def pod_gone(self, uid: PodUid) -> None:
        """Nothing more will be about this pod."""
        with self._lock:
            self._ending.discard(uid)

    def close(self) -> None:
        """All waits end, and those that are yet to begin."""
        with self._lock:
            self._closed = True
            concerned = list(self._waits)
        _end(concerned)

    def wait(self, begin: Callable[[Wait], None], uid: PodUid | None = None, limit: Limit | None = None) -> None:
        """Begin something, and wait until it ends its `Wait`, raising the error that it ends with.

        Args:
            begin: begins it and must not block.
            uid: the pod whose end ends the wait; None when only edged's own does.
            limit: ends it too.

        Raises:
            WaitEndedError: it was ended from elsewhere.
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

    def pause(self, seconds: float, uid: PodUid | None = None, limit: Limit | None = None) -> None:
        """Let time pass."""
        self.wait(lambda wait: _start_timer(self._actors, seconds, wait), uid, limit)

    def call(self, function: Callable[[], None], uid: PodUid | None = None, limit: Limit | None = None) -> None:
        """Call something that blocks, on an actor of its own that is left to itself when the wait is ended."""
        self.wait(lambda wait: _start_call(self._actors, function, wait), uid, limit)


class WaitEndedError(Exception):
    """Nobody waits any more."""


class WaitOverError(Exception):
    """It has taken as long as it may."""


class _Caller(Actor):
    """Makes one blocking call."""

    def on_receive(self, message: Any) -> None:
        message()
        self.stop()


def _start_timer(actors: Runtime, seconds: float, wait: Wait) -> None:
    actors.clock.after(seconds, wait.end)


def _start_call(actors: Runtime, function: Callable[[], None], wait: Wait) -> None:
    def call() -> None:
        try:
            function()
        except Exception as error:  # noqa: BLE001 - handed to who waits
            wait.end(error)
        else:
            wait.end()

    actors.start(_Caller, name="hook").ref.tell(call)


def _end(waits: list[Wait]) -> None:
    for wait in waits:
        wait.end(WaitEndedError())
