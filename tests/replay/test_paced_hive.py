"""Messages to edged come when the recorded run handled them."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from beehive import Hive, Message, Module, ModuleName, handles
from beehive.simulation import Simulation
from beehive.trace import Delivered, Note, NoteKind, RecordedMessage
from beehive.trace_context import acting_as
from modules.lab.replay.module_turns import ModuleTurns
from modules.lab.replay.paced_hive import PacedHive
from modules.lab.replay.stub_module import AttributedHive, Responder, stub_module

EDGED, META = ModuleName.EDGED.value, ModuleName.METAMANAGER.value
_OPERATIONS = {"request": "query", "response": "response"}


def recorded(span: int, at: float, way: str, resource: str, waited: float = 0.0) -> Delivered:
    """A delivery that was handled at a time, after it had waited: to edged, or a request of edged."""
    sender, to = (EDGED, META) if way == "request" else (META, EDGED)
    parent = f"request-{resource}" if way == "response" else ""
    operation = _OPERATIONS.get(way, "update")
    message = RecordedMessage(
        f"{way}-{resource}", parent, 0, "", False, "", "s", "", "g", operation, resource, b"null"  # noqa: FBT003
    )  # fmt: skip
    return Delivered(at, span, 0, span, sender, to, way, "handled", "", 0, waited, 0.0, message)


def add_edged_that_asks(hive: Hive) -> list[tuple[str, float]]:
    """Add an edged that asks when `a` comes, and is answered at once; return what it will handle, and when."""
    found: list[tuple[str, float]] = []

    class Asking(Module):
        name = ModuleName.EDGED

        @handles()
        def on_message(self, message: Message) -> None:
            """Note the time, and ask because of one message."""
            found.append((message.route.resource, round(self.clock.monotonic(), 3)))
            if message.route.resource == "a":
                self.request(ModuleName.METAMANAGER, self.message("q", "query", None), 9.0, self._answered)

        def _answered(self, _answer: object) -> None:
            found.append(("answer", round(self.clock.monotonic(), 3)))

    class Answering(Module):
        name = ModuleName.METAMANAGER

        @handles()
        def on_message(self, message: Message) -> None:
            """Answer at once."""
            self.reply(message)

    hive.add(Asking)
    hive.add(Answering)
    return found


def handled(
    deliveries: Iterable[Delivered], early: Iterable[str], late: Iterable[str] = (), *, is_simulated: bool = False
) -> list[tuple[str, float]]:
    """Return what edged handles, and when: messages that come immediately, and after a second."""
    simulation = Simulation()
    hive = PacedHive(simulation, deliveries, is_simulated=is_simulated)
    found = add_edged_that_asks(hive)
    hive.start()
    for resources, seconds in ((early, 1.0), (late, 5.0)):
        for resource in resources:
            message = Message.new(
                simulation.clock, source="s", group="g", resource=resource, operation="update", content=None
            )
            hive.send(ModuleName.EDGED, message)
        simulation.run_for(seconds)
    hive.stop()
    return found


def test_messages_to_edged_wait_for_their_recorded_times_in_their_order() -> None:
    """One whose time is over comes at once, one without a time behind those that wait; answers wait, too."""
    deliveries = [
        recorded(1, 0.5, "send", "past"),
        recorded(2, 1.5, "send", "a"),
        recorded(3, 1.5, "request", "q"),
        recorded(4, 1.8, "response", "q"),
        recorded(5, 9.0, "send", "late"),
    ]
    found = handled(deliveries, (), ("past", "a", "unknown", "late"))
    assert found == [("past", 1.0), ("a", 1.5), ("unknown", 1.5), ("late", 1.5), ("answer", 1.8)]


@pytest.mark.parametrize(
    ("other", "order"),
    [
        (recorded(4, 0.9, "send", "b", waited=0.1), [("a", 0.3), ("answer", 0.6), ("b", 0.9)]),
        (recorded(3, 0.9, "send", "b", waited=0.4), [("a", 0.3), ("b", 0.9), ("answer", 0.9)]),
    ],
    ids=["sent later", "sent before, and handled late"],
)
def test_an_answer_and_a_message_come_in_the_order_in_which_they_were_sent(
    other: Delivered, order: list[tuple[str, float]]
) -> None:
    """On a busy machine metamanager sends edged an object some tenths of a second after the link has brought it, and
    edged handles it as late. Nothing takes time in a replay, so the object comes before the answer there.
    """
    deliveries = [recorded(1, 0.3, "send", "a"), recorded(2, 0.3, "request", "q"), recorded(5, 0.6, "response", "q")]
    assert handled(sorted([*deliveries, other], key=lambda one: one.time - one.waited), ("a", "b")) == order


@pytest.mark.parametrize(("is_simulated", "order"), [(True, ["a", "answer", "b"]), (False, ["a", "b", "answer"])])
def test_of_two_messages_within_a_millisecond_the_first_is_known_only_in_a_simulation(
    order: list[str], *, is_simulated: bool
) -> None:
    """Threads of a real node may have sent them in either order."""
    deliveries = [
        recorded(1, 0.3, "send", "a"),
        recorded(2, 0.3, "request", "q"),
        recorded(5, 0.6, "response", "q"),
        recorded(6, 0.9, "send", "b", waited=0.2995),
    ]
    found = handled(deliveries, ("a", "b"), is_simulated=is_simulated)
    assert [resource for resource, _ in found] == order


@pytest.mark.parametrize(("turns", "at"), [([], 0.0), ([4.0], 3.9)])
def test_a_message_is_the_recorded_one_if_its_sender_began_no_other_turn_before(turns: list[float], at: float) -> None:
    """The machine stood still while the sender wanted to send it."""
    simulation, found = Simulation(), list[float]()
    notes = [Note(time, 0, 0, 0, NoteKind.TURN, META, "other") for time in turns]

    class Receiving(Module):
        name = ModuleName.EDGED

        @handles()
        def on_message(self, _message: Message) -> None:
            found.append(round(self.clock.monotonic(), 3))

    class Sending(Module):
        name = ModuleName.METAMANAGER

        def on_start(self) -> None:
            for _ in range(2):
                self.send(ModuleName.EDGED, self.message("a", "update", None, group="g"))

    deliveries = [recorded(1, 0.0, "send", "a"), recorded(2, 3.9, "send", "a")]
    hive = PacedHive(simulation, deliveries, exact=(EDGED,), turns=ModuleTurns(notes))
    hive.add(Receiving)
    hive.add(Sending)
    hive.start()
    simulation.run_for(9.0)
    hive.stop()
    assert found == [0.0, at]


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole node", "edged alone"])
def test_workers_that_ask_for_one_object_are_answered_as_they_were(*, is_whole: bool) -> None:
    """The replay may begin their requests in the other order, and the object has changed between the two."""
    workers = ("edged/worker-1", "edged/worker-2")
    asked, answered = recorded(1, 0.2, "request", "q"), recorded(3, 0.0, "response", "q")
    deliveries: list[Delivered] = []
    for number, worker in ((2, workers[1]), (4, workers[0])):
        name, at = f"request-{number}", number / 10
        content = replace(answered.message, parent_id=name, content=f"{number}".encode())
        deliveries += (
            replace(asked, time=at, span=number, sender=worker, message=replace(asked.message, id=name)),
            replace(answered, time=at, span=number + 1, module=worker, message=content),
        )
    simulation, found = Simulation(), dict[str, tuple[bytes, float]]()
    hive = PacedHive(simulation, deliveries, exact=(EDGED, META)) if is_whole else AttributedHive(simulation)
    answers = Responder(hive, deliveries, {}, lambda actor: actor in workers, None)
    hive.add(stub_module(META), answers.handle)
    hive.start()
    for worker in workers:

        def take(answer: Message | None, worker: str = worker) -> None:
            assert answer is not None
            found[worker] = bytes(answer.content), round(simulation.clock.monotonic(), 3)

        question = Message.new(simulation.clock, source="s", group="g", resource="q", operation="query", content=None)
        with acting_as(worker):
            hive.request_then(META, question.with_header(sync=True), 9.0, take)
    simulation.run_for(1.0)
    hive.stop()
    assert found == {workers[0]: (b"4", 0.4), workers[1]: (b"2", 0.2)}


@pytest.mark.parametrize(("sender", "time"), [(EDGED, 0.7), (META, 0.0)])
def test_a_module_alone_gets_its_own_messages_in_time(sender: str, time: float) -> None:
    """The messages of others are given to it when it took them."""
    simulation, found = Simulation(), list[float]()

    class Taking(Module):
        name = ModuleName.EDGED

        @handles()
        def on_message(self, _message: Message) -> None:
            """Note the time."""
            found.append(round(self.clock.monotonic(), 3))

    hive = PacedHive(simulation, [own(1, 0.7, EDGED), own(2, 0.9, META)], {}, (EDGED,), alone=True)
    hive.add(Taking)
    hive.start()
    with acting_as(sender):
        hive.send(EDGED, Message.new(simulation.clock, resource="a", operation="update", source="s", group="g"))
    simulation.run_for(2.0)
    hive.stop()
    assert found == [time]


def own(span: int, at: float, sender: str) -> Delivered:
    """A message to edged that was handled at a time."""
    return replace(recorded(span, at, "send", "a"), sender=sender)
