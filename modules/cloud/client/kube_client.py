"""The client of an API server, for one module: calls in lanes, and reflectors."""

import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, Protocol

from beehive.clock import Clock, Timer
from modules.cloud.client.call_requests import size_of
from modules.cloud.client.calls import ApiCall
from modules.cloud.client.counters import NO_RESPONSE, ApiCounters, WatchCounters
from modules.cloud.client.kube_api import ApiReading, CallResponse, KubeApi
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
from modules.cloud.client.reflector.effects import (
    Added,
    CancelRequest,
    Deleted,
    EpochChanged,
    Modified,
    ReflectorEffect,
    Refused,
    Retrying,
    StartRequest,
    Synced,
    WakeReflectorAt,
)
from modules.cloud.client.reflector.reflector import Reflector
from modules.cloud.client.reflector.selection import Selection

_log = logging.getLogger(__name__)

News = Added | Modified | Deleted | Synced | EpochChanged | Refused
CallEnd = CallAnswered | CallFailed | CallSuperseded | LaneFull

AT_ONCE: Final = 16
"""Functions that are called before other items of the module's inbox have their turn."""


class ModuleThread(Protocol):
    """The thread of a module, on which functions are called; `Module` has these methods."""

    @property
    def clock(self) -> Clock:
        """The module's clock."""

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call a function; from any thread."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call a function later; from the module's thread."""

    def end_turn_soon(self, first: Callable[[], None]) -> None:
        """Call a function when the module has handled what waits; from its thread."""


class Handover:
    """The calls of functions on a module's thread, in order. Calls that come before their turn share an item of its
    inbox.

    Args:
        call_soon: calls a function on the module's thread, from any thread.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_announced = False
        """Whether `_deliver` is in the inbox. It is cleared before functions are taken, so none is left behind."""

    def post(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a function on the module's thread; from any thread."""
        self._waiting.append(partial(function, *arguments) if arguments else function)
        if not self._is_announced:
            self._is_announced = True
            self._call_soon(self._deliver)

    def _deliver(self) -> None:
        self._is_announced = False
        for _ in range(min(len(self._waiting), AT_ONCE)):
            self._waiting.popleft()()
        if self._waiting and not self._is_announced:
            self._is_announced = True
            self._call_soon(self._deliver)


