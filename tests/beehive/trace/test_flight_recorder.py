"""The flight recorder keeps the last minute within its bytes; a stream is written whole, and no disk stops a node."""

import random
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from beehive import Message, Module, handles
from beehive.clock import Clock
from beehive.delivery import DeliveryMode, ModuleFailed, Outcome
from beehive.delivery import DeliveryRecord as Delivery
from beehive.simulation import Simulation
from beehive.testing import Harness
from beehive.trace import Delivered, Note, Record, TimerFired, TraceError, TraceHeader, frames
from beehive.trace.entries import RecorderNote, Serialiser
from beehive.trace.flight_recorder import BLOCK, INTAKE, FlightRecorder
from beehive.trace.format import FORMAT, NoteKind
from beehive.trace.reader import read
from beehive.trace.redact import Redactor
from beehive.trace.stream_recorder import WAITING, StreamRecorder, Waiting
from beehive.trace.writer import FileWriter

HEADER = TraceHeader(FORMAT, "test", "node-1", 0.0)


def delivery(clock: Clock, size: int = 0, number: int = 0) -> Delivery:
    """A delivery that ends now."""
    content = msgspec.Raw(b'"%s"' % (b"x" * size))
    resource = f"default/pod/p{number}"
    message = Message.new(clock, source="a", resource=resource, operation="insert", content=content)
    now, way, outcome = clock.monotonic(), DeliveryMode.SEND, Outcome.HANDLED
    return Delivery(now, "edged", message, way, outcome, None, 0, 0.0, 0.0, "a", number, 0, 1)


class Ticking(Module):
    """Has a timer and sends with each tick."""

    name = "ticking"

    def on_start(self) -> None:
        self.every(1, self.tick)

    def tick(self) -> None:
        """Send."""
        self.send(self.name, self.message("a/b/c", "tick"))

    @handles(None, "tick")
    def ticked(self, message: Message) -> None:
        """Nothing to do."""


def test_only_the_last_minute_is_kept() -> None:
    simulation = Simulation()
    recorder = FlightRecorder(simulation.clock)
    for number in range(100):
        recorder.delivered(delivery(simulation.clock, number=number))
        simulation.run_for(1)
    kept = [entry.span for entry in recorder.entries() if isinstance(entry, Delivery)]
    assert kept == list(range(40, 100))


def test_its_bytes_are_bounded_for_any_input() -> None:
    simulation, draw = Simulation(), random.Random(1)  # noqa: S311
    recorder = FlightRecorder(simulation.clock, size=100_000)
    for number in range(2000):
        recorder.delivered(delivery(simulation.clock, draw.choice((0, 100, 30_000)), number))
        simulation.run_for(draw.choice((0.0, 0.05, 0.2)))
        kept = [entry for entry in recorder.entries() if isinstance(entry, Delivery)]
        assert sum(len(entry.message.content) for entry in kept) <= 100_000
    assert kept[-1].span == 1999


def test_lists_of_texts_count_with_their_texts() -> None:
    """What a store answers with is one. They counted as nothing, and 300 of them were three times what may be kept."""
    simulation = Simulation()
    recorder = FlightRecorder(simulation.clock, size=100_000)
    for number in range(100):
        one = delivery(simulation.clock, number=number)
        recorder.delivered(msgspec.structs.replace(one, message=one.message.with_content(["x" * 10_000])))
    assert 5 <= len(recorder.entries()) <= 10


def test_a_flood_leaves_the_newest_and_a_note() -> None:
    simulation = Simulation()
    recorder = FlightRecorder(simulation.clock)
    for number in range(3 * INTAKE):
        recorder.delivered(delivery(simulation.clock, number=number))
    entries = recorder.entries()
    spans = [entry.span for entry in entries if isinstance(entry, Delivery)]
    assert spans == list(range(2 * INTAKE, 3 * INTAKE))
    assert [entry.kind for entry in entries if isinstance(entry, RecorderNote)] == [NoteKind.LOST]


def test_other_records_beside_deliveries_keep_the_intake_from_overflowing() -> None:
    """Many deliveries arrive together, as for a hundred pods, with a frame or a call among each hundred."""
    simulation = Simulation()
    recorder = FlightRecorder(simulation.clock)
    for number in range(10 * INTAKE):
        recorder.delivered(delivery(simulation.clock, number=number))
        if number % 100 == 0:
            recorder.add(RecorderNote(simulation.clock.monotonic(), NoteKind.LINK, "up"))
    spans = [entry.span for entry in recorder.entries() if isinstance(entry, Delivery)]
    assert spans == list(range(10 * INTAKE))


def test_a_jump_of_the_wall_clock_is_noted() -> None:
    simulation = Simulation()
    recorder = FlightRecorder(simulation.clock)
    simulation.run_for(1)
    simulation.clock.jump_wall(-3600)
    simulation.run_for(1)
    [entry] = recorder.entries()
    assert isinstance(entry, RecorderNote)
    assert (entry.kind, entry.data) == (NoteKind.CLOCK, pytest.approx(-3600))


