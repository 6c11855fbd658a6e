"""Messages to edged come when the recorded run handled them."""

from beehive import Message, Module, ModuleName, handles
from beehive.simulation import Simulation
from beehive.trace import Delivered, RecordedMessage
from modules.lab.replay.paced_hive import PacedHive


def test_messages_to_edged_wait_for_their_recorded_times_in_their_order() -> None:
    """One whose time is over comes at once, one without a time behind those that wait; answers wait, too."""
    simulation, found = Simulation(), list[tuple[str, float]]()

    class Asking(Module):
        name = ModuleName.EDGED

        @handles()
        def on_message(self, message: Message) -> None:
            """Note the time, and ask because of the first message."""
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

    def recorded(span: int, at: float, way: str, resource: str, sender: str, to: str, parent: str = "") -> Delivered:
        operation = {"request": "query", "response": "response"}.get(way, "update")
        key = f"{way}-{resource}"
        message = RecordedMessage(key, parent, 0, "", False, "", "s", "", "g", operation, resource, b"null")  # noqa: FBT003
        return Delivered(at, span, 0, span, sender, to, way, "handled", "", 0, 0.0, 0.0, message)

    edged, meta = ModuleName.EDGED.value, ModuleName.METAMANAGER.value
    hive = PacedHive(
        simulation,
        [
            recorded(1, 0.5, "send", "past", meta, edged),
            recorded(2, 1.5, "send", "a", meta, edged),
            recorded(3, 1.5, "request", "q", edged, meta),
            recorded(4, 1.8, "response", "q", meta, edged, "request-q"),
            recorded(5, 9.0, "send", "late", meta, edged),
        ],
    )
    hive.add(Asking)
    hive.add(Answering)
    hive.start()
    simulation.run_for(1.0)
    for resource in ("past", "a", "unknown", "late"):
        message = Message.new(
            simulation.clock, source="s", group="g", resource=resource, operation="update", content=None
        )
        hive.send(ModuleName.EDGED, message)
    simulation.run_for(5.0)
    hive.stop()
    assert found == [("past", 1.0), ("a", 1.5), ("unknown", 1.5), ("late", 1.5), ("answer", 1.8)]