class KubeClient:
    """The client of a module: its calls in lanes, and its watches of collections, all on the thread of the module.

    Args:
        api: the API server; closed with the client.
        thread: the module.
        source: of jitter.
        counters: counts the requests.
        limits: of the lanes.
    """

    def __init__(
        self,
        api: KubeApi,
        thread: ModuleThread,
        source: random.Random,
        counters: ApiCounters | None = None,
        limits: Mapping[RequestLane, LaneLimits] = DEFAULT_LIMITS,
    ) -> None:
        self._api = api
        self._thread = thread
        self._source = source
        self._counters = counters or ApiCounters()
        self._lanes = RequestLanes(source, limits, self._counters.depths)
        self._number = 0
        self._then: dict[int, Callable[[CallEnd], None]] = {}
        self._made: dict[int, tuple[RequestLane, float]] = {}
        """The lane of each call that was not sent yet, and when it was made, by number."""
        self._sent: dict[int, tuple[RequestLane, float]] = {}
        """The lane of each call in flight, and when it was sent, by number."""
        self._timer: Timer | None = None
        self._sends_soon = False
        """Whether the collected calls are sent at the end of the module's turn."""
        self._effects: deque[LaneEffect] = deque()
        self._is_carrying_out = False
        self._watches: list[_Watch] = []
        self._handover = Handover(thread.call_soon)
        self._is_closed = False

    def call(
        self,
        lane: RequestLane,
        call: ApiCall,
        then: Callable[[CallEnd], None],
        *,
        key: str = "",
        idempotent: bool = False,
    ) -> None:
        """Make a call when it is its turn; `then` is called once with its end, perhaps before this returns.

        Args:
            lane: its priority.
            call: the call.
            then: takes the result, or the reason why it failed.
            key: calls of a lane with one key are made one after the other.
            idempotent: whether it may be made again when its outcome is unknown.

        Raises:
            CallError: the call has no form as a request.
        """
        size = size_of(call)
        self._number += 1
        self._then[self._number] = then
        submitted = Call(number=self._number, lane=lane, call=call, size=size, key=key, idempotent=idempotent)
        now = self._thread.clock.monotonic()
        self._made[self._number] = lane, now
        self._carry_out(self._lanes.submit(submitted, now), now)

    def watch(self, selection: Selection, told: Callable[[News], None], kind: str = "") -> None:
        """List and watch a collection until the client is closed; its lists and watches are counted for its kind."""
        counters = self._counters.watch(kind) if kind else WatchCounters()
        counters.heard_at = 0.0
        reflector = Reflector(selection, self._source)
        watch = _Watch(self._api, self._thread, self._handover, reflector, selection, told, counters)
        self._watches.append(watch)
        watch.start()

    def list_again(self) -> None:
        """List all watched collections again, also those whose watch has noticed nothing."""
        for watch in self._watches:
            watch.list_again()

    def close(self) -> None:
        """End all watches and requests; no function is called afterwards."""
        self._is_closed = True
        self._then.clear()
        for watch in self._watches:
            watch.close()
        if self._timer is not None:
            self._timer.cancel()
        self._api.close()

    def _now(self) -> float:
        return self._thread.clock.monotonic()

    def _carry_out(self, effects: Iterable[LaneEffect], now: float) -> None:
        """Carry out effects in order: those of a call that `then` makes come after the effects under way."""
        self._effects.extend(effects)
        if self._is_carrying_out:
            return
        self._is_carrying_out = True
        try:
            while self._effects:
                effect = self._effects.popleft()
                match effect:
                    case SendCall():
                        self._make(effect, now)
                    case WakeLanesAt():
                        self._wake_at(effect.time)
                    case _:
                        self._made.pop(effect.number, None)
                        then = self._then.pop(effect.number, None)
                        if then is not None:
                            then(effect)
        finally:
            self._is_carrying_out = False

    def _make(self, effect: SendCall, now: float) -> None:
        first = self._made.pop(effect.number, None)
        if first is not None:
            lane, made = first
            self._counters.waits[lane].observe(now - made)
        else:
            lane = self._lanes.lane_of(effect.number)
        self._sent[effect.number] = lane, now
        self._api.call(effect.call, partial(self._handover.post, self._ended, effect.number))
        if self._api.collects and not self._sends_soon:
            self._sends_soon = True
            self._thread.end_turn_soon(self._send)

    def _send(self) -> None:
        """Send the calls of this turn together."""
        self._sends_soon = False
        if not self._is_closed:
            self._api.send()

    def _ended(self, number: int, end: CallResponse | Exception) -> None:
        sent = self._sent.pop(number, None)
        if sent is None or self._is_closed:
            return
        now = self._thread.clock.monotonic()
        lane, since = sent
        if isinstance(end, Exception):
            self._counters.ended(lane, NO_RESPONSE, now - since)
            self._carry_out(self._lanes.on_error(number, end, now), now)
        else:
            self._counters.ended(lane, end.status, now - since)
            self._carry_out(self._lanes.on_response(number, end, now), now)

    def _wake_at(self, time: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._thread.after(max(0.0, time - self._now()), self._woken)

    def _woken(self) -> None:
        if not self._is_closed:
            now = self._now()
            self._carry_out(self._lanes.on_wake(now), now)


class _Watch:
    """A watch that carries out the effects of a reflector."""

    def __init__(
        self,
        api: KubeApi,
        thread: ModuleThread,
        handover: Handover,
        reflector: Reflector,
        selection: Selection,
        told: Callable[[News], None],
        counters: WatchCounters,
    ) -> None:
        self._api = api
        self._thread = thread
        self._handover = handover
        self._reflector = reflector
        self._selection = selection
        self._told = told
        self._counters = counters
        self._number = 0
        """The number of the reading's request."""
        self._reading: ApiReading | None = None
        self._timer: Timer | None = None
        self._is_closed = False

    def start(self) -> None:
        self._carry_out(self._reflector.start(self._now()))

    def list_again(self) -> None:
        """Begin again with a list."""
        if not self._is_closed:
            self._carry_out(self._reflector.stop())
            self.start()

    def close(self) -> None:
        self._is_closed = True
        if self._reading is not None:
            self._reading.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _now(self) -> float:
        return self._thread.clock.monotonic()

    def _carry_out(self, effects: Iterable[ReflectorEffect]) -> None:
        for effect in effects:
            match effect:
                case StartRequest():
                    self._number = effect.number
                    take = partial(self._read, effect.number)
                    self._reading = self._api.read(effect.request, partial(self._handover.post, take))
                case CancelRequest():
                    if self._reading is not None:
                        self._reading.cancel()
                case WakeReflectorAt():
                    self._wake_at(effect.time)
                case Retrying():
                    self._counters.failures += 1
                    _log.info("watch of %s: %s", self._selection.kind.plural, effect.why)
                case Synced():
                    self._counters.lists += 1
                    self._told(effect)
                case _:
                    self._told(effect)

    def _read(self, number: int) -> None:
        """Pass the events of a request to the reflector."""
        if self._is_closed or self._reading is None or number != self._number:
            return
        now = self._now()
        for observation in self._reading.receive():
            self._carry_out(self._reflector.on_observation(number, observation, now))
        self._counters.heard_at = self._reflector.heard_at

    def _wake_at(self, time: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._thread.after(max(0.0, time - self._now()), self._wake)

    def _wake(self) -> None:
        if not self._is_closed:
            self._carry_out(self._reflector.on_wake(self._now()))
