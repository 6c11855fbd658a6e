"""Packed entries come out as they went in, in their order, and take a fraction of the memory."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from beehive import Message
from beehive.clock import Clock
from beehive.delivery import DeliveryMode, ModuleFailed, Outcome, TimerRun
from beehive.delivery import DeliveryRecord as Delivery
from beehive.simulation import Simulation
from beehive.trace.entries import AnyEntry, RecorderNote, Serialiser, size_of
from beehive.trace.flight_recorder import BLOCK, INTAKE, REST, FlightRecorder, PackedBlock
from beehive.trace.format import NoteKind, Record
from beehive.trace.redact import Redactor


class Entry(msgspec.Struct, frozen=True):
    """One of another package, with what it holds."""

    time: float
    holds: Any = None
    error: Exception | None = None
    size: int = 10

    def record(self, time: float, redactor: Redactor) -> Record:
        """Not asked for here."""
        raise NotImplementedError


class TwoWords(Exception):  # noqa: N818 - an error by its nature
    """A value whose text does not give it back."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


class Unwilling:
    """Says no to being packed."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise RuntimeError("no")


class Changed:
    """Lets itself be packed, and cannot be made again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (int, ("no number",))


def delivery(clock: Clock, content: Any, number: int = 0) -> Delivery:
    """A delivery that ends now."""
    message = Message.new(clock, source="a", resource=f"default/pod/p{number}", operation="insert", content=content)
    return Delivery(
        clock.monotonic(), "edged", message, DeliveryMode.SEND, Outcome.HANDLED, None, 0, 0.0, 0.0, "a", number
    )


def pod(number: int) -> msgspec.Raw:
    """A text of the size of a small pod's."""
    return msgspec.Raw(msgspec.json.encode({"metadata": {"name": f"p{number}"}, "spec": {"command": ["sleep"] * 100}}))


def written(entries: list[AnyEntry]) -> list[Record]:
    """As records."""
    return list(map(Serialiser(0.0, Redactor(key=b"k")).record, entries))


@pytest.mark.parametrize("content", [pod(1), "text", b"bytes", None, {"a": [1]}, 1.5])
def test_a_delivery_is_written_as_if_it_had_not_been_packed(content: Any) -> None:
    entries: list[AnyEntry] = [delivery(Simulation().clock, content)]
    assert written(PackedBlock.of(entries, 0).entries()) == written(entries)


def test_entries_that_cannot_be_packed_are_kept_in_their_place() -> None:
    clock = Simulation().clock
    entries: list[AnyEntry] = [
        ModuleFailed(1.0, "edged", TwoWords("on", "purpose")),
        TimerRun(1.0, "edged", "tick", 1.0, periodic=True, handled=0.1, span=1, cause=0, trace=1),
        Entry(1.0, Unwilling()),
        delivery(clock, Unwilling()),
        Entry(1.0, ("a", b"b", 1)),
        Entry(1.0, error=TwoWords("on", "purpose")),
    ]
    block = PackedBlock.of(entries, 100)
    came_out = block.entries()
    assert [index for index, _ in block.as_they_are] == [0, 2, 3, 5]
    assert all(came_out[index] is entries[index] for index in (0, 2, 3, 5))
    assert (came_out[1], came_out[4]) == (entries[1], entries[4])
    assert came_out[4] is not entries[4]
    assert (block.newest, block.size) == (max(entry.time for entry in entries), 100)


def test_a_block_that_cannot_be_unpacked_leaves_a_note() -> None:
    [entry] = PackedBlock.of([Entry(3.0, Changed())], 0).entries()
    assert isinstance(entry, RecorderNote)
    assert (entry.time, entry.kind, entry.text) == (3.0, NoteKind.LOST, "packed entries: ValueError")


def test_a_block_takes_less_than_a_fifth_of_its_entries() -> None:
    clock = Simulation().clock
    entries: list[AnyEntry] = [delivery(clock, pod(number), number) for number in range(BLOCK)]
    block = PackedBlock.of(entries, 0)
    assert len(block.data) < sum(map(size_of, entries)) / 5


def feed(simulation: Simulation, recorder: FlightRecorder, number: int, then: Callable[[], object]) -> None:
    """Feed deliveries, and do something after each."""
    for each in range(number):
        recorder.delivered(delivery(simulation.clock, pod(each), each))
        then()


