"""The bounded inbox of a module."""

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol

import pykka

from beehive.delivery import Delivery
from beehive.errors import InboxFullError

if TYPE_CHECKING:
    from beehive.clock import Clock, Timer

COMMAND_CAPACITY = 1024
"""Commands that may wait in one inbox, as many as in a channel of KubeEdge's."""

STATE_CAPACITY = 4096
"""Objects whose newest state may wait; a state of a further object is treated as a command."""

TELEMETRY_CAPACITY = 256
"""Telemetry messages that may wait in one inbox."""

_POLL_SECONDS = 0.02
"""Seconds after which a producer that waits for room checks for it without being woken."""

_STATE, _TELEMETRY = "state", "telemetry"


class Queue(Protocol):
    """An unbounded queue of the runtime: many producers, one consumer that blocks in `get`."""

    def put(self, item: Any) -> None:
        """Append an item; never blocks."""

    def get(self) -> Any:
        """Remove and return the oldest item; blocks while the queue is empty."""

    def qsize(self) -> int:
        """Return the number of items."""


class QueueRuntime(Protocol):
    """The part of a runtime that an inbox uses."""

    @property
    def clock(self) -> "Clock":
        """The clock of the runtime."""

    def queue(self) -> Queue:
        """Make a queue."""

    def future(self) -> pykka.Future[Any]:
        """Make a future."""


class _Deferred:
    """A command that waits for room outside the queue. The thread that claims its item admits it or gives it up."""

    __slots__ = ("item", "timer")

    def __init__(self, item: Any) -> None:
        self.item = [item]
        self.timer: Timer | None = None

    def claim(self) -> Any:
        """Return the item to the first caller, and None to all others."""
        try:
            return self.item.pop()
        except IndexError:
            return None


class _Token:
    """The place of a state or a telemetry message in the queue; the message itself is in a table of the inbox."""

    __slots__ = ("key", "kind")

    def __init__(self, kind: str, key: Hashable = None) -> None:
        self.kind = kind
        self.key = key


