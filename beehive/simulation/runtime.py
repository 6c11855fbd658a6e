"""`Simulation`: the second runtime, on greenlets and a virtual clock."""

from collections import deque
from collections.abc import Callable
from typing import Any

import pykka
from greenlet import getcurrent, greenlet

from beehive.inbox import Queue
from beehive.runtime import Future, Runtime
from beehive.simulation.scheduler import Scheduler, VirtualClock


class SimulatedQueue:
    """A queue whose consumer parks its greenlet."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._items: deque[Any] = deque()
        self._waiter: greenlet | None = None

    def put(self, item: Any) -> None:
        """Append an item and wake the consumer."""
        self._items.append(item)
        if self._waiter is not None:
            waiter, self._waiter = self._waiter, None
            self._scheduler.wake(waiter)

    def get(self) -> Any:
        """Remove and return the oldest item; parks while the queue is empty, or runs the simulation outside of it."""
        while not self._items:
            if self._scheduler.inside():
                self._waiter = getcurrent()
                self._scheduler.park()
            else:
                self._scheduler.wait_until(lambda: bool(self._items), None)
        return self._items.popleft()

    def qsize(self) -> int:
        """Return the number of items."""
        return len(self._items)


class SimulatedFuture(Future[Any]):
    """A future whose readers park their greenlets; outside of a greenlet, reading it runs the simulation."""

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
    """A runtime on greenlets of one thread, in an order drawn from a seed, with virtual time.

        simulation = Simulation(seed=7)
        hive = Hive(simulation)

    A run is a function of its seed if the code above it holds no thread, lock or real wait across a switch, takes no
    order from a set or an address, and takes time and randomness only from the clock.

    Args:
        seed: determines the whole run.
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
        """Run until nothing is left to do before the next timer."""
        self.scheduler.run_until_idle()

    def close(self) -> None:
        """Cancel all timers and end all actors."""
        self.scheduler.close()

    def _spawn(self, function: Callable[[], None], name: str) -> None:  # noqa: ARG002 - greenlets have no names
        self.scheduler.spawn(function)
