"""Clocks: the only source of time, randomness and ids."""

import logging
import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from beehive.alarms import Alarm, Alarms

_log = logging.getLogger(__name__)

_FOREVER = float("inf")

_LONGEST_SLEEP = 24 * 3600.0
"""Longest sleep of the clock's thread in seconds: a pod's grace period, and so a timer, has no upper bound."""

_UUID_RANDOM = 0xFFFFFFFF_FFFF_0FFF_3FFF_FFFFFFFFFFFF
"""The bits of a UUID version 4 that are random (RFC 9562 §5.4)."""

_UUID_FIXED = 0x00000000_0000_4000_8000_000000000000
"""The bits that mark version 4 and variant 1."""
_AT_ONCE: Final = 256
_DIGITS: Final = 32
"""Hexadecimal digits of an id."""

_VARIANT: Final = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
"""The digit with two bits of variant 1 (RFC 9562 §5.4) and two random bits, by a random digit."""

_ready: deque[str] = deque()
"""Ids that were made and not given out yet; the ends of a deque are thread-safe."""

os.register_at_fork(after_in_child=_ready.clear)  # or parent and child would hand out the same ids


def unpredictable_id() -> str:
    """Return a UUID version 4 in lower case with hyphens.

    A module that knows a message's id may answer it. Ids drawn from a Mersenne Twister can be computed after a few
    hundred of them have been seen; the kernel draws these. One system call serves 256 ids, so an id costs no more.
    """
    try:
        return _ready.pop()
    except IndexError:
        return _refilled()


def _refilled() -> str:
    """Make a batch of ids and return one of them. Two threads that call it together make two batches."""
    digits = os.urandom(_AT_ONCE * _DIGITS // 2).hex()
    ids = [_uuid(digits[at : at + _DIGITS]) for at in range(0, len(digits), _DIGITS)]
    _ready.extend(ids[1:])
    return ids[0]


def _uuid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}"


class Timer(Protocol):
    """A function call that is due later."""

    def cancel(self) -> bool:
        """Keep the timer from firing; return False if it has fired or was cancelled before. Idempotent."""

    @property
    def active(self) -> bool:
        """Whether the timer will still fire."""


class Clock(ABC):
    """The time, timers, randomness and unique ids of a runtime.

    Code that waits sets a timer on the clock that it was given, so that it runs in real time on threads and in virtual
    time in simulation. A timer's function runs on the clock's own thread (or scheduler step) and must not block;
    usually it puts an item into an inbox.
    """

    random: random.Random
    """The operating system's randomness in production; seeded with the run's seed in simulation."""

    @abstractmethod
    def now(self) -> float:
        """Seconds since the Unix epoch by the node's wall clock, which may jump."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds that never go back; only differences have a meaning."""

    @abstractmethod
    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call `function` once, `seconds` from now (immediately when not positive)."""

    @abstractmethod
    def close(self) -> None:
        """Cancel all timers, also later ones."""

    def every(self, seconds: float, function: Callable[[], None], *, jitter: float = 0.0) -> Timer:
        """Call `function` every `seconds`, first after one period; each is longer by up to `jitter` of itself."""
        return _Repeating(self, seconds, function, jitter)

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch, as message headers carry them."""
        return int(self.now() * 1000)

    def now_ns(self) -> int:
        """Return nanoseconds since the Unix epoch, as CRI carries them (to the clock's resolution)."""
        return int(self.now() * 1_000_000_000)

    def new_id(self) -> str:
        """Return a UUID version 4 in lower case with hyphens, drawn from `random` or as hard to predict."""
        digits = (self.random.getrandbits(128) & _UUID_RANDOM | _UUID_FIXED).to_bytes(16, "big").hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class _Repeating:
    """A chain of single timers, so that a clock implements only those."""

    def __init__(self, clock: Clock, seconds: float, function: Callable[[], None], jitter: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._function = function
        self._jitter = jitter
        self._cancelled = False
        self._timer = clock.after(self._period(), self._fire)

    def cancel(self) -> bool:
        self._cancelled, was = True, self._cancelled
        self._timer.cancel()
        return not was

    @property
    def active(self) -> bool:
        return not self._cancelled

    def _period(self) -> float:
        return self._seconds * (1 + self._clock.random.uniform(0, self._jitter)) if self._jitter else self._seconds

    def _fire(self) -> None:
        if self._cancelled:
            return
        self._timer = self._clock.after(self._period(), self._fire)
        self._function()


class RealClock(Clock):
    """The machine's clock. One thread fires the timers; it starts with the first timer."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    new_id = staticmethod(unpredictable_id)

    def __init__(self) -> None:
        self.random = random.SystemRandom()
        self._alarms = Alarms()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        due = time.monotonic() + seconds
        with self._lock:
            if self._thread is None and not self._closed:
                self._start_thread()
            alarm = self._alarms.add(self, due, function)
            if self._closed:
                self._alarms.clear()
            elif due < self._wakes_at:
                self._changed.notify()
        return alarm

    def withdraw(self, alarm: Alarm) -> bool:
        """Cancel an alarm; return False if it has fired or was cancelled before."""
        with self._lock:
            return self._alarms.withdraw(alarm)

    def close(self) -> None:
        """Cancel all timers and end the thread; timers that are set later never fire."""
        with self._lock:
            self._closed = True
            self._alarms.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name="clock", daemon=True)
        thread.start()
        self._thread = thread

    def _run(self) -> None:
        while (function := self._next_due()) is not None:
            try:
                function()
            except Exception:  # noqa: BLE001 - one timer must not end all others
                _log.exception("a timer's function failed")
            del function

    def _next_due(self) -> Callable[[], None] | None:
        with self._lock:
            while not self._closed:
                due = self._alarms.first_due()
                if due is not None and due <= time.monotonic():
                    return self._alarms.pop()
                self._sleep(due)
            return None

    def _sleep(self, until: float | None) -> None:
        """Wait until `until`, or until an earlier alarm is set; a later alarm does not wake the thread."""
        self._wakes_at = _FOREVER if until is None else until
        self._changed.wait(None if until is None else min(max(0.0, until - time.monotonic()), _LONGEST_SLEEP))