def test_a_hive_is_recorded_with_its_timers_and_failures(tmp_path: Path) -> None:
    with Harness() as bee:
        recorder = FlightRecorder(bee.clock)
        bee.hive.taps.append(recorder)
        bee.hive.watchers.append(recorder.add)
        bee.start(Ticking)
        bee.run_for(3.5)
        recorder.add(ModuleFailed(bee.clock.monotonic(), "ticking", ValueError("on purpose")))
        recorder.write(tmp_path / "a", HEADER, 0.0, Redactor())
    with read(tmp_path / "a") as trace:
        records = list(trace)
    fired = [record for record in records if isinstance(record, TimerFired)]
    assert [(record.time, record.name) for record in fired] == [(at, "Ticking.tick") for at in (1.0, 2.0, 3.0)]
    sent = [record for record in records if isinstance(record, Delivered)]
    assert [record.cause for record in sent] == [record.span for record in fired]
    assert [record.text for record in records if isinstance(record, Note)] == ["ValueError: on purpose"]


def test_an_entry_that_cannot_be_written_leaves_a_note() -> None:
    class Broken:
        time, size = 1.0, 1

        def record(self, time: float, redactor: Redactor) -> Record:
            raise ValueError("on purpose")

    record = Serialiser(0.0, Redactor()).record(Broken())
    assert isinstance(record, Note)
    assert (record.kind, record.text) == (NoteKind.LOST, "Broken: ValueError")


class FullDisk:
    """Takes some records, then none."""

    def __init__(self, room: int) -> None:
        self.written: list[Record] = []
        self.closed = False
        self._room = room

    def write(self, records: Iterable[Record]) -> None:
        self.written += records
        if len(self.written) > self._room:
            raise TraceError("cannot write the trace", "disk", "No space left on device")

    def close(self) -> None:
        self.closed = True


def test_a_stream_is_written_while_it_runs_and_whole_at_the_end(tmp_path: Path) -> None:
    simulation, waiting = Simulation(), Waiting()
    writer = FileWriter(tmp_path / "a", HEADER)
    running = simulation.start(StreamRecorder, waiting, writer, Serialiser(0.0, Redactor()))
    for number in range(1200):
        waiting.delivered(delivery(simulation.clock, number=number))
    simulation.run_for(0.5)
    assert len(_spans(tmp_path / "a")) == 1200
    waiting.delivered(delivery(simulation.clock, number=1200))
    assert running.stop(5)
    assert _spans(tmp_path / "a") == list(range(1201))
    simulation.run_for(1)
    assert simulation.clock.pending() == 0, "it wakes the process no more"


def test_a_full_disk_ends_the_recording_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    simulation, waiting, disk = Simulation(), Waiting(), FullDisk(0)
    running = simulation.start(StreamRecorder, waiting, disk, Serialiser(0.0, Redactor()))
    for number in range(3):
        waiting.delivered(delivery(simulation.clock, number=number))
        simulation.run_for(1)
    assert running.stop(5)
    assert (len(disk.written), len(waiting), disk.closed) == (1, 0, True)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_records_faster_than_the_disk_leave_a_note(caplog: pytest.LogCaptureFixture) -> None:
    simulation, waiting, disk = Simulation(), Waiting(), FullDisk(10 * WAITING)
    running = simulation.start(StreamRecorder, waiting, disk, Serialiser(0.0, Redactor()))
    entry = RecorderNote(0.0, NoteKind.LINK, "up")
    for _ in range(WAITING + 1):
        waiting.add(entry)
    assert running.stop(5)
    assert [record.kind for record in disk.written if isinstance(record, Note)][-1] == NoteKind.LOST


def _spans(path: Path) -> list[int]:
    with read(path) as trace:
        return [record.span for record in trace]


def test_it_looks_less_often_while_nothing_is_recorded() -> None:
    """Twice a second, and ten times from a look that finds something to the next that finds nothing."""
    simulation = Simulation()
    looks: list[float] = []

    class Watched(FlightRecorder):
        def _tick(self) -> None:
            looks.append(simulation.clock.monotonic())
            super()._tick()

    recorder = Watched(simulation.clock)
    simulation.run_for(10)
    assert 19 <= len(looks) <= 21
    del looks[:]
    for _ in range(10):
        recorder.delivered(delivery(simulation.clock))
        simulation.run_for(0.1)
    assert 6 <= len(looks) <= 10
    simulation.run_for(1)
    assert 8 <= len(looks) <= 13
    recorder.close()
    del looks[:]
    simulation.run_for(5)
    assert not looks


def test_a_look_that_was_under_way_at_the_end_is_the_last() -> None:
    simulation, looks = Simulation(), list[float]()
    recorder = FlightRecorder(simulation.clock, noted=lambda _: None)
    recorder.close()
    recorder._tick()
    recorder._drain_intake = lambda: looks.append(1.0)  # type: ignore[method-assign]
    simulation.run_for(5)
    assert not looks


def test_what_is_too_old_takes_no_memory() -> None:
    """Packed or not, also when nothing more comes."""
    simulation = Simulation()
    recorder = FlightRecorder(simulation.clock)
    for number in range(2 * BLOCK):
        recorder.delivered(delivery(simulation.clock, number=number))
        if number % 10 == 0:
            simulation.run_for(0.1)
    simulation.run_for(5)
    recorder.add(delivery(simulation.clock))
    assert recorder.packed
    simulation.run_for(61)
    assert (recorder.packed, len(recorder._loose), recorder._loose_size) == (0, 0, 0)


def test_the_longest_record_has_its_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    record = Serialiser(0.0, Redactor()).record(RecorderNote(0.0, NoteKind.LINK, "up"))
    size = len(frames.encode(record)) - frames._HEAD
    monkeypatch.setattr(frames, "FRAME_BYTES", size)
    assert frames.encode(record)
    monkeypatch.setattr(frames, "FRAME_BYTES", size - 1)
    with pytest.raises(TraceError, match="over the limit"):
        frames.encode(record)
