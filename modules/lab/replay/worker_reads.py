"""The answers that workers have read from the container runtime in a recorded run.

A worker reads a pod in several calls: it lists its sandboxes and containers, and asks for the status of each. A
container may end between the readings of a worker and of the PLEG, a millisecond apart. So a replay does not choose the
answer of each call by its time: a worker that reads a pod after a change gets the very answers of the reading after
that change, and a job that begins gets all answers of one recorded reading.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final

import msgspec

from beehive.trace import CriCall, CriEvent

CHANGES: Final = frozenset(
    {
        "run_pod_sandbox",
        "stop_pod_sandbox",
        "remove_pod_sandbox",
        "create_container",
        "start_container",
        "stop_container",
        "remove_container",
        "pull_image",
        "remove_image",
        "reopen_container_log",
        "exec_sync",
    }
)
"""Calls that change something; the others only read."""
SHARED: Final = "pull_image"
"""A call that belongs to no worker's job: pods share it, and which of them it names is a race."""
FIRST: Final = "list_pod_sandboxes"
"""A worker's first call of reading a pod."""
LATE: Final = 0.25
"""Seconds that a job may begin later than the recorded one whose answers it gets."""
NEAR: Final = 1.0
"""Seconds that it may begin earlier, if nothing happens to the pod meanwhile."""
SOON: Final = 0.02
"""Seconds that it may begin earlier in any case."""


class Reading(msgspec.Struct, eq=False):
    """Reads of one worker that belong together: the reads of a pod, or the reads after a change."""

    head: CriCall
    """The list of sandboxes it began with, or the change."""
    pod: str
    """Uid of the pod."""
    answers: dict[Hashable, list[CriCall]] = {}
    """Reads that are not answered yet, by their role."""
    following: Reading | None = None
    """The next reading of the pod by the same job."""
    is_change: bool = False

    @property
    def begin(self) -> float:
        """When it began."""
        return self.head.time - self.head.seconds


class _Place(msgspec.Struct, frozen=True):
    """The last step of a worker of the replay."""

    span: int
    """Present span of the worker."""
    reading: Reading


