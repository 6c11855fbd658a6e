"""Decides which request is sent next to an API server, and which is repeated. Without threads, sockets and clocks."""

import random
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from beehive.printable import clipped
from modules.cloud.client.kube_api import CallResponse
from modules.cloud.client.lane_calls import (
    DEFAULT_LIMITS,
    Call,
    CallAnswered,
    CallFailed,
    CallSuperseded,
    LaneEffect,
    LaneFull,
    LaneLimits,
    RequestLane,
    SendCall,
    WakeLanesAt,
)
from modules.cloud.client.lane_queue import LaneQueue, WaitingCall

MAX_ATTEMPTS: Final = 5
"""How often an idempotent call is sent before it fails."""
SHORTEST_PAUSE: Final = 1.0
"""Seconds that a lane waits after a 429."""
_RETRIED: Final = frozenset({500, 502, 503, 504})
_TOO_MANY_REQUESTS: Final = 429


class RequestLanes:
    """The calls that wait and those in flight.

    Each method takes an event, with the time where it matters, and returns the resulting actions, in order. A call ends
    with `CallAnswered`, `CallFailed`, `CallSuperseded` or `LaneFull`, exactly one of them. The first lane with a call
    that may be sent is served first; limits keep places for the upper lanes, so that no number of events keeps a lease
    waiting.

    After a 429 its lane waits, and the call is sent again: the server has not carried it out. After other errors of the
    server or the connection an idempotent call is sent again, up to `MAX_ATTEMPTS` times; later calls with its key
    wait, or take its place where the lane keeps the newest only.

    Args:
        source: of the jitter of retries.
        limits: of the lanes.
    """

    def __init__(self, source: random.Random, limits: Mapping[RequestLane, LaneLimits] = DEFAULT_LIMITS) -> None:
        self._queues = {lane: LaneQueue(limits[lane], source) for lane in RequestLane}
        self._calls: dict[int, WaitingCall] = {}
        """Waiting calls and calls in flight, by number."""
        self._deadlines: dict[RequestLane, deque[tuple[float, int]]] = {lane: deque() for lane in RequestLane}
        """Deadlines of the lane's calls, also of some that have ended, by time."""
        self._from_lowest = list(reversed(self._queues.items()))
        self._wake_at: float | None = None
        self._is_time_new = False
        """Whether something may be due before `_wake_at`."""

    def waiting(self, lane: RequestLane) -> int:
        """Return the number of calls of a lane that wait."""
        return len(self._queues[lane])

    def in_flight(self, lane: RequestLane) -> int:
        """Return the number of calls of a lane that are in flight."""
        return self._queues[lane].in_flight

    def lane_of(self, number: int) -> RequestLane:
        """Return the lane of a call that waits or is in flight."""
        return self._calls[number].call.lane

    def submit(self, call: Call, now: float) -> list[LaneEffect]:
        """Take a call."""
        queue = self._queues[call.lane]
        if not queue.has_room(call):
            return [LaneFull(call.number)]
        waiting = WaitingCall(call, now + queue.limits.seconds)
        self._calls[call.number] = waiting
        self._deadlines[call.lane].append((waiting.deadline, call.number))
        self._is_time_new = waiting.deadline < (self._wake_at or 0.0) or now < queue.paused_until
        replaced = queue.put(waiting)
        return [*self._superseded(replaced), *self._proceed(now)]

    def on_response(self, number: int, response: CallResponse, now: float) -> list[LaneEffect]:
        """Take the response to a call."""
        waiting = self._flying(number)
        if waiting is None:
            return []
        return [*self._responded(waiting, response, now), *self._proceed(now)]

    def on_error(self, number: int, error: Exception, now: float) -> list[LaneEffect]:
        """Take the reason why there is no response to a call."""
        waiting = self._flying(number)
        if waiting is None:
            return []
        return [*self._failed(waiting, clipped(str(error)), 0, 0.0, now), *self._proceed(now)]

    def on_wake(self, now: float) -> list[LaneEffect]:
        """Take that the time of `WakeLanesAt` has come; earlier ones do no harm."""
        self._wake_at = None
        return list(self._proceed(now))

    def _flying(self, number: int) -> WaitingCall | None:
        waiting = self._calls.get(number)
        return waiting if waiting is not None and waiting.is_in_flight else None

    def _responded(self, waiting: WaitingCall, response: CallResponse, now: float) -> Iterator[LaneEffect]:
        status = response.status
        if status == _TOO_MANY_REQUESTS:
            yield from self._pause(waiting, response.retry_after, now)
        elif status >= 500:
            why = f"the API server answered {status}"
            yield from self._failed(waiting, why, status, response.retry_after, now)
        else:
            self._end(waiting)
            yield CallAnswered(waiting.call.number, response.result)

    def _pause(self, waiting: WaitingCall, seconds: float, now: float) -> Iterator[LaneEffect]:
        queue = self._queues[waiting.call.lane]
        queue.paused_until = max(queue.paused_until, now + max(SHORTEST_PAUSE, seconds))
        self._is_time_new = True
        if now >= waiting.deadline:
            self._end(waiting)
            yield CallFailed(waiting.call.number, "the API server has too many requests", _TOO_MANY_REQUESTS)
        else:
            yield from self._superseded(queue.give_back(waiting))

    def _failed(self, waiting: WaitingCall, why: str, status: int, at_least: float, now: float) -> Iterator[LaneEffect]:
        is_retried = waiting.call.idempotent and (not status or status in _RETRIED)
        if is_retried and waiting.attempts < MAX_ATTEMPTS and now < waiting.deadline:
            self._is_time_new = True
            yield from self._superseded(self._queues[waiting.call.lane].retry(waiting, now, at_least))
            return
        self._end(waiting)
        times = f", {waiting.attempts} times" if waiting.attempts > 1 else ""
        yield CallFailed(waiting.call.number, why + times, status)

    def _end(self, waiting: WaitingCall) -> None:
        lane = waiting.call.lane
        self._queues[lane].finish(waiting)
        del self._calls[waiting.call.number]
        deadlines = self._deadlines[lane]
        while deadlines and deadlines[0][1] not in self._calls:
            deadlines.popleft()

    def _superseded(self, waiting: WaitingCall | None) -> Iterator[LaneEffect]:
        if waiting is not None:
            del self._calls[waiting.call.number]
            yield CallSuperseded(waiting.call.number)

    def _proceed(self, now: float) -> Iterator[LaneEffect]:
        """Send what may be sent. Before the time of the last `WakeLanesAt` no deadline and no retry is due, and none is
        looked for.
        """
        is_due = self._wake_at is None or now >= self._wake_at
        for lane, queue in self._queues.items() if is_due else ():
            queue.release_due(now)
            yield from self._expired(lane, now)
        for lane, queue in self._queues.items():
            while queue.ready and now >= queue.paused_until and self._has_place(lane):
                waiting = queue.take()
                yield SendCall(waiting.call.number, waiting.call.call)
        if is_due or self._is_time_new:
            self._is_time_new = False
            yield from self._wake(now)

    def _has_place(self, lane: RequestLane) -> bool:
        if self._queues[lane].in_flight >= self._queues[lane].limits.in_flight:
            return False
        with_lower = 0
        for each, queue in self._from_lowest:
            with_lower += queue.in_flight
            if each <= lane and with_lower >= queue.limits.with_lower:
                return False
        return True

    def _expired(self, lane: RequestLane, now: float) -> Iterator[LaneEffect]:
        deadlines = self._deadlines[lane]
        while deadlines and (deadlines[0][0] <= now or deadlines[0][1] not in self._calls):
            waiting = self._calls.get(deadlines.popleft()[1])
            if waiting is None or waiting.is_in_flight:
                continue
            self._queues[lane].remove(waiting)
            del self._calls[waiting.call.number]
            yield CallFailed(waiting.call.number, f"it waited for {self._queues[lane].limits.seconds:g} s")

    def _wake(self, now: float) -> Iterator[LaneEffect]:
        times = [time for queue in self._queues.values() if (time := queue.next_time(now)) is not None]
        times += [deadlines[0][0] for deadlines in self._deadlines.values() if deadlines]
        time = min(times, default=None)
        if time is not None and (self._wake_at is None or time < self._wake_at):
            self._wake_at = time
            yield WakeLanesAt(time)
