"""The client of an API server, for one module: calls in lanes, and reflectors."""

import logging
import random
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from beehive.clock import Clock, Timer
from modules.cloud.client.counters import NO_RESPONSE, ApiCounters, WatchCounters
from modules.cloud.client.handover import Handover
from modules.cloud.client.lane_calls import (
    Call,
    CallAnswered,
    CallFailed,
    CallSuperseded,
    CancelCall,
    LaneEffect,
    LaneFull,
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
from modules.cloud.client.response_collector import ResponseCollector
from modules.cloud.client.transport import ApiRequest, ApiResponse, Exchange, KubeTransport, ResponseHead

_log = logging.getLogger(__name__)

UNREAD_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a reflector's response that wait for the module, above which no more are read."""

News = Added | Modified | Deleted | Synced | EpochChanged | Refused
CallEnd = CallAnswered | CallFailed | CallSuperseded | LaneFull


class ModuleThread(Protocol):
    """Calls functions on the thread of a module; `Module` has these methods."""

    @property
    def clock(self) -> Clock:
        """The module's clock."""

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call a function; from any thread."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call a function later; from the module's thread."""


class KubeClient:
    """Sends the calls of a module, and watches collections for it. All methods and callbacks are on its thread.

    Args:
        transport: carries the requests; closed with the client.
        thread: the module.
        source: of jitter.
        counters: counts the requests.
    """

    def __init__(
        self,
        transport: KubeTransport,
        thread: ModuleThread,
        source: random.Random,
        counters: ApiCounters | None = None,
    ) -> None:
        self._transport = transport
        self._thread = thread
        self._source = source
        self._lanes = lanes = RequestLanes(source)
        self._counters = counters or ApiCounters()
        self._counters.depth = lambda lane: (lanes.waiting(lane), lanes.in_flight(lane))
        self._number = 0
        self._then: dict[int, Callable[[CallEnd], None]] = {}
        self._sent: dict[int, tuple[Exchange, float]] = {}
        """The calls in flight by number, and when they were sent."""
        self._timer: Timer | None = None
        self._watches: list[_Watch] = []
        self._handover = Handover(thread.call_soon)
        self._is_closed = False

    def call(
        self,
        lane: RequestLane,
        request: ApiRequest,
        then: Callable[[CallEnd], None],
        *,
        key: str = "",
        idempotent: bool = False,
    ) -> None:
        """Send a request when it is its turn; `then` is called once with its end, perhaps before this returns.

        Args:
            lane: its priority.
            request: the request.
            then: takes the response, or why there is none.
            key: requests of a lane with one key are sent one after the other.
            idempotent: whether it may be sent again when its outcome is unknown.
        """
        self._number += 1
        self._then[self._number] = then
        call = Call(number=self._number, lane=lane, request=request, key=key, idempotent=idempotent)
        self._carry_out(self._lanes.submit(call, self._now()))

    def watch(self, selection: Selection, told: Callable[[News], None], kind: str = "") -> None:
        """List and watch a collection until the client is closed; its lists and watches are counted for its kind."""
        counters = self._counters.watch(kind) if kind else WatchCounters()
        reflector = Reflector(selection, self._source)
        counters.heard_at = lambda: reflector.heard_at
        watch = _Watch(self._transport, self._thread, self._handover, reflector, selection.path, told, counters)
        self._watches.append(watch)
        watch.start()

    def list_again(self) -> None:
        """List all watched collections again, also those whose watch has noticed nothing."""
        for watch in self._watches:
            watch.take(lambda reflector, now: [*reflector.stop(), *reflector.start(now)])

    def close(self) -> None:
        """End all watches and requests; no function is called afterwards."""
        self._is_closed = True
        self._then.clear()
        for watch in self._watches:
            watch.close()
        for exchange, _ in self._sent.values():
            exchange.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._transport.close()

    def _now(self) -> float:
        return self._thread.clock.monotonic()

    def _carry_out(self, effects: Iterable[LaneEffect]) -> None:
        for effect in effects:
            match effect:
                case SendCall():
                    exchange = self._transport.start(effect.request, self._listener(effect.number))
                    self._sent[effect.number] = exchange, self._now()
                case CancelCall():
                    self._sent.pop(effect.number)[0].cancel()
                case WakeLanesAt():
                    self._wake_at(effect.time)
                case _:
                    then = self._then.pop(effect.number, None)
                    if then is not None:
                        then(effect)

    def _listener(self, number: int) -> ResponseCollector:
        """Return a function that passes the end of a call from the transport's thread to the module's."""
        return ResponseCollector(lambda end: self._handover.post(lambda: self._ended(number, end)))

    def _ended(self, number: int, end: ApiResponse | Exception) -> None:
        sent = self._sent.pop(number, None)
        if sent is None or self._is_closed:
            return
        now = self._now()
        status = NO_RESPONSE if isinstance(end, Exception) else end.head.status
        self._counters.ended(self._lanes.lane_of(number), status, now - sent[1])
        if isinstance(end, Exception):
            self._carry_out(self._lanes.on_error(number, end, now))
        else:
            self._carry_out(self._lanes.on_response(number, end, now))

    def _wake_at(self, time: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._thread.after(max(0.0, time - self._now()), self._woken)

    def _woken(self) -> None:
        if not self._is_closed:
            self._carry_out(self._lanes.on_wake(self._now()))


class _Watch:
    """Carries out the effects of a reflector."""

    def __init__(
        self,
        transport: KubeTransport,
        thread: ModuleThread,
        handover: Handover,
        reflector: Reflector,
        path: str,
        told: Callable[[News], None],
        counters: WatchCounters,
    ) -> None:
        self._counters = counters
        self._transport = transport
        self._thread = thread
        self._handover = handover
        self._reflector = reflector
        self._path = path
        self._told = told
        self._exchange: Exchange | None = None
        self._timer: Timer | None = None
        self._is_closed = False

    def start(self) -> None:
        self._carry_out(self._reflector.start(self._now()))

    def close(self) -> None:
        self._is_closed = True
        if self._exchange is not None:
            self._exchange.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def take(self, step: Callable[[Reflector, float], list[ReflectorEffect] | None]) -> None:
        """Hand something that has happened to the reflector."""
        if not self._is_closed:
            self._carry_out(step(self._reflector, self._now()) or ())

    def _now(self) -> float:
        return self._thread.clock.monotonic()

    def _carry_out(self, effects: Iterable[ReflectorEffect]) -> None:
        for effect in effects:
            match effect:
                case StartRequest():
                    listener = _WatchListener(self._handover, self, effect)
                    self._exchange = listener.exchange = self._transport.start(effect.request, listener)
                case CancelRequest():
                    if self._exchange is not None:
                        self._exchange.cancel()
                case WakeReflectorAt():
                    self._wake_at(effect.time)
                case Retrying():
                    self._counters.failures += 1
                    _log.info("watch of %s: %s", self._path, effect.why)
                case Synced():
                    self._counters.lists += 1
                    self._told(effect)
                case _:
                    self._told(effect)

    def _wake_at(self, time: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._thread.after(
            max(0.0, time - self._now()), lambda: self.take(lambda reflector, now: reflector.on_wake(now))
        )


class _WatchListener:
    """Hands the pieces of a response to the module's thread: those of a watch at once, with pauses when the module is
    behind, and those of a page of a list all together, as it can be read only when it is complete.
    """

    def __init__(self, handover: Handover, watch: _Watch, started: StartRequest) -> None:
        self.exchange: Exchange | None = None
        self._handover = handover
        self._watch = watch
        self._number = started.number
        self._is_stream = started.request.stream
        self._page: list[bytes] = []
        self._handed = self._taken = 0
        """Bytes, each counted by one thread."""
        self._is_paused = False

    def on_head(self, head: ResponseHead) -> None:
        """Hand the beginning over."""
        self._post(lambda reflector, _now: reflector.on_head(self._number, head))

    def on_data(self, data: bytes) -> None:
        """Hand a piece over."""
        if not self._is_stream:
            self._page.append(data)
            return
        self._handed += len(data)
        if self._handed - self._taken > UNREAD_BYTES and self.exchange is not None and not self._is_paused:
            self._is_paused = True
            self.exchange.pause()
        self._handover.post(lambda: self._take(data))

    def on_end(self) -> None:
        """Hand the end over."""
        self._hand_over_page()
        self._post(lambda reflector, now: reflector.on_end(self._number, now))

    def on_error(self, error: Exception) -> None:
        """Hand the error over."""
        self._hand_over_page()
        self._post(lambda reflector, now: reflector.on_error(self._number, error, now))

    def _hand_over_page(self) -> None:
        page, self._page = b"".join(self._page), []
        if page:
            self._post(lambda reflector, now: reflector.on_data(self._number, page, now))

    def _take(self, data: bytes) -> None:
        self._watch.take(lambda reflector, now: reflector.on_data(self._number, data, now))
        self._taken += len(data)
        if self._is_paused and self._handed - self._taken <= UNREAD_BYTES // 2 and self.exchange is not None:
            self._is_paused = False
            self.exchange.resume()

    def _post(self, step: Callable[[Reflector, float], list[ReflectorEffect] | None]) -> None:
        self._handover.post(lambda: self._watch.take(step))