class WorkerReads:
    """Readings of a recorded run; each is used once.

    Args:
        calls: calls of all actors but the PLEG.
        pod_of: returns the uid of the pod that a call is about; empty for calls about no pod.
        role: returns the role of a call.
    """

    def __init__(
        self,
        calls: Iterable[CriCall],
        pod_of: Callable[[CriCall], str],
        role: Callable[[CriCall], Hashable],
    ) -> None:
        self._readings: dict[str, list[Reading]] = {}
        self._changes: dict[int, Reading] = {}
        self._places: dict[tuple[str, str], _Place] = {}
        """By the name of the worker, which several may have, and the pod."""
        self._used: dict[str, int] = {}
        """Span of the last used reading or change of each pod."""
        self._begun: dict[str, list[tuple[float, int]]] = {}
        """Beginnings and spans of the readings and changes of each pod."""
        self._last: dict[str, tuple[float, float]] = {}
        """When the replay began the last reading of each pod, and when the recorded run did."""
        last: dict[tuple[str, str], Reading] = {}
        for call in sorted(calls, key=lambda call: call.span):
            if call.method == SHARED:
                continue
            pod = pod_of(call)
            key, is_change = (call.sender, pod), call.method in CHANGES
            if pod and (is_change or call.method == FIRST):
                last[key] = self._add(call, pod, last.get(key), is_change=is_change)
            if not is_change and key in last:
                last[key].answers.setdefault(role(call), []).append(call)

    def _add(self, call: CriCall, pod: str, before: Reading | None, *, is_change: bool) -> Reading:
        made = Reading(call, pod, is_change=is_change)
        self._begun.setdefault(pod, []).append((made.begin, call.span))
        if is_change:
            self._changes[id(call)] = made
            return made
        self._readings.setdefault(pod, []).append(made)
        if before is not None and before.head.cause == call.cause:
            before.following = made
        return made

    def begins(self) -> dict[str, list[float]]:
        """Return when workers began to read each pod, by its uid."""
        return {pod: [one.begin for one in readings] for pod, readings in self._readings.items()}

    def change_made(self, actor: str, span: int, change: CriCall) -> None:
        """Note that an actor makes a recorded change now."""
        reading = self._changes.get(id(change))
        if reading is not None:
            self._use(actor, span, reading)

    def begin(
        self, actor: str, span: int, pod: str, now: float, until: float, allowed: Callable[[CriCall], bool]
    ) -> None:
        """Begin to read a pod.

        Args:
            actor: the reader.
            span: its present span.
            pod: uid of the pod.
            now: the time.
            until: when the next event about the pod comes.
            allowed: whether a call came before the next change that the replay has yet to make.
        """
        place = self._places.pop((actor, pod), None)
        found = self._in_same_job(place, span, now) or self._at_this_time(pod, now, until, allowed)
        if found is not None:
            self._use(actor, span, found)
            self._last[pod] = now, found.begin

    def last_begun(self, pod: str, time: float) -> int:
        """Return the span of the last reading or change of a pod that had begun by a time; 0 if none had."""
        return max((span for begin, span in self._begun.get(pod, ()) if begin <= time), default=0)

    def present(self, pod: str) -> int:
        """Return the span of the last reading or change of a pod that the replay has begun; 0 if it has begun none."""
        return self._used.get(pod, 0)

    def begun_at(self, pod: str, now: float) -> float:
        """Return when the recorded run began the reading of a pod that the replay began at `now`; `now` if there was
        none.
        """
        begun, recorded = self._last.get(pod, (now, now))
        return recorded if begun == now else now

    def answer(self, actor: str, pod: str, role: Hashable) -> CriCall | None:
        """Return the answer to a read of the reading that an actor has begun; None if there was no such read.

        After a change older agents listed the pod again before they read what they had made.
        """
        place = self._places.get((actor, pod))
        if place is not None and place.reading.is_change and not place.reading.answers.get(role):
            following = place.reading.following
            if following is not None and role in following.answers:
                place = self._use(actor, place.span, following)
        waiting = place.reading.answers.get(role) if place is not None else None
        return waiting.pop(0) if waiting else None

    def ended_at(self, pod: str, results: Iterable[CriEvent]) -> float | None:
        """Return when edged took the result of the job that has just ended; None if that is not recorded.

        Args:
            pod: uid of the pod.
            results: the recorded results of its jobs.
        """
        used = self._used.get(pod, 0)
        begun = min((span for _, span in self._begun.get(pod, ()) if span > used), default=None)
        found = min((one for one in results if one.span > used), key=lambda one: one.span, default=None)
        return None if found is None or (begun is not None and begun < found.span) else found.time

    def _use(self, actor: str, span: int, reading: Reading) -> _Place:
        place = self._places[actor, reading.pod] = _Place(span, reading)
        self._used[reading.pod] = max(self._used.get(reading.pod, 0), reading.head.span)
        return place

    def _in_same_job(self, place: _Place | None, span: int, now: float) -> Reading | None:
        """Return the next reading in the worker's job."""
        if place is None or place.span != span:
            return None
        following = place.reading.following
        if following is None or following.head.span <= self._used.get(following.pod, 0):
            return None
        return following if place.reading.is_change or following.begin <= now + NEAR else None

    def _at_this_time(self, pod: str, now: float, until: float, allowed: Callable[[CriCall], bool]) -> Reading | None:
        """Return the first reading that has not been used, and that was made at about this time."""
        used, latest = self._used.get(pod, 0), max(now + SOON, min(until, now + NEAR))
        for reading in self._readings.get(pod, ()):
            if reading.head.span > used and reading.head.time >= now - LATE:
                return reading if reading.begin <= latest and allowed(reading.head) else None
        return None
