"""Lanes under test: calls are submitted and answered, and each effect is checked against what lanes promise."""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping

from modules.cloud.client.calls import ApiCall, ApiResult
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
from modules.cloud.client.lanes import RequestLanes


class LaneTraffic:
    """Lanes, and what they have done.

    Args:
        limits: of the lanes.
        seed: of the jitter.
    """

    def __init__(self, limits: Mapping[RequestLane, LaneLimits] = DEFAULT_LIMITS, seed: int = 0) -> None:
        self.now = 1000.0
        self.limits = limits
        self.lanes = RequestLanes(random.Random(seed), limits)  # noqa: S311 - reproducible on purpose
        self.calls: dict[int, Call] = {}
        self.flying: list[int] = []
        """Numbers of the calls in flight, in the order of their sending."""
        self.sent: list[int] = []
        self.ends: dict[int, LaneEffect] = {}
        """By number, how calls ended."""
        self.wake_at: float | None = None
        self.failures: Counter[int] = Counter()
        """By number, how often the server or the connection failed."""

    def submit(self, lane: RequestLane, key: str = "", *, idempotent: bool = True, size: int = 0) -> int:
        """Submit a call and return its number."""
        number = len(self.calls) + 1
        api_call = ApiCall(verb="patch", api_version="v1", plural=lane.name, name=key)
        call = Call(number=number, lane=lane, call=api_call, size=size, key=key, idempotent=idempotent)
        self.calls[number] = call
        self.take(self.lanes.submit(call, self.now))
        return number

    def answer(self, number: int, status: int = 200, retry_after: float = 0.0) -> None:
        """Answer a call in flight."""
        self.flying.remove(number)
        self.failures[number] += status >= 500
        self.take(self.lanes.on_response(number, CallResponse(status, ApiResult({}), retry_after), self.now))

    def error(self, number: int) -> None:
        """Lose a call in flight."""
        self.flying.remove(number)
        self.failures[number] += 1
        self.take(self.lanes.on_error(number, OSError("the connection was closed"), self.now))

    def pass_time(self, seconds: float) -> None:
        """Advance the clock, and wake the lanes when it is time to."""
        self.now += seconds
        if self.wake_at is not None and self.now >= self.wake_at:
            self.wake()

    def wake(self) -> None:
        """Advance the time to the lanes' next wake."""
        assert self.wake_at is not None
        self.now, self.wake_at = max(self.now, self.wake_at), None
        self.take(self.lanes.on_wake(self.now))

    def take(self, effects: list[LaneEffect]) -> None:
        """Follow the effects of an input and check them."""
        for effect in effects:
            if isinstance(effect, SendCall):
                assert effect.number not in self.ends
                assert effect.call is self.calls[effect.number].call
                self.flying.append(effect.number)
                self.sent.append(effect.number)
            elif isinstance(effect, WakeLanesAt):
                assert effect.time > self.now
                self.wake_at = effect.time
            elif isinstance(effect, CallAnswered | CallFailed | CallSuperseded | LaneFull):
                assert effect.number not in self.ends
                self.ends[effect.number] = effect
        self._check()

    def _check(self) -> None:
        lanes = [self.calls[number].lane for number in self.flying]
        keys = [(self.calls[number].lane, self.calls[number].key) for number in self.flying if self.calls[number].key]
        assert len(set(self.flying)) == len(self.flying)
        assert len(set(keys)) == len(keys), "two calls with one key are in flight"
        for lane, limits in self.limits.items():
            assert self.lanes.in_flight(lane) == lanes.count(lane) <= limits.in_flight
            assert sum(each >= lane for each in lanes) <= limits.with_lower
            assert self.lanes.waiting(lane) + self.lanes.in_flight(lane) <= limits.waiting + limits.in_flight
            queue = self.lanes._queues[lane]
            if queue.ready and self.now >= queue.paused_until:
                assert not self.lanes._has_place(lane), "a call that could be sent waits"

    def first_sent(self) -> dict[tuple[RequestLane, str], list[int]]:
        """By lane and key, the calls in the order of their first attempts."""
        found: dict[tuple[RequestLane, str], list[int]] = defaultdict(list)
        for number in dict.fromkeys(self.sent):
            found[self.calls[number].lane, self.calls[number].key].append(number)
        return found
