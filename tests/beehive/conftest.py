"""Fixtures of the bus's own tests."""

import os
from collections.abc import Iterator

import pytest

from beehive import Threads
from beehive.simulation import Simulation
from tests.beehive.beds import Bed, Log


@pytest.fixture(params=["threads", "simulation"])
def bed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    """Each runtime in turn; after the test everything is stopped and nothing may be left running.

    Restarts come sooner than in production, because threads live in real time.
    """
    monkeypatch.setattr("beehive.supervisor.FIRST_DELAY", 0.02)
    bed = Bed(Threads() if request.param == "threads" else Simulation(int(os.environ.get("BEEHIVE_SEED", "1"))))
    yield bed
    bed.close()
    assert bed.leftovers() == []


@pytest.fixture
def log() -> Log:
    """A place where modules note what they saw."""
    return Log()
