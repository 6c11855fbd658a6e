"""Timers with random lengths: in a replay they get the recorded length.

edgehub draws at random how long it waits before it dials again; without the seed nothing else can draw the same. A
timer is known by its function and the time when it was set. A timer that did not fire was cancelled, because the
network had changed: then edgehub dials before the next recorded attempt ends.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator
from functools import wraps
from math import inf
from typing import Final

from beehive.clock import Timer
from beehive.trace import Delivered, Note, Record, TimerFired
from edged.probes.manager import PROBE
from edgehub.module import EdgeHub
from modules.lab.replay.module_turns import ModuleTurns
from modules.lab.replay.outputs import sent_at

_NEAR: Final = 0.25
"""Seconds that a timer may be set earlier or later than the recorded one."""
_LATE: Final = 2.0
"""Seconds that a busy machine may run a timer late, or cancel it after it was due and the module had time for it."""
_STILL: Final = 10.0
"""Seconds that a machine may stand still."""
_SAME: Final = 0.001
"""Seconds by which the length of a timer may differ, if it is not drawn. One that is no longer is for what the recorded
timer before it was for, too."""
_ATTEMPT: Final = 0.001
"""Seconds of an attempt whose begin is not recorded."""
_LOCAL: Final = "<locals>"
"""Place of a function within another; several timers of it may wait."""
_DIAL: Final = EdgeHub._dial.__qualname__


class RecordedTimers:
    """Lengths of a module's recorded timers.

    Args:
        records: records of the run.
        module: module that set the timers.
    """

    def __init__(self, records: tuple[Record, ...], module: str) -> None:
        self._module = module
        self._turns = ModuleTurns(records)
        self._single: dict[str, list[TimerFired]] = {}
        """Timers that ran once and are to run yet, by their function, in the order that they were set."""
        self._periodic: dict[tuple[str, float], deque[TimerFired]] = {}
        """Turns of periodic timers that are to come yet, by function and period."""
        for one in records:
            if isinstance(one, TimerFired) and one.module == module:
                if one.periodic:
                    self._periodic.setdefault((one.name, one.seconds), deque()).append(one)
                else:
                    self._single.setdefault(one.name, []).append(one)
        for timers in self._single.values():
            timers.sort(key=_set_at)
        sent = (sent_at(one) for one in records if isinstance(one, Delivered) and one.sender == module)
        self._started = min(sent, default=0.0)
        """When the module had started, by its first message."""
        self._attempts = [one.time for one in records if isinstance(one, Note) and one.kind == "link"]
        """When the link came up, was lost, or could not be opened."""

    def seconds(self, name: str, now: float, seconds: float) -> float:
        """Return the length of a timer that is set now; `seconds` if none was recorded."""
        attempt = self._next_attempt(now) if name == _DIAL else inf
        known = [one for one in self._set_within(name, now, now + _NEAR) if _fired_at(one) <= attempt]
        meant = min(known, key=_fired_at, default=None)
        if meant is None:
            return min(seconds, attempt - now - _ATTEMPT)
        self._ran(meant)
        return max(0.0, _fired_at(meant) - now)

    def timer(self, function: Callable[[], None], now: float, seconds: float) -> tuple[float, Callable[[], None]]:
        """Return the length of a timer that is set now, and the function to be called.

        A busy machine runs a timer late. It is the recorded one of its function that was set at this time, as far as
        that is known: until it runs, another one may be, because timers are cancelled and set again. One of the same
        length or for the same time comes first. One that did not run in the recorded run was cancelled, perhaps when it
        was due already: it runs that much later. So does the first probe of a container, whose wait is drawn while
        edged is young, which it may have been for longer in the recorded run.
        """
        name = getattr(function, "__qualname__", "")
        late = self._latest(now + seconds)
        known = list(self._set_within(name, now, max(self._turns.latest(self._module, now, _LATE), late - seconds)))
        nearest = min((abs(_set_at(one) - now) for one in known), default=inf)
        near = [one for one in known if abs(_set_at(one) - now) <= nearest + _NEAR]
        of_length = [one for one in near if abs(one.seconds - seconds) <= _SAME]
        meant = min(of_length, key=lambda one: abs(_set_at(one) - now), default=None)
        if meant is None and name != _DIAL:
            if seconds <= _SAME and not name.startswith(PROBE):
                return max(0.0, seconds), function
            meant = self._due_then(name, now, seconds) if nearest > _NEAR else None
        meant = meant or min(near, key=lambda one: abs(_set_at(one) - now), default=None)
        meant = meant or self._at_another_time(name, now, seconds)
        if meant is None or (name == _DIAL and _fired_at(meant) > self._next_attempt(now)):
            return self.seconds(name, now, seconds) if name == _DIAL else late - now, function

        @wraps(function)
        def fire() -> None:
            self._ran(meant)
            function()

        earliest = seconds if abs(meant.seconds - seconds) <= _SAME else 0.0  # none runs before it is due
        return max(earliest, _fired_at(meant) - now), fire

    def take_next(self, function: Callable[[], None], now: float, seconds: float) -> tuple[float, TimerFired | None]:
        """Return when a periodic timer is to run next, and its recorded turn then; infinity after its last time.

        Without the same period in the recorded run, which the code may have changed since, or which may have ended
        before, it is after the period. The recorded module may have started later than that of the replay.
        """
        turns = self._periodic.get((getattr(function, "__qualname__", type(function).__qualname__), seconds))
        if turns is None:
            return max(now, self._started) + seconds, None
        while turns and _fired_at(turns[0]) < now - _NEAR:
            turns.popleft()
        turn = turns.popleft() if turns else None
        return (inf if turn is None else max(now, _fired_at(turn))), turn

    def give_back(self, turn: TimerFired) -> None:
        """Keep a turn of a periodic timer that was cancelled before it, for the one that is set in its place."""
        insort(self._periodic[turn.name, turn.seconds], turn, key=_fired_at)

    def _latest(self, due: float) -> float:
        """Return until when a timer that is due may run. One turn of the module may come just before all stands still;
        without any the recording may have ended meanwhile.
        """
        if self._turns.last(self._module) < due:
            return due + _STILL
        return self._turns.latest(self._module, self._turns.latest(self._module, due, 0.0), _LATE)

    def _set_within(self, name: str, now: float, until: float) -> Iterator[TimerFired]:
        """Yield the timers of a function that were set at about this time, and are to run yet."""
        timers = self._single.get(name, [])
        for number in range(bisect_right(timers, now - _NEAR, key=_set_at), len(timers)):
            if _set_at(timers[number]) >= until:
                return
            yield timers[number]

    def _due_then(self, name: str, now: float, seconds: float) -> TimerFired | None:
        """Return a timer of a function that ran when this one is due, whenever it was set: one of the runs set it again
        for a moment earlier.
        """
        due = now + seconds
        soon = self._running_within(name, max(now, due - _SAME), due)
        return min(soon, key=_fired_at, default=None)

    def _at_another_time(self, name: str, now: float, seconds: float) -> TimerFired | None:
        """Return a timer of a function that waited now and has this length, though it was set earlier: the recorded run
        set no other one meanwhile, as for events that are sent together.
        """
        if name.rpartition(".")[0].endswith(_LOCAL):
            return None
        soon = self._running_within(name, now, now + seconds)
        found = (one for one in soon if _set_at(one) < now and abs(one.seconds - seconds) <= _SAME)
        return min(found, key=_fired_at, default=None)

    def _running_within(self, name: str, begin: float, due: float) -> list[TimerFired]:
        """Return the timers of a function that ran between two times, or a busy machine's moment after the second."""
        latest = self._turns.latest(self._module, due, _NEAR)
        return [one for one in self._single.get(name, ()) if begin <= _fired_at(one) <= latest]

    def _ran(self, one: TimerFired) -> None:
        timers = self._single[one.name]
        for number in range(bisect_left(timers, _set_at(one), key=_set_at), len(timers)):
            if timers[number] is one:
                del timers[number]
                return
            if _set_at(timers[number]) > _set_at(one):
                return

    def _next_attempt(self, now: float) -> float:
        """Return when the next recorded attempt to connect was over; infinite after the last one."""
        after = bisect_right(self._attempts, now + _ATTEMPT)
        return self._attempts[after] if after < len(self._attempts) else inf


