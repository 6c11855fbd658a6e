"""The scheduler: one thread of a scenario runs at a time."""

import _thread
import random
import threading
from collections.abc import Callable, Mapping
from typing import Final

from beehive.clock import Clock, Timer
from tests.support.patience import PATIENCE

_MOST_STEPS: Final = 50_000

real_lock: Final = _thread.allocate_lock
_here = threading.local()


class DeadlockError(AssertionError):
    """Every thread of a scenario waits for another, or for something that has been missed."""


class StalledError(AssertionError):
    """Nothing happened until a time-out: somebody was not woken."""


class _AbandonedError(BaseException):
    """Ends the threads of a scenario that cannot go on."""


class ScheduledThread:
    """One thread of a scenario.

    Args:
        interleaving: the run that it belongs to.
        function: what it does.
        name: for messages.
    """

    def __init__(self, interleaving: "Interleaving", function: Callable[[], object], name: str) -> None:
        self.interleaving = interleaving
        self.function = function
        self.name = name
        self.finished = False
        self.error: BaseException | None = None
        self.condition: Callable[[], object] | None = None
        self.deadline: float | None = None
        self.timed_out = False
        self.gate = real_lock()
        self.gate.acquire()

    @property
    def is_ready(self) -> bool:
        """Whether it can go on now."""
        return not self.finished and (self.condition is None or bool(self.condition()))


def current_thread() -> ScheduledThread | None:
    """Return the calling thread if it belongs to a scenario that goes on."""
    thread: ScheduledThread | None = getattr(_here, "thread", None)
    return thread


