"""Decides which request is sent next to an API server, and which is repeated. Without threads, sockets and clocks."""

import random
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Final

import msgspec

from beehive.printable import clipped
from modules.cloud.client.kube_api import CallResponse
from modules.cloud.client.lane_calls import (
    DEFAULT_LIMITS,
    Call,
    CallAnswered,
    CallFailed,
    CallSuperseded,
    LaneDepth,
    LaneEffect,
    LaneFull,
    LaneLimits,
    RequestLane,
    SendCall,
    WakeLanesAt,
)
from modules.cloud.client.retry import RetryDelays

MAX_ATTEMPTS: Final = 5
"""How often an idempotent call is sent before it fails."""
SHORTEST_PAUSE: Final = 1.0
"""Seconds that a lane waits after a 429."""
_RETRIED: Final = frozenset({500, 502, 503, 504})
_TOO_MANY_REQUESTS: Final = 429

CallKey = str | int
"""Key of an object, or the number of a call on its own."""


class WaitingCall(msgspec.Struct, eq=False):
    """A call, and its attempts so far."""

    call: Call
    key: CallKey
    """The key under which it waits: the object's, or its own number."""
    deadline: float
    """When it fails if it is not in flight."""
    attempts: int = 0
    is_in_flight: bool = False


class _KeyQueue(msgspec.Struct, eq=False):
    """The calls with one key, in order."""

    waiting: deque[WaitingCall] = msgspec.field(default_factory=deque)
    is_busy: bool = False
    """Whether a call is in flight, or the first one waits for a retry."""
    ready_at: float = 0.0
    delays: RetryDelays | None = None