def _fired_at(one: TimerFired) -> float:
    return one.time - one.handled


def _set_at(one: TimerFired) -> float:
    """Return when a timer was set; for an earlier version, which does not tell how late a busy machine ran it, that
    much later.
    """
    return _fired_at(one) - (one.waited or one.seconds)


class RecordedPeriod:
    """A periodic timer that runs at the recorded times (`beehive.clock.Timer`).

    Args:
        timers: the recorded times.
        after: sets a timer that runs once, on the module's thread.
        now: returns monotonic seconds.
        seconds: the period.
        function: called each time.
    """

    def __init__(
        self,
        timers: RecordedTimers,
        after: Callable[[float, Callable[[], None]], Timer],
        now: Callable[[], float],
        seconds: float,
        function: Callable[[], None],
    ) -> None:
        self._timers = timers
        self._after = after
        self._now = now
        self._seconds = seconds
        self._function = function
        self._timer: Timer | None = None
        self._turn: TimerFired | None = None
        """The recorded one that is to come next."""
        self._set()

    @property
    def active(self) -> bool:
        """See `Timer.active`."""
        return self._timer is not None

    def cancel(self) -> bool:
        """See `Timer.cancel`."""
        timer, self._timer = self._timer, None
        is_cancelled = timer is not None and timer.cancel()
        if is_cancelled and self._turn is not None:
            self._timers.give_back(self._turn)
        return is_cancelled

    def _set(self) -> None:
        now = self._now()
        at, self._turn = self._timers.take_next(self._function, now, self._seconds)
        self._timer = None if at == inf else self._after(at - now, self._fire)

    def _fire(self) -> None:
        self._set()
        self._function()


def timed(timers: RecordedTimers) -> type[EdgeHub]:
    """Return edgehub with the recorded timers."""

    class TimedEdgeHub(EdgeHub):
        """edgehub as it is, but for the length of its timers."""

        def after(self, seconds: float, function: Callable[[], None]) -> Timer:
            """See `Module.after`."""
            name = getattr(function, "__qualname__", "")
            return super().after(timers.seconds(name, self.clock.monotonic(), seconds), function)

    return TimedEdgeHub