class Inbox:
    """The bounded queue of a module's items, with one consumer and any number of producers.

    Each `OverflowPolicy` has room of its own, and every drop is reported. The inbox outlives its actor: a failed module
    that is started again finds the items that waited. It is pykka's inbox too (`put`, `get`, `empty`). Its queue comes
    from the runtime, so the same rules hold for threads and in simulation.

    A producer without room sleeps until half of the commands are taken, since waking it for each of them would cost a
    switch of threads for each message. For slow consumers it also checks for room every 20 ms.

    Args:
        runtime: makes the queue and the futures that producers wait on.
        capacity: commands that may wait. Producers that check at the same time may exceed it by one each.
        put_timeout: seconds that a producer waits for room.
        name: of the module, for errors.
    """

    def __init__(
        self, runtime: QueueRuntime, *, capacity: int = COMMAND_CAPACITY, put_timeout: float = 5.0, name: str = ""
    ) -> None:
        self._runtime = runtime
        self._queue = runtime.queue()
        self._capacity = capacity
        self._put_timeout = put_timeout
        self._name = name
        self._lock = threading.Lock()
        self._draining = threading.Lock()
        self._admitting = threading.Lock()
        self._returned: deque[Any] = deque()
        self._states: dict[Hashable, Delivery] = {}
        self._telemetry: deque[Delivery] = deque()
        self._deferred: deque[_Deferred] = deque()
        self._room: pykka.Future[Any] | None = None
        self._refuse: Callable[[Any], None] | None = None
        self._put = self._queue.put
        self._get = self._queue.get
        self._qsize = self._queue.qsize

    def put(self, item: Any) -> None:
        """Append a command; wait for room up to the put timeout.

        Raises:
            InboxFullError: there was no room in time.
        """
        if self._qsize() >= self._capacity:
            self._wait_for_room()
        self._put(item)
        if self._refuse is not None:
            self._drain(self._refuse)

    def put_deferred(self, item: Any, give_up: Callable[[Any], None]) -> None:
        """Append a command as soon as there is room, after the commands that wait already; never blocks.

        `give_up` is called with the item if there was no room within the put timeout, on the clock's thread, or
        immediately if as many commands wait outside as the inbox holds.
        """
        if self._deferred:
            self._admit_deferred()
        has_room = not self._deferred and (self._qsize() < self._capacity or self._commands() < self._capacity)
        if has_room or self._refuse is not None:
            self._put(item)
            if self._refuse is not None:
                self._drain(self._refuse)
            return
        if len(self._deferred) >= self._capacity and not self._forget_expired():
            give_up(item)
            return
        deferred = _Deferred(item)
        self._deferred.append(deferred)
        deferred.timer = self._runtime.clock.after(self._put_timeout, lambda: self._expire(deferred, give_up))
        if self._commands() < self._capacity or self._refuse is not None:
            self._let_in()

    def put_urgent(self, item: Any) -> None:
        """Append regardless of the bound. For answers and timers, whose number is bounded by their requests."""
        self._put(item)
        if self._refuse is not None:
            self._drain(self._refuse)

    def put_state(
        self, key: Hashable, delivery: Delivery, give_up: Callable[[Any], None] | None = None
    ) -> Delivery | None:
        """Append a state, or put it in the place of an older one with the same key and return that one.

        Args:
            key: of the object.
            delivery: the state.
            give_up: lets the state wait outside the inbox, as in `put_deferred`; None: the producer waits.

        Raises:
            InboxFullError: the states of `STATE_CAPACITY` objects wait, and there was no room for a command in time.
        """
        with self._lock:
            older = self._states.get(key)
            fits = older is not None or len(self._states) < STATE_CAPACITY
            if fits:
                self._states[key] = delivery
        if not fits:
            self.put(delivery) if give_up is None else self.put_deferred(delivery, give_up)
        elif older is None:
            self.put_urgent(_Token(_STATE, key))
        return older

    def put_telemetry(self, delivery: Delivery) -> Delivery | None:
        """Append telemetry; when it is full, drop the oldest and return it."""
        with self._lock:
            oldest = self._telemetry.popleft() if len(self._telemetry) >= TELEMETRY_CAPACITY else None
            self._telemetry.append(delivery)
        if oldest is None:
            self.put_urgent(_Token(_TELEMETRY))
        return oldest

    def put_back(self, items: list[Any]) -> None:
        """Put items that the consumer has taken back before all others, in their order."""
        self._returned.extendleft(reversed(items))

    def get(self) -> Any:
        """Remove and return the next item; blocks while the inbox is empty."""
        if self._returned:
            return self._returned.popleft()
        item = self._get()
        if self._room is not None and self._commands() <= self._capacity // 2:
            self._wake_producers()
        if self._deferred:
            self._admit_deferred()
        return self._resolve(item) if item.__class__ is _Token else item

    def empty(self) -> bool:
        """Return whether no item waits."""
        return not self._returned and not self._qsize()

    def depth(self) -> int:
        """Return the number of items that wait."""
        return self._qsize() + len(self._returned)

    def close(self, refuse: Callable[[Any], None]) -> None:
        """Pass all items, also later ones, to `refuse`. Call it when the consumer has ended."""
        self._refuse = refuse
        self._let_in()
        self._wake_producers()

    def _let_in(self) -> None:
        """Admit deferred commands; in a closed inbox, refuse them."""
        self._admit_deferred()
        if self._refuse is not None:
            self._drain(self._refuse)

    def _drain(self, refuse: Callable[[Any], None]) -> None:
        items = []
        with self._draining:
            while not self.empty():
                items.append(self.get())
        for item in items:
            refuse(item)

    def _admit_deferred(self) -> None:
        """Admit deferred commands while there is room. Each is removed after it is in, so that none overtakes it."""
        with self._admitting:
            while self._deferred and (self._commands() < self._capacity or self._refuse is not None):
                deferred = self._deferred[0]
                item = deferred.claim()
                if item is not None:
                    if deferred.timer is not None:
                        deferred.timer.cancel()
                    self._put(item)
                self._deferred.popleft()

    def _forget_expired(self) -> bool:
        """Drop entries that were given up; they are the oldest, since all have the same timeout."""
        with self._admitting:
            before = len(self._deferred)
            while self._deferred and not self._deferred[0].item:
                self._deferred.popleft()
            return len(self._deferred) < before

    def _expire(self, deferred: _Deferred, give_up: Callable[[Any], None]) -> None:
        item = deferred.claim()
        if item is not None:
            give_up(item)

    def _resolve(self, token: _Token) -> Delivery:
        with self._lock:
            return self._states.pop(token.key) if token.kind is _STATE else self._telemetry.popleft()

    def _commands(self) -> int:
        """Return the number of items except states and telemetry, which have bounds of their own."""
        return self._qsize() - len(self._states) - len(self._telemetry)

    def _wait_for_room(self) -> None:
        clock = self._runtime.clock
        deadline = clock.monotonic() + self._put_timeout
        while self._commands() >= self._capacity and self._refuse is None:
            remaining = deadline - clock.monotonic()
            if remaining <= 0:
                hint = "the module is slower than what it is sent; see its handling time in the metrics"
                raise InboxFullError(
                    f"no room in the inbox within {self._put_timeout:g} s", self._name, hint, retryable=True
                )
            self._sleep(min(remaining, _POLL_SECONDS))

    def _sleep(self, seconds: float) -> None:
        with self._lock:
            room = self._room
            if room is None:
                room = self._room = self._runtime.future()
        try:
            room.get(timeout=seconds)
        except pykka.Timeout:
            return

    def _wake_producers(self) -> None:
        with self._lock:
            room, self._room = self._room, None
        if room is not None:
            room.set()
