"""The world of a run: one scheduler with virtual time, the processes in it, and a log."""

import logging
import math
import random
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from greenlet import getcurrent, greenlet

from beehive.clock import Clock, Timer
from beehive.inbox import Queue
from beehive.runtime import Future, Runtime
from beehive.simulation.runtime import SimulatedFuture, SimulatedQueue
from beehive.simulation.scheduler import EPOCH, Scheduler

_MANY = 64
"""Number of a process's greenlets above which ended ones are dropped."""


class Violation(NamedTuple):
    """A violated invariant."""

    invariant: str
    """Name of the invariant."""
    text: str
    at: float

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text} (at {self.at:.3f} s)"


class Entry(NamedTuple):
    """A line of the log."""

    at: float
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:10.4f} {self.who:<8} {self.what}"


class World:
    """Scheduler, virtual time, randomness, log and violations of one run.

    Args:
        seed: decides the order of steps and everything that is drawn.
        keep_log: whether lines of the log are kept; they cost a tenth of the speed.
    """

    def __init__(self, seed: int, *, keep_log: bool = True) -> None:
        self.seed = seed
        self.scheduler = Scheduler(seed)
        self.random = random.Random(f"{seed} world")  # noqa: S311 - reproducible on purpose
        self.log: list[Entry] = []
        self.violations: list[Violation] = []
        self.expected: set[type[Exception]] = set()
        """Exceptions that faults cause, and that may be logged."""
        self.last_fault_at = -math.inf
        """When the last fault began."""
        self._keep_log = keep_log
        self._handler = _Errors(self)

    def __enter__(self) -> "World":
        logging.getLogger().addHandler(self._handler)
        return self

    def __exit__(self, *_error: object) -> None:
        """End all greenlets and actors, so that the next run begins with an empty process."""
        logging.getLogger().removeHandler(self._handler)
        self.scheduler.close()

    def now(self) -> float:
        """Return the virtual seconds since the beginning."""
        return self.scheduler.clock.monotonic()

    def at(self, when: float, function: Callable[[], None]) -> None:
        """Call `function` at a virtual time, whichever processes live then."""
        self.scheduler.clock.after(max(0.0, when - self.now()), function)

    def run_for(self, seconds: float) -> None:
        """Advance virtual time."""
        self.scheduler.run_for(seconds)

    def log_line(self, who: str, what: str) -> None:
        """Write a line to the log."""
        if self._keep_log:
            self.log.append(Entry(self.now(), who, what))

    def violated(self, invariant: str, text: str) -> None:
        """Record the violation of an invariant."""
        self.violations.append(Violation(invariant, text, self.now()))
        self.log_line("!", f"VIOLATED {invariant}: {text}")


class WallClock:
    """A machine's wall clock. It may jump, and outlives processes."""

    def __init__(self) -> None:
        self.offset = 0.0


class ProcessClock(Clock):
    """A process's clock; its timers end with the process."""

    def __init__(self, process: "Process", wall: WallClock, seed: str) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self._process = process
        self._wall = wall
        self._world = process.world.scheduler.clock
        self.monotonic = self._world.monotonic  # type: ignore[method-assign]

    def now(self) -> float:
        return EPOCH + self._world.monotonic() + self._wall.offset

    def monotonic(self) -> float:
        return self._world.monotonic()

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        process = self._process
        if process.doomed:
            process.point()
        return self._world.after(seconds, lambda: function() if process.alive else None)

    def close(self) -> None:
        """Do nothing: the timers end with the process."""


class Process(Runtime):
    """A process: actors with a clock and randomness of their own.

    It can be killed at any moment, like a real process: after that no `finally`, no timer and no answer of it runs.

    Args:
        world: the world of the run.
        name: name for the log.
        wall: wall clock of its machine.
        number: number of the process on its machine; part of the seed of its random numbers.
    """

    def __init__(self, world: World, name: str, wall: WallClock, number: int = 0) -> None:
        self.world = world
        self.name = name
        self.identity = f"{name}-{number}"
        """Its name and number."""
        self.alive = True
        self.doomed = False
        """Whether its kill is scheduled, or has happened."""
        self._steps_left = 0
        self._die: Callable[[], None] = self.kill
        self.clock: ProcessClock = ProcessClock(self, wall, f"{world.seed} {name} {number}")
        self._future_class = type("BoundFuture", (SimulatedFuture,), {"scheduler": world.scheduler})
        self._greenlets: set[greenlet] = set()
        self._sweep_at = _MANY

    def queue(self) -> Queue:
        return _ProcessQueue(self)

    def future(self) -> Future[Any]:
        future: Future[Any] = self._future_class()
        return future

    def close(self) -> None:
        """Do nothing: no thread runs beside the scheduler."""

    def _spawn(self, function: Callable[[], None], name: str) -> None:  # noqa: ARG002 - greenlets have no names
        if not self.alive:
            return
        self._greenlets.add(self.world.scheduler.spawn(function))
        if len(self._greenlets) > self._sweep_at:
            self._greenlets = {one for one in self._greenlets if not one.dead}
            self._sweep_at = 2 * len(self._greenlets) + _MANY

    def run(self, function: Callable[[], None]) -> None:
        """Run a function as the process's main thread."""
        self._spawn(function, "main")

    def sleep(self, seconds: float) -> None:
        """Wait, like a thread in a system call."""
        if seconds > 0:
            over = self.future()
            self.clock.after(seconds, over.set)
            over.get()

    def doom(self, steps: int, die: Callable[[], None]) -> None:
        """Call `die` after a number of further steps. A step is a put into a queue, the setting of a timer, or the
        begin or end of a CRI call or commit.
        """
        self.doomed, self._steps_left, self._die = True, steps, die

    def point(self) -> None:
        """Mark a step where the process may be killed. In a killed process this does not return."""
        if not self.doomed:
            return
        self._steps_left -= 1
        if self._steps_left <= 0 and self.alive:
            self._die()
        if not self.alive and getcurrent() in self._greenlets:
            self.world.scheduler.park()

    def kill(self) -> None:
        """End the process immediately."""
        self.alive, self.doomed = False, True
        self.world.scheduler.kill(self._greenlets)


class _ProcessQueue(SimulatedQueue):
    def __init__(self, process: Process) -> None:
        super().__init__(process.world.scheduler)
        self._process = process

    def put(self, item: Any) -> None:
        if self._process.doomed:
            self._process.point()
        super().put(item)


class _Errors(logging.Handler):
    """The handler that reports logged exceptions as violations: outside of tests they would go unnoticed."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, tuple(self._world.expected)):
            self._world.log_line("!", "".join(traceback.format_exception(error)[-12:]))
            self._world.violated("no unexpected exception", f"{record.getMessage()}: {error!r}")
