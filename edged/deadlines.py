"""Ends pods that have been active for longer than they may; on the edged module's thread.

A deadline is a time of the wall clock, because it must outlive the agent. Once it is known, it is waited for by the
monotonic clock: a wall clock that is put right meanwhile (a board that booted in 1970) ends nobody.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from beehive import Clock, Timer
from edged.api import Nanoseconds, Pod
from edged.pods.deadline import DEADLINE_EXCEEDED, deadline_of
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.pods.verdict import Verdict


class Turns(Protocol):
    """The module on whose thread this lives."""

    @property
    def clock(self) -> Clock:
        """Time and randomness."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call in the module's own turn."""


class _Running(NamedTuple):
    deadline: Nanoseconds
    timer: Timer


class Deadlines:
    """Args: `turns` is the module; `end` ends a pod with a verdict, and is harmless for one that has ended."""

    def __init__(self, turns: Turns, end: Callable[[PodUid, Verdict], None]) -> None:
        self._turns = turns
        self._end = end
        self._running: dict[PodUid, _Running] = {}

    def follow(self, pod: Pod) -> None:
        """A pod is wanted like this, and its status is this."""
        uid, deadline = ref_of(pod).uid, deadline_of(pod)
        known = self._running.get(uid)
        if deadline == (known.deadline if known is not None else None):
            return
        self.forget(uid)
        if deadline is not None:
            left = (deadline - self._turns.clock.now_ns()) / 1e9
            self._running[uid] = _Running(deadline, self._turns.after(max(left, 0.0), lambda: self._over(uid)))

    def forget(self, uid: PodUid) -> None:
        """The pod is gone."""
        known = self._running.pop(uid, None)
        if known is not None:
            known.timer.cancel()

    def _over(self, uid: PodUid) -> None:
        self._end(uid, DEADLINE_EXCEEDED)
