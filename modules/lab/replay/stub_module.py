"""Stub modules, which take the place of modules that are not replayed, and answer as those did."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import accumulate
from typing import Final

from beehive import Hive, Message, Module, Runtime, handles
from beehive.delivery import DeliveryMode
from beehive.names import Group, ModuleName, Operation
from beehive.trace import Delivered
from beehive.trace_context import current_context
from edgehub.subject import subject
from modules.lab.replay.outputs import handled_from, sent_at
from modules.lab.replay.sequences import NEAR, RecordedAnswer, Sequences

SLOWEST_START: Final = 10.0
"""Seconds that a module may have started later than it does in a replay, where all start together."""

GROUPS: Final[dict[str, Group]] = {
    ModuleName.METAMANAGER: Group.META,
    ModuleName.EDGED: Group.EDGED,
    ModuleName.DEVICETWIN: Group.TWIN,
    ModuleName.EDGEHUB: Group.HUB,
    ModuleName.EVENTBUS: Group.BUS,
    ModuleName.SERVICEBUS: Group.BUS,
    ModuleName.EDGEMESH: Group.MESH,
    ModuleName.EDGESTREAM: Group.EDGESTREAM,
    ModuleName.METASERVER: Group.METASERVER,
    ModuleName.CLOUDHUB: Group.CLOUDHUB,
    ModuleName.EDGECONTROLLER: Group.EDGECONTROLLER,
    ModuleName.DYNAMICCONTROLLER: Group.DYNAMICCONTROLLER,
}
"""Modules that have a stub, with their groups."""


class StubModule(Module):
    """A module that passes each message that it receives to a function. `stub_module` makes a subclass with a name and
    a group.

    Args:
        take: called with the name of the module and each message.
    """

    name = ""

    def __init__(self, take: Callable[[str, Message], None]) -> None:
        super().__init__()
        self._take = take

    @handles()
    def on_message(self, message: Message) -> None:
        """Pass the message on."""
        self._take(self.name, message)


def stub_module(name: str) -> type[StubModule]:
    """Return the stub class for a module."""
    return type("StubModule", (StubModule,), {"name": name, "group": GROUPS.get(name, "")})


class AttributedHive(Hive):
    """A hive that knows which actor made each request."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.askers: dict[str, str] = {}
        """Names of actors, by the ids of requests."""

    def _deliver(self, destination: str, message: Message, mode: DeliveryMode, *, waits: bool = True) -> None:
        if mode == DeliveryMode.REQUEST:
            self.askers.setdefault(message.id, current_context().actor)
        super()._deliver(destination, message, mode, waits=waits)


class DeliveryOrder:
    """The order of each module's handling of its recorded deliveries.

    A replay feeds a message at the time when its handler began. The trace has no such time for an answer, only the
    time when it was sent. It then waited in the inbox behind earlier messages while the module was busy, for
    example with a slow disk. Spans are numbered when a message enters an inbox.
    """

    def __init__(self, deliveries: Iterable[Delivered]) -> None:
        handled: dict[str, list[Delivered]] = {}
        for one in sorted(deliveries, key=lambda one: one.span):
            if one.way != "response" and one.outcome == "handled":
                handled.setdefault(one.module, []).append(one)
        self._spans = {module: [one.span for one in each] for module, each in handled.items()}
        self._last = {module: list(accumulate(each, _later)) for module, each in handled.items()}

    def before(self, answer: Delivered) -> Delivered | None:
        """Return the last message that the asker received before an answer and handled after the answer was sent. None
        if the asker was free, or is no module.
        """
        number = bisect_left(self._spans.get(answer.module, []), answer.span)
        last = self._last[answer.module][number - 1] if number else None
        return last if last is not None and handled_from(last) > answer.time else None


def _later(one: Delivered, other: Delivered) -> Delivered:
    return other if handled_from(other) >= handled_from(one) else one


