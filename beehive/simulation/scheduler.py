"""The simulation's scheduler of greenlets, and its virtual clock."""

import logging
import math
import random
from collections.abc import Callable, Iterable

from greenlet import getcurrent, greenlet

from beehive.alarms import Alarm, Alarms
from beehive.clock import Clock, Timer
from beehive.errors import BeehiveError

_log = logging.getLogger(__name__)

EPOCH = 1_800_000_000.0
"""Wall clock at the begin of a simulation, in seconds since the Unix epoch (January 2027)."""


class DeadlockError(BeehiveError):
    """The code outside waits, but no greenlet can run and no timer is left."""


class VirtualClock(Clock):
    """A clock whose time passes only when no greenlet can run: it then jumps to the next timer."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self._epoch = EPOCH
        self._elapsed = 0.0
        self._alarms = Alarms()

    def now(self) -> float:
        return self._epoch + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        due = self._elapsed + max(0.0, seconds)
        if seconds > 0 and due == self._elapsed:  # a thread that waits again for the rest must get there
            due = math.nextafter(due, math.inf)
        return self._alarms.add(self, due, function)

    def withdraw(self, alarm: Alarm) -> bool:
        """Cancel an alarm; return False if it has fired or was cancelled before."""
        return self._alarms.withdraw(alarm)

    def jump_wall(self, seconds: float) -> None:
        """Move the wall clock by `seconds`, as an administrator or NTP does; timers are unaffected."""
        self._epoch += seconds

    def close(self) -> None:
        self._alarms.clear()

    def pending(self) -> int:
        """Return the number of timers in the heap, which may include cancelled ones."""
        return len(self._alarms)

    def fire_next(self, until: float) -> bool:
        """Go to the next timer and fire it; without one by `until` (monotonic seconds), go there and return False."""
        due = self._alarms.first_due()
        if due is not None and due <= until:
            function = self._alarms.pop()
            self._elapsed = max(self._elapsed, due)
            if function is not None:
                function()
            return True
        if until != float("inf"):
            self._elapsed = max(self._elapsed, until)
        return False


_ENDINGS = 8
"""How often a greenlet is ended that waits again while it ends."""


class Scheduler:
    """A scheduler that runs greenlets one at a time, in one thread; the next one is drawn from a seed.

    A greenlet that waits is parked. The code outside of them (a test's own code) runs the scheduler whenever it waits.

    Args:
        seed: determines the order of the greenlets that can run, and everything drawn from the clock's `random`.
    """

    def __init__(self, seed: int) -> None:
        self.clock = VirtualClock(seed)
        self.steps = 0
        """Switches to a greenlet so far."""
        self._order = random.Random(seed ^ 0x5EED)  # noqa: S311
        self._ready: list[greenlet] = []
        self._main = getcurrent()
        self._alive: set[greenlet] = set()
        self._killed: set[greenlet] = set()

    def spawn(self, function: Callable[[], None]) -> greenlet:
        """Run `function` as a greenlet of its own."""

        def body() -> None:
            try:
                function()
            except Exception:  # noqa: BLE001 - a thread that dies does not end the process either
                _log.exception("a simulated actor's loop failed")
            self._alive.discard(child)

        child = greenlet(body, self._main)
        self._alive.add(child)
        self._ready.append(child)
        return child

    def kill(self, victims: Iterable[greenlet]) -> None:
        """Never run these greenlets again: their `finally` blocks do not run, as in a process that is killed.

        They are kept until `discard_killed`, because a greenlet runs its `finally` blocks when it is collected.
        """
        self._killed.update(victim for victim in victims if victim in self._alive)
        self._alive -= self._killed
        self._ready = [waiter for waiter in self._ready if waiter not in self._killed]

    def discard_killed(self) -> None:
        """End the killed greenlets, after the simulation, when the effects of their `finally` blocks do not matter.

        Python's garbage collector does not traverse a greenlet that waits, so its frames, and through them the whole
        simulation, would stay in memory.
        """
        while self._killed:
            victim = self._killed.pop()
            for _ in range(_ENDINGS):
                if victim.dead:
                    break
                victim.throw()

    def close(self) -> None:
        """Cancel all timers and end all greenlets, so that the next simulation begins with an empty process."""
        self.clock.close()
        self.kill(self.alive())
        self.discard_killed()

    def wake(self, waiter: greenlet) -> None:
        """Make a parked greenlet ready to run."""
        if waiter is not self._main and waiter not in self._killed:
            self._ready.append(waiter)

    def wait_until(self, done: Callable[[], bool], timeout: float | None = None) -> bool:
        """Run until `done()`; return False if `timeout` virtual seconds have passed before. For the code outside.

        Raises:
            DeadlockError: no greenlet can run, no timer is left, and `done()` is false.
        """
        until = float("inf") if timeout is None else self.clock.monotonic() + timeout
        while not done():
            if self._step():
                continue
            if not self.clock.fire_next(until):
                if timeout is None:
                    hint = "a request without a deadline, or an actor that was never started"
                    raise DeadlockError("the simulation cannot go on", hint=hint)
                return done()
        return True

    def run_for(self, seconds: float) -> None:
        """Let `seconds` of virtual time pass."""
        self.wait_until(lambda: False, seconds)

    def run_until_idle(self) -> None:
        """Run until nothing is left to do before the next timer."""
        while self._step() or self.clock.fire_next(self.clock.monotonic()):
            pass

    def alive(self) -> list[greenlet]:
        """Return the greenlets that have not ended."""
        return list(self._alive)

    def inside(self) -> bool:
        """Return whether the caller is one of the greenlets, which can be parked."""
        return getcurrent() is not self._main

    def park(self) -> None:
        """Switch to the scheduler until `wake` is called with this greenlet."""
        self._main.switch()

    def _step(self) -> bool:
        if not self._ready:
            return False
        chosen = self._order.randrange(len(self._ready))
        self._ready[chosen], self._ready[-1] = self._ready[-1], self._ready[chosen]
        self.steps += 1
        self._ready.pop().switch()
        return True
