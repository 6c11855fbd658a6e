"""Where a module's messages wait: bounded, with three kinds of message, every drop counted.

Pykka's hook for inboxes takes it (`put`, `get`, `empty`). It outlives its actor: when the supervisor starts a
failed module again, what waited is still there. One consumer, any number of producers. The queue below it comes
from the runtime, so the same rules hold for threads and for the simulation.

Producers that find no room sleep until half of the commands are gone: being woken for every single one would cost a
switch of threads for each message. So that a slow consumer's room is found too, they look by themselves now and then.
"""

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
"""Commands that may wait in one inbox, as KubeEdge's channels have it."""

STATE_CAPACITY = 4096
"""Objects whose newest state may wait; beyond it a state is treated as a command."""

TELEMETRY_CAPACITY = 256

_LOOK_AGAIN = 0.02
"""Seconds after which a producer that waits for room looks by itself."""

_STATE, _TELEMETRY = "state", "telemetry"


class Queue(Protocol):
    """An unbounded queue of the runtime: many producers, one consumer that blocks in `get`."""

    def put(self, item: Any) -> None:
        """Append; never blocks."""

    def get(self) -> Any:
        """Take the oldest; blocks while there is none."""

    def qsize(self) -> int:
        """How many are in it."""


class QueueRuntime(Protocol):
    """What an inbox needs of a runtime."""

    @property
    def clock(self) -> "Clock":
        """Time."""

    def queue(self) -> Queue:
        """A new queue."""

    def future(self) -> pykka.Future[Any]:
        """A new future."""


class _Deferred:
    """A command that waits outside for room; whoever takes the item out of it decides what becomes of it."""

    __slots__ = ("item", "timer")

    def __init__(self, item: Any) -> None:
        self.item = [item]
        self.timer: Timer | None = None

    def claim(self) -> Any:
        """The item, for the first who asks; None for all others."""
        try:
            return self.item.pop()
        except IndexError:
            return None


class _Token:
    """Holds the place of a state or a telemetry message whose content is kept aside."""

    __slots__ = ("key", "kind")

    def __init__(self, kind: str, key: Hashable = None) -> None:
        self.kind = kind
        self.key = key


class Inbox:
    """See the module's docstring.

    Args:
        runtime: gives the queue and the futures that producers wait on.
        capacity: commands that may wait. Producers that look at the same time may pass it by one each.
        patience: seconds that a producer waits for room.
        name: whose inbox it is, for errors.
    """

    def __init__(
        self, runtime: QueueRuntime, *, capacity: int = COMMAND_CAPACITY, patience: float = 5.0, name: str = ""
    ) -> None:
        self._runtime = runtime
        self._queue = runtime.queue()
        self._capacity = capacity
        self._patience = patience
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
        """Append a command; waits for room up to the patience.

        Raises:
            InboxFullError: there was none in time.
        """
        if self._qsize() >= self._capacity:
            self._wait_for_room()
        self._put(item)
        if self._refuse is not None:
            self._drain(self._refuse)

    def put_deferred(self, item: Any, give_up: Callable[[Any], None]) -> None:
        """Append a command as soon as there is room, without waiting for it; never before one that waits already.

        `give_up` gets the item when there was none within the patience, on the clock's thread, or at once when as many
        wait already as the inbox holds.
        """
        if self._deferred:
            self._admit_deferred()
        if (not self._deferred and self._commands() < self._capacity) or self._refuse is not None:
            self.put_urgent(item)
            return
        if len(self._deferred) >= self._capacity and not self._forget_expired():
            give_up(item)
            return
        deferred = _Deferred(item)
        self._deferred.append(deferred)
        deferred.timer = self._runtime.clock.after(self._patience, lambda: self._expire(deferred, give_up))
        if self._commands() < self._capacity or self._refuse is not None:
            self._let_in()

    def put_urgent(self, item: Any) -> None:
        """Append without a look at the bound: answers and timers, whose number their requests bound."""
        self._put(item)
        if self._refuse is not None:
            self._drain(self._refuse)

    def put_state(self, key: Hashable, delivery: Delivery) -> Delivery | None:
        """Append a state, or put it in the place of an older one with the same key, which is returned.

        Raises:
            InboxFullError: states of too many objects wait, and there was no room for one more command in time.
        """
        with self._lock:
            older = self._states.get(key)
            fits = older is not None or len(self._states) < STATE_CAPACITY
            if fits:
                self._states[key] = delivery
        if not fits:
            self.put(delivery)
        elif older is None:
            self.put_urgent(_Token(_STATE, key))
        return older

    def put_telemetry(self, delivery: Delivery) -> Delivery | None:
        """Append telemetry; the oldest is dropped and returned when there is too much of it."""
        with self._lock:
            oldest = self._telemetry.popleft() if len(self._telemetry) >= TELEMETRY_CAPACITY else None
            self._telemetry.append(delivery)
        if oldest is None:
            self.put_urgent(_Token(_TELEMETRY))
        return oldest

    def put_back(self, items: list[Any]) -> None:
        """Put items that were taken before all others, in their order; for the consumer's own use."""
        self._returned.extendleft(reversed(items))

    def get(self) -> Any:
        """The next item; blocks while there is none."""
        if self._returned:
            return self._returned.popleft()
        item = self._get()
        if self._room is not None and self._commands() <= self._capacity // 2:
            self._wake_producers()
        if self._deferred:
            self._admit_deferred()
        return self._resolve(item) if item.__class__ is _Token else item

    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._returned and not self._qsize()

    def depth(self) -> int:
        """How many wait."""
        return self._qsize() + len(self._returned)

    def close(self, refuse: Callable[[Any], None]) -> None:
        """Hand all that waits, and all that will still come, to `refuse`; only when nobody takes from it any more."""
        self._refuse = refuse
        self._let_in()
        self._wake_producers()

    def _let_in(self) -> None:
        """Let in what there is room for; what comes into a closed inbox is refused."""
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
        """Let in what there is room for. One stays in sight until it is in, so that none that comes passes it by."""
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
        """Drop entries that were given up; they are the oldest, since all have the same patience."""
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
        """How many wait besides states and telemetry, which have bounds of their own."""
        return self._qsize() - len(self._states) - len(self._telemetry)

    def _wait_for_room(self) -> None:
        clock = self._runtime.clock
        deadline = clock.monotonic() + self._patience
        while self._commands() >= self._capacity and self._refuse is None:
            remaining = deadline - clock.monotonic()
            if remaining <= 0:
                hint = "the module is slower than what it is sent; see its handling time in the metrics"
                raise InboxFullError(
                    f"no room in the inbox within {self._patience:g} s", self._name, hint, retryable=True
                )
            self._sleep(min(remaining, _LOOK_AGAIN))

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
