"""The flight recorder after a failure half-way."""

from pathlib import Path

import pytest

from beehive.simulation import Simulation
from beehive.trace.entries import Serialiser
from beehive.trace.flight_recorder import PERIOD, FlightRecorder
from beehive.trace.redact import Redactor
from tests.beehive.trace.test_flight_recorder import HEADER, delivery
from tests.support.failing import Failing, PlannedError, census


def test_a_file_that_cannot_be_written_whole_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation, failing = Simulation(), Failing(1)
    recorder = FlightRecorder(simulation.clock)
    for number in range(3):
        recorder.delivered(delivery(simulation.clock, number=number))
    monkeypatch.setattr(Serialiser, "record", failing.call(Serialiser.record))
    before = census()
    with pytest.raises(PlannedError) as caught:
        recorder.write(tmp_path / "a", HEADER, 0.0, Redactor())
    assert not census().more_than(before)
    assert caught.value is not None, "what the error holds is not collected before"


def test_a_look_that_fails_is_followed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the intake would overflow for as long as the process runs."""
    simulation = Simulation()
    recorder = FlightRecorder(simulation.clock)
    monkeypatch.setattr(recorder, "_pack", Failing(0).call(recorder._pack))
    recorder._timer.cancel()  # it is due, and calls
    with pytest.raises(PlannedError):
        recorder._tick()
    for number in range(2000):
        recorder.delivered(delivery(simulation.clock, 100, number))
    simulation.run_for(10 * PERIOD)
    assert recorder.packed
