"""The second runtime: the same actors as greenlets of one thread, in an order drawn from a seed, on a virtual clock.

What it asks of the code above it: no thread, lock or real wait across a switch, no order taken from a set or an
address, no time or randomness but the clock's. Then a run is a function of its seed.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import pykka
from greenlet import getcurrent, greenlet

from beehive.inbox import Queue
from beehive.runtime import Future, Runtime
from beehive.simulation.scheduler import Scheduler, VirtualClock


class SimulatedQueue:
    """A queue whose consumer parks."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._items: deque[Any] = deque()
        self._waiter: greenlet | None = None

    def put(self, item: Any) -> None:
        """Append and let the consumer run."""
        self._items.append(item)
        if self._waiter is not None:
            waiter, self._waiter = self._waiter, None
            self._scheduler.wake(waiter)

    def get(self) -> Any:
        """Take the oldest; parks while there is none."""
        while not self._items:
            self._waiter = getcurrent()
            self._scheduler.park()
        return self._items.popleft()

    def qsize(self) -> int:
        """How many are in it."""
        return len(self._items)


class SimulatedFuture(Future[Any]):
    """A future whose readers park; outside of the simulation, reading it drives the simulation."""

    scheduler: Scheduler

    def __init__(self) -> None:
        self._readers: list[greenlet] = []

    def _wait(self, timeout: float | None) -> None:
        if self.scheduler.inside():
            self._park(timeout)
        elif not self.scheduler.wait_until(lambda: self._settled, timeout):
            raise pykka.Timeout(f"{timeout} seconds")

    def _park(self, timeout: float | None) -> None:
        me = getcurrent()
        self._readers.append(me)
        timer = None if timeout is None else self.scheduler.clock.after(timeout, lambda: self._give_up(me))
        self.scheduler.park()
        if timer is not None:
            timer.cancel()
        if not self._settled:
            raise pykka.Timeout(f"{timeout} seconds")

    def _give_up(self, reader: greenlet) -> None:
        if reader in self._readers:
            self._readers.remove(reader)
            self.scheduler.wake(reader)

    def _wake(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            self.scheduler.wake(reader)


class Simulation(Runtime):
    """See the module's docstring.

    Args:
        seed: decides the whole run.
    """

    clock: VirtualClock

    def __init__(self, seed: int = 0) -> None:
        self.scheduler = Scheduler(seed)
        self.clock = self.scheduler.clock
        self._future_class = type("BoundFuture", (SimulatedFuture,), {"scheduler": self.scheduler})

    def queue(self) -> Queue:
        return SimulatedQueue(self.scheduler)

    def future(self) -> Future[Any]:
        future: Future[Any] = self._future_class()
        return future

    def run_for(self, seconds: float) -> None:
        """Let `seconds` of virtual time pass."""
        self.scheduler.run_for(seconds)

    def run_until_idle(self) -> None:
        """Run until nobody can go on without time passing."""
        self.scheduler.run_until_idle()

    def close(self) -> None:
        """Fire no timer any more."""
        self.clock.close()

    def _spawn(self, function: Callable[[], None], name: str) -> None:  # noqa: ARG002 - greenlets have no names
        self.scheduler.spawn(function)