class LaneQueue:
    """The waiting calls of a lane: first come, first served, but one at a time for each key.

    Args:
        limits: of the lane.
        source: of the jitter of retries.
        depth: is kept up to date, from zero on.
    """

    def __init__(self, limits: LaneLimits, source: random.Random, depth: LaneDepth) -> None:
        self.limits = limits
        self.depth = depth
        depth.waiting = depth.in_flight = 0
        self.paused_until = 0.0
        """The server wants no call of the lane before."""
        self._source = source
        self._keys: dict[CallKey, _KeyQueue] = {}
        self.ready: OrderedDict[CallKey, None] = OrderedDict()
        """Keys whose first call may be sent."""
        self._delayed: list[tuple[float, int, CallKey]] = []
        """Heap of the keys whose first call is a retry, by time."""
        self._order = count()
        self._bytes = 0

    def put(self, waiting: WaitingCall) -> WaitingCall | None:
        """Append a call, and return the call whose place it takes, or None. Ask `has_room` before."""
        key = waiting.key
        queue = self._keys.setdefault(key, _KeyQueue())
        replaced = queue.waiting.pop() if self.limits.newest_only and queue.waiting else None
        if replaced is not None:
            self._count(replaced, -1)
        self._append(queue, waiting)
        if not queue.is_busy:
            self.ready[key] = None
        return replaced

    def may_fly(self, waiting: WaitingCall, now: float) -> bool:
        """Take a call that is sent without waiting, and return whether that is possible: it would be the next one, and
        the server wants calls of the lane.
        """
        if self.ready or waiting.key in self._keys or now < self.paused_until:
            return False
        self._keys[waiting.key] = _KeyQueue(is_busy=True)
        waiting.is_in_flight = True
        waiting.attempts = 1
        self.depth.in_flight += 1
        return True

    def has_room(self, call: Call) -> bool:
        """Return whether a call can be put."""
        replaces = self.limits.newest_only and call.key in self._keys and bool(self._keys[call.key].waiting)
        fits = self._bytes + call.size <= self.limits.waiting_bytes
        return fits and (replaces or self.depth.waiting < self.limits.waiting)

    def pop(self) -> WaitingCall:
        """Take out the call that is sent next; it is in flight. There is one that is ready."""
        key, _ = self.ready.popitem(last=False)
        queue = self._keys[key]
        queue.is_busy = True
        waiting = queue.waiting.popleft()
        self._count(waiting, -1)
        waiting.is_in_flight = True
        waiting.attempts += 1
        self.depth.in_flight += 1
        return waiting

    def finish(self, waiting: WaitingCall) -> None:
        """Note that a call in flight has ended; the next one with its key may be sent."""
        waiting.is_in_flight = False
        self.depth.in_flight -= 1
        queue = self._keys[waiting.key]
        if queue.waiting:
            queue.delays = None
            self._release(waiting.key, queue)
        else:
            del self._keys[waiting.key]

    def give_back(self, waiting: WaitingCall) -> WaitingCall | None:
        """Put a call in flight back to the front, and return it if a newer one waits, which takes its place."""
        self._landed(waiting)
        waiting.attempts -= 1
        queue = self._keys[waiting.key]
        queue.is_busy = False
        self.ready[waiting.key] = None
        self.ready.move_to_end(waiting.key, last=False)
        return self._put_first(queue, waiting)

    def retry(self, waiting: WaitingCall, now: float, at_least: float) -> WaitingCall | None:
        """Put a call in flight back for a later attempt, and return it if a newer one waits, which takes its place."""
        self._landed(waiting)
        queue = self._keys[waiting.key]
        queue.delays = queue.delays or RetryDelays(self._source)
        queue.ready_at = now + max(at_least, queue.delays.next())
        heappush(self._delayed, (queue.ready_at, next(self._order), waiting.key))
        return self._put_first(queue, waiting)

    def remove(self, waiting: WaitingCall) -> None:
        """Take out a call that waits."""
        queue = self._keys[waiting.key]
        queue.waiting.remove(waiting)
        self._count(waiting, -1)
        if not queue.waiting and not self._is_in_flight(queue):
            self.ready.pop(waiting.key, None)
            del self._keys[waiting.key]

    def release_due(self, now: float) -> None:
        """Make the retries ready whose time has come."""
        while self._delayed and self._delayed[0][0] <= now:
            time, _, key = heappop(self._delayed)
            queue = self._keys.get(key)
            if queue is not None and queue.is_busy and queue.ready_at == time:
                self._release(key, queue)

    def next_time(self, now: float) -> float | None:
        """Return when a call may become ready, None for never by time alone."""
        times = [self._delayed[0][0]] if self._delayed else []
        if self.ready and self.paused_until > now:
            times.append(self.paused_until)
        return min(times, default=None)

    def _is_in_flight(self, queue: _KeyQueue) -> bool:
        return queue.is_busy and queue.ready_at == 0.0

    def _release(self, key: CallKey, queue: _KeyQueue) -> None:
        queue.is_busy, queue.ready_at = False, 0.0
        if queue.waiting:
            self.ready[key] = None
        else:
            del self._keys[key]

    def _landed(self, waiting: WaitingCall) -> None:
        waiting.is_in_flight = False
        self.depth.in_flight -= 1

    def _put_first(self, queue: _KeyQueue, waiting: WaitingCall) -> WaitingCall | None:
        if self.limits.newest_only and queue.waiting:
            return waiting
        queue.waiting.appendleft(waiting)
        self._count(waiting, 1)
        return None

    def _append(self, queue: _KeyQueue, waiting: WaitingCall) -> None:
        queue.waiting.append(waiting)
        self._count(waiting, 1)

    def _count(self, waiting: WaitingCall, sign: int) -> None:
        self.depth.waiting += sign
        self._bytes += sign * waiting.call.size


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
        depths: are kept up to date, from zero on.
    """

    def __init__(
        self,
        source: random.Random,
        limits: Mapping[RequestLane, LaneLimits] = DEFAULT_LIMITS,
        depths: Mapping[RequestLane, LaneDepth] | None = None,
    ) -> None:
        depths = depths or {lane: LaneDepth() for lane in RequestLane}
        self._queues = {lane: LaneQueue(limits[lane], source, depths[lane]) for lane in RequestLane}
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
        return self._queues[lane].depth.waiting

    def in_flight(self, lane: RequestLane) -> int:
        """Return the number of calls of a lane that are in flight."""
        return self._queues[lane].depth.in_flight

    def lane_of(self, number: int) -> RequestLane:
        """Return the lane of a call that waits or is in flight."""
        return self._calls[number].call.lane

    def submit(self, call: Call, now: float) -> list[LaneEffect]:
        """Take a call."""
        queue = self._queues[call.lane]
        if not queue.has_room(call):
            return [LaneFull(call.number)]
        waiting = WaitingCall(call, call.key or call.number, now + queue.limits.seconds)
        self._calls[call.number] = waiting
        self._deadlines[call.lane].append((waiting.deadline, call.number))
        wake_at = self._wake_at
        self._is_time_new = waiting.deadline < (wake_at or 0.0) or now < queue.paused_until
        is_due = wake_at is None or now >= wake_at or self._is_time_new
        if not is_due and self._has_place(call.lane) and queue.may_fly(waiting, now):
            return [SendCall(call.number, call.call)]
        replaced = queue.put(waiting)
        return [*self._superseded(replaced), *self._proceed(now)]

    def on_response(self, number: int, response: CallResponse, now: float) -> list[LaneEffect]:
        """Take the response to a call."""
        waiting = self._calls.get(number)
        if waiting is None or not waiting.is_in_flight:
            return []
        if response.status < 500 and response.status != _TOO_MANY_REQUESTS:
            self._end(waiting)
            return [CallAnswered(number, response.result), *self._proceed(now)]
        return [*self._refused(waiting, response, now), *self._proceed(now)]

    def on_error(self, number: int, error: Exception, now: float) -> list[LaneEffect]:
        """Take the reason why there is no response to a call."""
        waiting = self._calls.get(number)
        if waiting is None or not waiting.is_in_flight:
            return []
        return [*self._failed(waiting, clipped(str(error)), 0, 0.0, now), *self._proceed(now)]

    def on_wake(self, now: float) -> list[LaneEffect]:
        """Take that the time of `WakeLanesAt` has come; earlier ones do no harm."""
        self._wake_at = None
        return list(self._proceed(now))

    def _refused(self, waiting: WaitingCall, response: CallResponse, now: float) -> Iterator[LaneEffect]:
        status = response.status
        if status == _TOO_MANY_REQUESTS:
            yield from self._pause(waiting, response.retry_after, now)
        else:
            why = f"the API server answered {status}"
            yield from self._failed(waiting, why, status, response.retry_after, now)

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
                waiting = queue.pop()
                yield SendCall(waiting.call.number, waiting.call.call)
        if is_due or self._is_time_new:
            self._is_time_new = False
            yield from self._wake(now)

    def _has_place(self, lane: RequestLane) -> bool:
        if self._queues[lane].depth.in_flight >= self._queues[lane].limits.in_flight:
            return False
        with_lower = 0
        for each, queue in self._from_lowest:
            with_lower += queue.depth.in_flight
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
