"""The calls of one lane that wait, by key."""

import random
from collections import OrderedDict, deque
from heapq import heappop, heappush
from itertools import count

from modules.cloud.client.lane_calls import Call, LaneLimits
from modules.cloud.client.retry import RetryDelays

CallKey = str | int
"""Key of an object, or the number of a call on its own."""


class WaitingCall:
    """A call, and its attempts so far.

    Args:
        call: the call.
        deadline: when it fails if it is not in flight.
    """

    def __init__(self, call: Call, deadline: float) -> None:
        self.call = call
        self.deadline = deadline
        self.attempts = 0
        self.is_in_flight = False

    @property
    def key(self) -> CallKey:
        """Return the key under which it waits."""
        return self.call.key or self.call.number


class _KeyQueue:
    """The calls with one key, in order."""

    def __init__(self) -> None:
        self.waiting: deque[WaitingCall] = deque()
        self.is_busy = False
        """Whether a call is in flight, or the first one waits for a retry."""
        self.ready_at = 0.0
        self.delays: RetryDelays | None = None


class LaneQueue:
    """The waiting calls of a lane: first come, first served, but one at a time for each key.

    Args:
        limits: of the lane.
        source: of the jitter of retries.
    """

    def __init__(self, limits: LaneLimits, source: random.Random) -> None:
        self.limits = limits
        self.in_flight = 0
        self.paused_until = 0.0
        """The server wants no call of the lane before."""
        self._source = source
        self._keys: dict[CallKey, _KeyQueue] = {}
        self.ready: OrderedDict[CallKey, None] = OrderedDict()
        """Keys whose first call may be sent."""
        self._delayed: list[tuple[float, int, CallKey]] = []
        """Heap of the keys whose first call is a retry, by time."""
        self._order = count()
        self._size = 0
        self._bytes = 0

    def __len__(self) -> int:
        """Return the number of waiting calls."""
        return self._size

    def put(self, waiting: WaitingCall) -> WaitingCall | None:
        """Append a call, and return the one whose place it takes, None for none. Ask `has_room` before."""
        key = waiting.key
        queue = self._keys.setdefault(key, _KeyQueue())
        replaced = queue.waiting.pop() if self.limits.newest_only and queue.waiting else None
        if replaced is not None:
            self._count(replaced, -1)
        self._append(queue, waiting)
        if not queue.is_busy:
            self.ready[key] = None
        return replaced

    def has_room(self, call: Call) -> bool:
        """Return whether a call can be put."""
        replaces = self.limits.newest_only and call.key in self._keys and bool(self._keys[call.key].waiting)
        fits = self._bytes + call.size <= self.limits.waiting_bytes
        return fits and (replaces or self._size < self.limits.waiting)

    def is_ready(self, now: float) -> bool:
        """Return whether a call may be sent."""
        return bool(self.ready) and now >= self.paused_until

    def take(self) -> WaitingCall:
        """Take out the call that is sent next; it is in flight. Ask `is_ready` before."""
        key, _ = self.ready.popitem(last=False)
        queue = self._keys[key]
        queue.is_busy = True
        waiting = queue.waiting.popleft()
        self._count(waiting, -1)
        waiting.is_in_flight = True
        waiting.attempts += 1
        self.in_flight += 1
        return waiting

    def finish(self, waiting: WaitingCall) -> None:
        """Note that a call in flight has ended; the next one with its key may be sent."""
        self._landed(waiting)
        queue = self._keys[waiting.key]
        queue.delays = None
        self._release(waiting.key, queue)

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
        self.in_flight -= 1

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
        self._size += sign
        self._bytes += sign * waiting.call.size