class Interleaving:
    """One run of a scenario in one order.

    At each step the running thread goes on, or if it cannot, the next one that can. `choices` has the steps where
    another one runs instead, by its place among those that can. A thread that waits with a time-out can always run: its
    time is over then, as on a machine that was slow. When no other can, the earliest time-out is waited for, which
    takes no time of the machine's.

    Args:
        choices: the interruptions.
        stalls: whether a scenario may wait for a time-out while nothing else can happen.
    """

    def __init__(self, choices: Mapping[int, int], *, stalls: bool = False) -> None:
        self.clock = InterleavedClock(self)
        self.seconds = 0.0
        """Seconds that have passed in the scenario."""
        self.interruptions: list[str] = []
        """Where a thread was interrupted, and its successor."""
        self.alternatives: list[int] = [0]
        """How many other threads could have run at each step."""
        self._choices = choices
        self._stalls = stalls
        self._threads: list[ScheduledThread] = []
        self._failure: BaseException | None = None
        self._is_choosing = False
        self._done = real_lock()
        self._done.acquire()

    def run(self, *functions: Callable[[], object]) -> None:
        """Run each function on a thread of its own until all have ended, also those that they start.

        Raises:
            DeadlockError: some wait for ever.
            StalledError: nothing happened until a time-out.
            BaseException: the first that a function has raised.
        """
        self._done = real_lock()
        self._done.acquire()
        first = [self.spawn(function, f"thread {number}") for number, function in enumerate(functions, 1)]
        self._hand_over(None, "the beginning", first[0])
        if not self._done.acquire(timeout=PATIENCE):
            raise DeadlockError(f"a thread waits outside of the scheduler: {self._waiting()}")
        errors = [thread.error for thread in self._threads if thread.error is not None]
        for error in [*errors, self._failure]:
            if error is not None:
                raise error

    def spawn(self, function: Callable[[], object], name: str) -> ScheduledThread:
        """Add a thread, which can run from the next step on."""
        thread = ScheduledThread(self, function, name)
        self._threads.append(thread)
        _thread.start_new_thread(self._live, (thread,))
        return thread

    def wait_until(self, condition: Callable[[], object], timeout: float | None = None) -> bool:
        """Let others run until a condition holds; return False if `timeout` seconds of the scenario are over before."""
        thread = current_thread()
        if thread is None:
            return bool(condition())
        if timeout is not None and timeout <= 0:
            self.step("a look")
            return bool(condition())
        thread.condition = condition
        thread.deadline = None if timeout is None else self.seconds + timeout
        thread.timed_out = False
        self._hand_over(thread, "a wait", thread)
        thread.condition = thread.deadline = None
        return not thread.timed_out

    def step(self, where: str) -> None:
        """Let another thread run, if this step is chosen for it."""
        thread = current_thread()
        if thread is not None and not self._is_choosing:
            self._hand_over(thread, where, thread)

    def _live(self, thread: ScheduledThread) -> None:
        thread.gate.acquire()
        _here.thread = thread
        try:
            if self._failure is None:
                thread.function()
        except _AbandonedError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            thread.error = error
        finally:
            thread.finished = True
            _here.thread = None
            threading._active.pop(_thread.get_ident(), None)  # type: ignore[attr-defined] # what logging has made
            self._hand_over(None, "its end", thread)

    def _hand_over(self, thread: ScheduledThread | None, where: str, before: ScheduledThread) -> None:
        """Let the next thread run; return when it is the turn of `thread` again."""
        if thread is not None and self._failure is not None:
            raise _AbandonedError
        following = self._following(before, where)
        if following is None:
            self._done.release()
        elif following is not thread:
            following.gate.release()
            if thread is not None:
                thread.gate.acquire()
        if thread is not None and self._failure is not None:
            raise _AbandonedError

    def _following(self, before: ScheduledThread, where: str) -> ScheduledThread | None:
        if self._failure is not None:  # each ends in turn
            return next((thread for thread in self._threads if not thread.finished), None)
        place = self._threads.index(before)
        around = self._threads[place:] + self._threads[:place]
        self._is_choosing = True
        ready = [thread for thread in around if thread.is_ready]
        self._is_choosing = False
        late = [thread for thread in around if not thread.finished and thread.deadline is not None]
        late = sorted((thread for thread in late if thread not in ready), key=lambda thread: thread.deadline or 0.0)
        able = [*ready, *late]
        if not able:
            return self._end(around)
        number = len(self.alternatives)
        self.alternatives.append(len(able) - 1)
        chosen = self._choices.get(number)
        following = able[0 if chosen is None else 1 + chosen % (len(able) - 1) if len(able) > 1 else 0]
        if following is not able[0]:
            self.interruptions.append(f"step {number}: {before.name} at {where}, for {following.name}")
        if following not in ready:
            self.seconds = max(self.seconds, following.deadline or 0.0)
            following.timed_out = True
            if not (ready or self._stalls):
                return self._fail(StalledError(f"nothing happens until a time-out: {self._waiting()}"), around)
        if number > _MOST_STEPS:
            return self._fail(DeadlockError(f"{number} steps, and no end"), around)
        return following

    def _end(self, around: list[ScheduledThread]) -> ScheduledThread | None:
        if all(thread.finished for thread in around):
            return None
        return self._fail(DeadlockError(f"nobody can go on: {self._waiting()}"), around)

    def _fail(self, failure: BaseException, around: list[ScheduledThread]) -> ScheduledThread | None:
        self._failure = failure
        return next((thread for thread in around if not thread.finished), None)

    def _waiting(self) -> str:
        return ", ".join(thread.name for thread in self._threads if not thread.finished)


class InterleavedClock(Clock):
    """The clock of a scenario. Each timer fires on a thread of its own."""

    def __init__(self, interleaving: Interleaving) -> None:
        self._interleaving = interleaving
        self.random = random.Random(0)  # noqa: S311 - the same in each run

    def now(self) -> float:
        return 1_700_000_000.0 + self._interleaving.seconds

    def monotonic(self) -> float:
        return self._interleaving.seconds

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        timer = _InterleavedTimer(self._interleaving, seconds, function)
        self._interleaving.spawn(timer.run, "the clock")
        return timer

    def close(self) -> None:
        """Do nothing: each scenario ends its timers."""


class _InterleavedTimer:
    def __init__(self, interleaving: Interleaving, seconds: float, function: Callable[[], None]) -> None:
        self._interleaving = interleaving
        self._seconds = seconds
        self._function = function
        self.active = True

    def cancel(self) -> bool:
        was, self.active = self.active, False
        return was

    def run(self) -> None:
        self._interleaving.wait_until(lambda: not self.active, self._seconds)
        if self.active:
            self.active = False
            self._function()