class SentIds:
    """The ids that the messages of the replayed module had in the recorded run, with the ids of the replay. They are
    paired by receiver, operation, resource and number.

    Args:
        deliveries: all recorded deliveries.
        sends: whether an actor of that name belongs to the replayed module.
    """

    def __init__(self, deliveries: Iterable[Delivered], sends: Callable[[str], bool]) -> None:
        self._recorded: dict[Hashable, deque[str]] = {}
        self._ids: dict[str, str] = {}
        for one in deliveries:
            if one.way == DeliveryMode.SEND and sends(one.sender):
                self._recorded.setdefault(_role(one.module, one.message.message()), deque()).append(one.message.id)

    def sent(self, module: str, message: Message) -> None:
        """Note that the replayed module has sent a message."""
        waiting = self._recorded.get(_role(module, message))
        if waiting:
            self._ids[waiting.popleft()] = message.id

    def answer(self, message: Message) -> Message:
        """Return a recorded message; if it answers one of the replayed module, with the id that this has now."""
        parent = self._ids.get(message.parent_id)
        return message if parent is None else message.with_header(parent_msg_id=parent)


class Responder:
    """The answers to the requests of the replayed module as they were in the recorded run.

    Args:
        hive: hive of the replay.
        deliveries: all recorded deliveries.
        acted: the time when each answer was acted on, by the answer's span; see `acted_at`.
        asks: whether an actor of that name belongs to the replayed module.
        order: in which modules handled their deliveries; None if it is known when they acted on answers.
    """

    def __init__(
        self,
        hive: AttributedHive,
        deliveries: list[Delivered],
        acted: Mapping[int, float],
        asks: Callable[[str], bool],
        order: DeliveryOrder | None,
    ) -> None:
        self._hive = hive
        self.given = 0
        self._order = order
        self._acted = acted
        self.ids = SentIds(deliveries, asks)
        self._fed: set[int] = set()
        self._begun: set[Hashable] = set()
        """Roles of queries that were made."""
        self._behind: dict[int, list[Message]] = {}
        answers: dict[str, Delivered] = {}
        for one in deliveries:
            if one.way == "response":
                answers.setdefault(one.message.parent_id, one)
        asked = [
            (one.sender, _role(one.module, one.message.message()), _answer(one, answers.get(one.message.id)))
            for one in deliveries
            if one.way == "request" and asks(one.sender)
        ]
        self._answers: Sequences[Delivered | None] = Sequences((role, answer) for _, role, answer in asked)
        self._of_actors: Sequences[Delivered | None] = Sequences(
            ((actor, role), answer) for actor, role, answer in asked if "/" in actor
        )
        """Answers to the module's own actors: its workers ask for the same object, in any order."""

    def handle(self, module: str, message: Message) -> None:
        """Answer a message that was sent to a stub."""
        self.ids.sent(module, message)
        if not message.header.sync:
            return
        clock = self._hive.clock
        now, role = clock.monotonic(), _role(module, message)
        reads = message.route.operation == Operation.QUERY
        answer = self._first(self._hive.askers.pop(message.id, ""), role, now) if reads else self._answers.change(role)
        if answer is None or answer.value is None:
            return
        recorded = answer.value.message.message()
        reply = recorded.with_header(parent_msg_id=message.id)
        self.given += 1
        is_due = self._order is not None and answer.end == answer.value.time
        before = self._order.before(answer.value) if self._order is not None and is_due else None
        if before is None or before.span in self._fed:
            due = max(answer.end, self._acted.get(answer.value.span, 0.0))
            clock.after(due - now, lambda: self._respond(reply))
        else:
            self._behind.setdefault(before.span, []).append(reply)

    def _first(self, asker: str, role: Hashable, now: float) -> RecordedAnswer[Delivered | None] | None:
        """Return the answer to a query: to the first one of its role, which a module may have made as it started, the
        first recorded one.
        """
        ahead = NEAR if self._order is not None or role in self._begun else SLOWEST_START
        self._begun.add(role)
        own = self._of_actors.near((asker, role), now, ahead=NEAR)
        return own or self._answers.near(role, now, ahead=ahead) or self._answers.other(role, now)

    def message_fed(self, one: Delivered) -> None:
        """Send the answers that were recorded behind a message, now that the replayed module has got the message."""
        self._fed.add(one.span)
        for reply in self._behind.pop(one.span, ()):
            self._respond(reply)

    def _respond(self, reply: Message) -> None:
        self._hive.respond(reply)


def _answer(request: Delivered, answer: Delivered | None) -> RecordedAnswer[Delivered | None]:
    return RecordedAnswer(sent_at(request), float("inf") if answer is None else answer.time, answer)


def _role(module: str, message: Message) -> Hashable:
    return module, message.route.operation, subject(message)
