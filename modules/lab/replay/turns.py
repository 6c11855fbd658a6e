"""When modules took answers and the results of other threads in the recorded run, and take them in its replay.

Messages and timers have records of their own. The rest of a module's turns, and so their order among messages and
timers, is in notes (`beehive.trace.NoteKind.TURN`); runs of earlier versions have none.
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import takewhile
from math import inf
from operator import itemgetter
from typing import Final, TypeVar

import msgspec

from beehive import Actor, Module, ModuleName, Runtime
from beehive.clock import Clock, Timer
from beehive.delivery import ANSWER
from beehive.trace import Note
from beehive.trace_context import current_cause, resumed
from edged.pod_workers.job import Job
from edged.probes.worker_pool import Assignment, turn_of
from edged.sync.events import SYNCED
from modules.lab.replay.module_turns import ModuleTurns
from modules.lab.replay.timers import RecordedPeriod, RecordedTimers

M = TypeVar("M", bound=Module)
T = TypeVar("T", bound=Actor)

_LATE: Final = 0.25
"""Seconds that a result may come later than the recorded one."""
_EARLY: Final = 2.0
"""Seconds that work may begin before the recorded one did, and that a result may come before the recorded one was
taken, if it is not known when its work began."""
_LONGEST: Final = 10.0
"""Seconds that a result may have waited to be taken."""
_OLDER_WORDS: Final = 2
"""Words in the name of a turn of earlier versions, at most."""
_MOMENT: Final = 2e-6
"""Seconds by which the beginning of an inspection may differ: it is that of its first call."""


class Turn(msgspec.Struct, eq=False):
    """A turn in which a module took a result."""

    at: float
    """When it began; infinite if the recording ended before."""
    since: float | None
    """When the work began whose result it took, if that is known."""
    caused_at: float = 0.0
    """When the message was handled that had caused the work, if one had."""
    is_begun: bool = False
    """Whether the replay has begun that work."""


class RecordedTurns:
    """The turns of a recorded run.

    Args:
        notes: its notes of turns, in their order.
        begun: when modules began their turns; None if that is not known.
    """

    def __init__(self, notes: Iterable[Note], begun: ModuleTurns | None = None) -> None:
        self._begun = begun or ModuleTurns(())
        self.answered: dict[int, float] = {}
        """When each answer was taken, by its span."""
        self._turns: dict[tuple[str, str], deque[Turn]] = {}
        """Those that the replay is to take yet, by module and name."""
        for note in notes:
            if note.text == ANSWER:
                self.answered.setdefault(note.cause, note.time)
            else:
                caused_at = self._begun.handled.get(note.cause, 0.0)
                self._turns.setdefault((note.module, note.text), deque()).append(Turn(note.time, note.data, caused_at))
        self.are_known = bool(self.answered or self._turns)
        """Whether the run has such notes."""

    def add_unfinished(self, module: str, name: str, begun: Iterable[float]) -> None:
        """Add work that was under way when the recording ended, if there was any.

        Args:
            module: that was to take the result.
            name: of the turn.
            begun: when work with that name seems to have begun.
        """
        turns = self._turns.setdefault((module, name), deque())
        taken = turns[-1].at if turns else 0.0
        last = min((time for time in begun if time > taken), default=None)
        if last is not None:
            turns.append(Turn(inf, last))

    def taken_at(self, module: str, name: str, since: float | None, now: float) -> float:
        """Return when a module took the result that it is given now; `now` if the recorded run had no such result.

        Args:
            module: its name.
            name: of the turn.
            since: when the work began, if that is known.
            now: the time.
        """
        turns = self._named(module, name)
        while turns and turns[0].at < now - _LATE:
            turns.popleft()
        if since is None:
            found = turns[0] if turns and turns[0].at <= self._begun.latest(module, now, _EARLY) else None
        else:
            near = takewhile(lambda one: one.at <= now + _LONGEST, turns)
            begun = [(one.since, one) for one in near if one.at >= now and one.since is not None]
            _, found = max(
                (pair for pair in begun if pair[0] <= since + _MOMENT), key=itemgetter(0), default=(0.0, None)
            )
        if found is None:
            return now
        turns.remove(found)
        return max(now, found.at)

    def _named(self, module: str, name: str) -> deque[Turn]:
        """Return the turns of a name: of its first two words, the kind of the turn and its object, if the run has none
        of the whole name. Earlier versions did not tell apart what one container or pod has several of.
        """
        found = self._turns.get((module, name))
        older = " ".join(name.split(" ")[:_OLDER_WORDS])
        return self._turns.get((module, older), deque()) if found is None else found

    def begin(self, module: str, name: str, now: float) -> float | None:
        """Return when the next work began whose result was taken in a turn of that name; None without any that is near:
        a pod that is synced again after a drawn time takes no work of later, which a message has caused since. Of a
        container's probes, the one that began first may have ended last.

        Args:
            module: that takes the result.
            name: of the turn.
            now: when the replay would begin the work.
        """
        latest = self._begun.latest(module, now, _EARLY)
        turns = self._named(module, name)
        left = ((one.since, one) for one in turns if not one.is_begun and one.caused_at <= now + _LATE)
        near = ((since, one) for since, one in left if since is not None and now - _LATE <= since <= latest)
        since, found = min(near, key=itemgetter(0), default=(None, None))
        if found is not None:
            found.is_begun = True
        return since


def paced(module: type[M], turns: RecordedTurns, timers: RecordedTimers) -> type[M]:
    """Return a module that takes results, and runs its timers, when it did in the recorded run."""

    class PacedModule(module):  # type: ignore[misc, valid-type]
        """The module as it is, but for the time of some of its turns."""

        def after(self, seconds: float, function: Callable[[], None]) -> Timer:
            """See `Module.after`."""
            left, fired = timers.timer(function, self.clock.monotonic(), seconds)
            timer: Timer = super().after(left, fired)
            return timer

        def every(self, seconds: float, function: Callable[[], None], *, jitter: float = 0.0) -> Timer:  # noqa: ARG002
            """See `Module.every`."""
            return RecordedPeriod(timers, super().after, self.clock.monotonic, seconds, function)

        def call_soon(self, function: Callable[[], None], name: str = "", since: float | None = None) -> None:
            """See `Module.call_soon`."""
            now = self.clock.monotonic()
            at = turns.taken_at(self.name, name, since, now) if name else now
            call_at(self.clock, at, lambda: super(PacedModule, self).call_soon(function, name, since))

    return PacedModule


def begun_in_time(
    actor: type[T], runtime: Runtime, turns: RecordedTurns, turn_of: Callable[[object], str | None]
) -> type[T]:
    """Return an actor that begins its work when it was begun: a busy machine may take long to.

    Args:
        actor: its class.
        runtime: of the replay.
        turns: in which edged took the results.
        turn_of: returns the name of the turn, by the actor's message; None if it asks for no such work.
    """

    class PunctualActor(actor):  # type: ignore[misc, valid-type]
        """The actor as it is, but for when it begins."""

        def on_receive(self, message: object) -> None:
            """See `Actor.on_receive`."""
            turn, now = turn_of(message), self.clock.monotonic()
            begun = None if turn is None else turns.begin(ModuleName.EDGED, turn, now)
            if begun is not None and begun > now:
                over = runtime.future()
                self.clock.after(begun - now, over.set)
                over.get()
            super().on_receive(message)

    return PunctualActor


def job_turn(message: object) -> str | None:
    """Return the name of the turn in which edged takes the result of a worker's job."""
    return f"{SYNCED} {message.ref.uid}" if isinstance(message, Job) else None


def probe_turn(message: object) -> str | None:
    """Return the name of the turn in which edged takes the result of a probe."""
    return turn_of(message.attempt) if isinstance(message, Assignment) else None


def call_at(clock: Clock, time: float, function: Callable[[], None]) -> None:
    """Call a function at a time, in the present trace context; immediately if the time has passed."""
    cause, seconds = current_cause(), time - clock.monotonic()

    def call() -> None:
        with resumed(cause):
            function()

    if seconds > 0:
        clock.after(seconds, call)
    else:
        function()