def test_the_recorder_packs_its_history_and_shows_all_of_it() -> None:
    simulation = Simulation()
    recorder = FlightRecorder(simulation.clock)
    feed(simulation, recorder, 5 * BLOCK + 1, lambda: simulation.run_for(0.01))
    entries = recorder.entries()
    assert recorder.packed == 5 * BLOCK
    assert [entry.span for entry in entries if isinstance(entry, Delivery)] == list(range(5 * BLOCK + 1))


def test_large_entries_do_not_wait_until_there_are_many() -> None:
    """A list of a hundred containers comes every second on a quiet node, and little else."""
    simulation = Simulation()
    recorder = FlightRecorder(simulation.clock)
    large = msgspec.Raw(b'"' + b"x" * 100_000 + b'"')
    for number in range(10):
        recorder.delivered(delivery(simulation.clock, large, number))
        simulation.run_for(1.0)
    assert recorder.packed == 9
    assert [entry.span for entry in recorder.entries() if isinstance(entry, Delivery)] == list(range(10))
    assert recorder.packed == 9
    simulation.run_for(60.0)
    assert recorder.entries() == []
    assert recorder._loose_size == 0


def test_while_very_much_comes_nothing_is_packed_and_afterwards_it_is() -> None:
    simulation = Simulation()
    recorder = FlightRecorder(simulation.clock)
    for _ in range(3):
        feed(simulation, recorder, INTAKE - 1, lambda: None)
        simulation.run_for(0.1)
    simulation.run_for(0.5)
    assert recorder.packed == 0
    simulation.run_for(2.0)
    assert recorder.packed == 3 * (INTAKE - 1) // BLOCK * BLOCK


def test_packed_entries_that_are_too_old_are_not_shown() -> None:
    simulation = Simulation()
    recorder = FlightRecorder(simulation.clock, seconds=1.0)
    feed(simulation, recorder, 10 * BLOCK, lambda: simulation.run_for(0.005))
    times = [entry.time for entry in recorder.entries()]
    assert recorder.packed >= BLOCK
    assert len(times) == pytest.approx(200, abs=2)
    assert min(times) >= simulation.clock.monotonic() - 1.0


def test_the_oldest_block_goes_first_when_it_is_too_much() -> None:
    simulation = Simulation()
    recorder = FlightRecorder(simulation.clock, size=1024 * 1024)
    feed(simulation, recorder, 10 * BLOCK, lambda: simulation.run_for(0.005))
    entries = recorder.entries()
    spans = [entry.span for entry in entries if isinstance(entry, Delivery)]
    assert spans == list(range(spans[0], 10 * BLOCK))
    assert 768 * 1024 < sum(map(size_of, entries)) <= 1024 * 1024


def test_answers_of_a_store_are_packed_too() -> None:
    """They are lists of texts: pods request the configmaps that they mount every minute, and unpacked these answers
    filled the recorder.
    """
    simulation = Simulation()
    entries: list[AnyEntry] = [delivery(simulation.clock, ["x" * 10_000], number) for number in range(20)]
    block = PackedBlock.of(entries, sum(map(size_of, entries)))
    assert block.as_they_are == ()
    assert len(block.data) < 20_000
    assert [entry.message.content for entry in block.entries() if isinstance(entry, Delivery)] == [["x" * 10_000]] * 20
    mixed = delivery(simulation.clock, ["x", Unwilling()])
    assert PackedBlock.of([mixed], 1).as_they_are == ((0, mixed),)


def test_packing_waits_while_something_is_done_but_not_for_a_megabyte() -> None:
    """Expect nothing packed while 50 entries come each 0.1 s, all afterwards, and large ones with the next look."""
    simulation = Simulation()
    recorder = FlightRecorder(simulation.clock)
    for _ in range(6):
        feed(simulation, recorder, 50, lambda: None)
        simulation.run_for(0.1)
    assert recorder.packed == 0
    simulation.run_for(0.1)
    assert recorder.packed == 300 // BLOCK * BLOCK
    large = msgspec.Raw(b'"' + b"x" * 30_000 + b'"')
    for number in range(50):
        recorder.delivered(delivery(simulation.clock, large, number))
    simulation.run_for(REST)
    assert recorder.packed > 300


def test_a_block_is_as_new_as_the_newest_of_its_entries() -> None:
    """Threads note them in another order than they happened."""
    assert PackedBlock.of([Entry(5.0), Entry(3.0)], 20).newest == 5.0
