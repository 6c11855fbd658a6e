"""The hive of a replayed node: modules get messages and answers when they took them in the recorded run.

Nothing takes time in a replay, so edged would learn of its pods and of the link a little earlier than it did beside the
results of the PLEG and of workers, which it takes at their recorded times, and report states that it had not reported.
A run of an earlier version does not tell when answers were taken: then only edged is given its messages in time.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Final, NamedTuple

from beehive import Message, Runtime
from beehive.delivery import DeliveryMode
from beehive.names import ModuleName
from beehive.trace import Delivered
from beehive.trace_context import acting_as, current_cause, current_context, resumed
from edgehub.subject import subject
from modules.lab.replay.module_turns import ModuleTurns
from modules.lab.replay.outputs import handled_from, sent_at
from modules.lab.replay.stub_module import SLOWEST_START, AttributedHive

_LONGEST: Final = 1.0
"""Seconds that a message may be put off; a later one is another."""
_TIE: Final = 1e-3
"""Seconds between two messages that the threads of a real node may have sent in either order."""


class _Times(NamedTuple):
    sent: float
    handled: float
    sender: str = ""


class PacedHive(AttributedHive):
    """A hive that puts off messages and answers to edged until their recorded times.

    Args:
        runtime: of the replay.
        deliveries: all recorded deliveries, in the order that they were sent.
        acted: when answers were taken, or when edged acted first because of one (`acted_at`), by the answer's span.
        exact: the modules whose turns are all known; each message and answer then has its own time, whatever waits.
        turns: when modules began their turns; None if that tells nothing of when they sent messages.
        is_simulated: whether the recorded run was a simulation, which has one thread; for a run without turns.
        alone: whether one module is replayed, which gets the others' messages and answers when it took them: then only
            what it sends itself is put off.
    """

    def __init__(
        self,
        runtime: Runtime,
        deliveries: Iterable[Delivered],
        acted: Mapping[int, float] | None = None,
        exact: Collection[str] = (),
        turns: ModuleTurns | None = None,
        *,
        is_simulated: bool = False,
        alone: bool = False,
    ) -> None:
        super().__init__(runtime)
        self._turns = turns or ModuleTurns(())
        self._alone = alone
        self._tie = 0.0 if is_simulated else _TIE
        self._exact = bool(exact)
        self._modules = frozenset(exact or (ModuleName.EDGED,))
        self._times: dict[Hashable, deque[_Times]] = {}
        self._begun: set[Hashable] = set()
        """Roles of which the replay has had one."""
        self._asked: dict[str, Hashable] = {}
        """Roles of edged's requests, by id."""
        self._waiting: list[_Times] = []
        """What is put off, with the time until when."""
        recorded: dict[str, Hashable] = {}
        handled = 0.0
        for one in deliveries:
            if alone and one.sender != one.module:
                continue
            if one.way == DeliveryMode.REQUEST and one.sender in self._modules:
                recorded[one.message.id] = _role(one.sender, DeliveryMode.RESPONSE, one.message.message())
            if one.module not in self._modules or one.outcome != "handled":
                continue
            handled = max(handled, handled_from(one))
            if one.way != DeliveryMode.RESPONSE:
                times = _Times(sent_at(one), handled_from(one), one.sender)
                self._times.setdefault(_role(one.module, one.way, one.message.message()), deque()).append(times)
            elif one.message.parent_id in recorded:
                least = one.time if self._exact else handled
                when = max(least, (acted or {}).get(one.span, least))
                self._times.setdefault(recorded[one.message.parent_id], deque()).append(_Times(one.time, when))

    def respond(self, message: Message, by: str | None = None) -> bool:
        """See `beehive.Hive.respond`."""
        role = self._asked.pop(message.header.parent_msg_id, None)
        if role is None or not self._put_off(role, lambda: super(PacedHive, self).respond(message, by), is_answer=True):
            return super().respond(message, by)
        return True

    def _deliver(self, destination: str, message: Message, mode: DeliveryMode, *, waits: bool = True) -> None:
        sender = current_context().actor
        if mode == DeliveryMode.REQUEST and sender in self._modules:
            self._asked[message.id] = _role(sender, DeliveryMode.RESPONSE, message)
        deliver = super()._deliver
        is_paced = destination in self._modules and (sender == destination or not self._alone)
        if not is_paced or not self._put_off(
            _role(destination, mode, message),
            lambda: deliver(destination, message, mode, waits=False),
            is_own=sender == ModuleName.EDGED,
        ):
            deliver(destination, message, mode, waits=waits)

    def _put_off(
        self, role: Hashable, function: Callable[[], object], *, is_answer: bool = False, is_own: bool = False
    ) -> bool:
        """Call a function at the recorded time, behind what was put off before; return False if that is now. An answer,
        and a message of edged's own, comes before messages that were sent later, though those may have been put off
        before it.
        """
        now, cause, sender = self.clock.monotonic(), current_cause(), current_context().actor
        times = self._next_of(role, now, sender)
        due = times.handled if self._exact else self._behind_others(times, now, is_answer=is_answer, is_own=is_own)
        if due <= now:
            return False

        def call() -> None:
            with acting_as(sender), resumed(cause):
                function()

        self.clock.after(due - now, call)
        return True

    def _next_of(self, role: Hashable, now: float, sender: str) -> _Times:
        """Return the next recorded times of a role, of the same sender if possible: workers ask for one object, and
        which of them asked first is a race. Zeros without any that is near.
        """
        found = self._times.get(role)
        while self._exact and found and found[0].sent < now - _LONGEST and found[0].handled < now:
            found.popleft()
        longest = _LONGEST if not self._exact or role in self._begun else SLOWEST_START
        self._begun.add(role)
        latest = self._turns.latest(sender, now, longest)
        if not found or (found[0].sent if self._exact else found[0].handled) > latest:
            return _Times(0.0, 0.0)
        own = (one for one in found if one.sender == sender and one.sent <= latest) if self._exact else ()
        times = next(iter(own), found[0])
        found.remove(times)
        return times

    def _behind_others(self, times: _Times, now: float, *, is_answer: bool, is_own: bool) -> float:
        self._waiting = [each for each in self._waiting if each.handled > now]
        overtakes = (is_answer or is_own) and times.sent > 0.0
        latest = times.sent + (0.0 if is_own else self._tie)
        before = (each.handled for each in self._waiting if not overtakes or each.sent <= latest)
        due = max(now, times.handled, *before)
        if due > now:
            self._waiting.append(_Times(times.sent, due))
        return due


def _role(module: str, way: str, message: Message) -> Hashable:
    return module, str(way), message.route.operation, subject(message)
