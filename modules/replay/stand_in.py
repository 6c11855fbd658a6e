"""What stands in a replay for a module that is not replayed: takes what it is sent, and answers what it answered."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable
from itertools import accumulate
from typing import Final

from beehive import Hive, Message, Module, handles
from beehive.names import Group, ModuleName, Operation
from beehive.trace import Delivered
from modules.replay.outputs import handled_from, sent_at
from modules.replay.sequences import Answer, Sequences

GROUPS: Final[dict[str, Group]] = {
    ModuleName.METAMANAGER: Group.META,
    ModuleName.EDGED: Group.EDGED,
    ModuleName.EDGEHUB: Group.HUB,
    ModuleName.CLOUDHUB: Group.CLOUDHUB,
    ModuleName.EDGECONTROLLER: Group.EDGECONTROLLER,
    ModuleName.DYNAMICCONTROLLER: Group.DYNAMICCONTROLLER,
}
"""Modules that can be stood in for, with their groups."""


class StandIn(Module):
    """See the module's docstring; its name and group come from `stand_in`.

    Args:
        take: told of each message.
    """

    name = ""

    def __init__(self, take: Callable[[str, Message], None]) -> None:
        super().__init__()
        self._take = take

    @handles()
    def on_message(self, message: Message) -> None:
        """Take it."""
        self._take(self.name, message)


def stand_in(name: str) -> type[StandIn]:
    """The class for one module."""
    return type("StandIn", (StandIn,), {"name": name, "group": GROUPS.get(name, "")})


class Turns:
    """In which order each module came to what it was told, of recorded deliveries.

    A replay feeds a message when its handler began. An answer has no such moment, only that at which it was given; then
    it stood in the inbox, behind what was there already while the module was busy, with a slow disk for example. Spans
    are numbered when something is put there.
    """

    def __init__(self, deliveries: Iterable[Delivered]) -> None:
        handled: dict[str, list[Delivered]] = {}
        for one in sorted(deliveries, key=lambda one: one.span):
            if one.way != "response" and one.outcome == "handled":
                handled.setdefault(one.module, []).append(one)
        self._spans = {module: [one.span for one in told] for module, told in handled.items()}
        self._last = {module: list(accumulate(told, _later)) for module, told in handled.items()}

    def before(self, answer: Delivered) -> Delivered | None:
        """What its asker was told before an answer and came to after that was given, the last of it; None when the
        asker was free, as one always is that is no module.
        """
        number = bisect_left(self._spans.get(answer.module, []), answer.span)
        last = self._last[answer.module][number - 1] if number else None
        return last if last is not None and handled_from(last) > answer.time else None


def _later(one: Delivered, other: Delivered) -> Delivered:
    return other if handled_from(other) >= handled_from(one) else one


class Answers:
    """Answers the requests of the replayed module as the recorded ones were answered.

    Args:
        hive: of the replay.
        deliveries: all that were recorded.
        asks: whether an actor of that name belongs to the replayed module.
    """

    def __init__(self, hive: Hive, deliveries: list[Delivered], asks: Callable[[str], bool]) -> None:
        self._hive = hive
        self.given = 0
        self._turns = Turns(deliveries)
        self._fed: set[int] = set()
        self._behind: dict[int, list[Message]] = {}
        answers: dict[str, Delivered] = {}
        for one in deliveries:
            if one.way == "response":
                answers.setdefault(one.message.parent_id, one)
        self._answers: Sequences[Delivered | None] = Sequences(
            (_role(one.module, one.message.message()), _answer(one, answers.get(one.message.id)))
            for one in deliveries
            if one.way == "request" and asks(one.sender)
        )

    def take(self, module: str, message: Message) -> None:
        """A stand-in was sent a message."""
        if not message.header.sync:
            return
        clock = self._hive.clock
        now, role = clock.monotonic(), _role(module, message)
        looks = message.route.operation == Operation.QUERY
        answer = self._answers.look(role, now) if looks else self._answers.change(role)
        if answer is None or answer.value is None:
            return
        recorded = answer.value.message.message()
        reply = recorded.with_header(parent_msg_id=message.id)
        self.given += 1
        before = self._turns.before(answer.value) if answer.end == answer.value.time else None
        if before is None or before.span in self._fed:
            clock.after(answer.end - now, lambda: self._respond(reply))
        else:
            self._behind.setdefault(before.span, []).append(reply)

    def fed(self, one: Delivered) -> None:
        """The replayed module was given a recorded message: what stood behind it follows."""
        self._fed.add(one.span)
        for reply in self._behind.pop(one.span, ()):
            self._respond(reply)

    def _respond(self, reply: Message) -> None:
        self._hive.respond(reply)


def _answer(request: Delivered, answer: Delivered | None) -> Answer[Delivered | None]:
    return Answer(sent_at(request), float("inf") if answer is None else answer.time, answer)


def _role(module: str, message: Message) -> Hashable:
    return module, message.route.operation, message.route.resource
