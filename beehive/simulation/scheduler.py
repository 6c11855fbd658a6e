"""Who runs next, drawn from a seed; when nobody can, virtual time jumps to the next timer.

Everything runs in one thread. Code that waits parks its greenlet; the code that made the simulation (a test's own
code) drives it whenever it waits itself.
"""

import logging
import random
from collections.abc import Callable, Iterable

from greenlet import getcurrent, greenlet

from beehive.alarms import Alarm, Alarms
from beehive.clock import Clock, Timer
from beehive.errors import BeehiveError

_log = logging.getLogger(__name__)

EPOCH = 1_800_000_000.0
"""Wall clock at which a simulation begins, in seconds since the Unix epoch (January 2027)."""


class DeadlockError(BeehiveError):
    """Somebody waits for something that nobody is left to do."""


class VirtualClock(Clock):
    """Time that passes only when nobody can run."""

    def __init__(self, seed: int, epoch: float = EPOCH) -> None:
        self.random = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self._epoch = epoch
        self._elapsed = 0.0
        self._alarms = Alarms()

    def now(self) -> float:
        return self._epoch + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        return self._alarms.add(self, self._elapsed + max(0.0, seconds), function)

    def withdraw(self, alarm: Alarm) -> bool:
        """Cancel an alarm; False when it has fired or was cancelled before."""
        return self._alarms.withdraw(alarm)

    def jump_wall(self, seconds: float) -> None:
        """Move the wall clock, as an administrator or NTP does; timers do not notice."""
        self._epoch += seconds

    def close(self) -> None:
        self._alarms.clear()

    def pending(self) -> int:
        """How many timers are set, cancelled ones that are not forgotten yet included."""
        return len(self._alarms)

    def fire_next(self, until: float) -> bool:
        """Go to the next timer and fire it; False (and no later than `until`) when there is none by then."""
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
"""How often a greenlet is ended that waits again on its way out."""


class Scheduler:
    """Runs greenlets one at a time.

    Args:
        seed: decides the order among those that can run, and everything drawn from the clock's `random`.
    """

    def __init__(self, seed: int) -> None:
        self.clock = VirtualClock(seed)
        self.steps = 0
        """Switches so far."""
        self._order = random.Random(seed ^ 0x5EED)  # noqa: S311
        self._ready: list[greenlet] = []
        self._main = getcurrent()
        self._alive: set[greenlet] = set()
        self._killed: set[greenlet] = set()

    def spawn(self, function: Callable[[], None]) -> greenlet:
        """Let `function` run as a greenlet of its own."""

        def body() -> None:
            try:
                function()
            except Exception:  # noqa: BLE001 - as a thread that dies does not end the process
                _log.exception("a simulated actor's loop failed")
            finally:
                self._alive.discard(child)

        child = greenlet(body, self._main)
        self._alive.add(child)
        self._ready.append(child)
        return child

    def kill(self, victims: Iterable[greenlet]) -> None:
        """Never let these run again, wherever they are: no `finally` of theirs runs, as of a process that was killed.

        They are kept until `bury_killed`, for a greenlet that is collected would run its `finally` then.
        """
        self._killed.update(victim for victim in victims if victim in self._alive)
        self._alive -= self._killed
        self._ready = [waiter for waiter in self._ready if waiter not in self._killed]

    def bury_killed(self) -> None:
        """Let go of what was killed; when the simulation is over and it does not matter what a `finally` does.

        Each is ended, because Python's garbage collector does not look into a greenlet that waits: what its frames
        hold, and through that the whole simulation, would stay as long as the process.
        """
        while self._killed:
            victim = self._killed.pop()
            for _ in range(_ENDINGS):
                if victim.dead:
                    break
                victim.throw()

    def wake(self, waiter: greenlet) -> None:
        """Let a parked greenlet run again."""
        if waiter is not self._main and waiter not in self._killed:
            self._ready.append(waiter)

    def wait_until(self, done: Callable[[], bool], timeout: float | None = None) -> bool:
        """Run until `done()`; for the code outside. False when `timeout` virtual seconds have passed before.

        Raises:
            DeadlockError: nobody can run, no timer is left, and it is not done.
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
        """Run until nobody can go on without time passing."""
        while self._step() or self.clock.fire_next(self.clock.monotonic()):
            pass

    def alive(self) -> list[greenlet]:
        """The greenlets that have not ended."""
        return list(self._alive)

    def inside(self) -> bool:
        """Whether the caller is one of the greenlets, so that it can be parked."""
        return getcurrent() is not self._main

    def park(self) -> None:
        """Give way until somebody calls `wake` with this greenlet."""
        self._main.switch()

    def _step(self) -> bool:
        if not self._ready:
            return False
        chosen = self._order.randrange(len(self._ready))
        self._ready[chosen], self._ready[-1] = self._ready[-1], self._ready[chosen]
        self.steps += 1
        self._ready.pop().switch()
        return True
