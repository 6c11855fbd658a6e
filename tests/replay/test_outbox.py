"""A replay's outbox writes as long as the recorded one did, and fails when that did."""

from typing import Final

import pytest

from beehive import Actor
from beehive.simulation import Simulation
from beehive.trace import Note
from edgehub.errors import OutboxError
from edgehub.outbox.manager import WRITTEN
from edgehub.outbox.recording import OUTBOX
from modules.lab.replay.link import outbox_of

OPENED: Final[tuple[float, str, object]] = (0.0, "0 messages of an earlier run", [])


@pytest.mark.parametrize(
    ("notes", "found"),
    [
        ([OPENED], [(1.0, ""), (1.0, ""), (1.0, "")]),
        ([OPENED, (0.9, WRITTEN, None), (1.4, WRITTEN, None), (1.5, WRITTEN, None)], [(1.4, ""), (1.5, "")]),
        (
            [OPENED, (1.2, "failed: disk full", None), (1.3, WRITTEN, None), (1.9, WRITTEN, None)],
            [(1.3, "write the outbox (failed: disk full)"), (1.9, "")],
        ),
    ],
    ids=["not known", "the last one was under way at the end", "one failed"],
)
def test_a_write_ends_when_it_ended(notes: list[tuple[float, str, object]], found: list[tuple[float, str]]) -> None:
    """Messages that came meanwhile shared the next write."""
    simulation, ended = Simulation(), list[tuple[float, str]]()
    make = outbox_of([Note(time, 0, 0, 0, OUTBOX, "websocket", text, data) for time, text, data in notes], simulation)
    assert make is not None
    outbox = make()

    class Writing(Actor):
        def on_receive(self, _message: object) -> None:
            for _ in range(3):
                try:
                    outbox.change([], [])
                    error = ""
                except OutboxError as failed:
                    error = str(failed)
                ended.append((round(self.clock.monotonic(), 3), error))

    simulation.run_for(1.0)
    simulation.start(Writing).ref.tell("write")
    simulation.run_for(9.0)
    simulation.close()
    assert ended == found
