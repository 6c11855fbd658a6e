"""Messages to edged come when the recorded run handled them."""

from collections.abc import Iterable

import pytest

from beehive import Message, Module, ModuleName, handles
from beehive.simulation import Simulation
from beehive.trace import Delivered, RecordedMessage
from modules.lab.replay.paced_hive import PacedHive

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


def handled(deliveries: Iterable[Delivered], early: Iterable[str], late: Iterable[str] = ()) -> list[tuple[str, float]]:
    """Return what edged handles, and when: messages that come immediately, and after a second; it asks when `a` comes,
    and is answered at once.
    """
    simulation, found = Simulation(), list[tuple[str, float]]()

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

    hive = PacedHive(simulation, deliveries)
    hive.add(Asking)
    hive.add(Answering)
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
