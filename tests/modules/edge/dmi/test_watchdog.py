"""Devices that fall silent."""

import pytest

from modules.edge.dmi.watchdog import NUDGE_SECONDS, SHORTEST, Watchdog, patience_of
from tests.modules.edge.dmi.test_peer import FakeMapper


@pytest.mark.parametrize(
    ("cycles", "seconds"),
    [
        ([], 0.0),
        ([(0, 0)], SHORTEST),
        ([(60_000, 0)], 600.0),
        ([(1000, 600_000)], 1800.0),
        ([(60_000, 0), (1, 0)], 180.0),
    ],
)
def test_how_long_a_device_may_be_silent(cycles: list[tuple[int, int]], seconds: float) -> None:
    assert patience_of(cycles) == seconds


def test_a_silent_device_is_unknown_once_and_told_again_ever_and_ever() -> None:
    dog = Watchdog()
    assert dog.silent("a", 180.0, 0.0) == (False, False), "its time begins now"
    assert dog.silent("a", 180.0, 179.0) == (False, False)
    assert dog.silent("a", 180.0, 180.0) == (True, True)
    assert dog.silent("a", 180.0, 181.0) == (False, False)
    assert dog.silent("a", 180.0, 180.0 + NUDGE_SECONDS) == (False, True)
    assert dog.heard("a", 500.0), "it is online again"
    assert not dog.heard("a", 501.0)
    assert dog.silent("a", 180.0, 600.0) == (False, False)


def test_a_device_that_is_known_to_be_offline_stays_so() -> None:
    """Its mapper has said it, and says it when it changes."""
    dog = Watchdog()
    dog.heard("a", 0.0, "Offline")
    assert dog.silent("a", 180.0, 200.0) == (False, True)
    assert not dog.heard("a", 201.0)


def test_a_device_that_need_not_report_is_never_silent() -> None:
    dog = Watchdog()
    dog.heard("a", 0.0)
    assert dog.silent("a", 0.0, 1e9) == (False, False)
    dog.silent("a", 1.0, 1e9)
    dog.keep(set())
    assert dog.silent("a", 1.0, 1e9) == (False, False), "it was forgotten"


def test_a_mapper_is_told_again_of_a_device_that_it_has() -> None:
    """An equal device, for a mapper that could not open it at first."""
    mapper = FakeMapper()
    mapper.model("m")
    mapper.device("a", "m")
    mapper.run()
    key = next(key for key in mapper.catalogue.keys("demo") if key.kind == "device")
    mapper.peer.doubt(key)
    mapper.run()
    assert mapper.methods[-2:] == ["UpdateDevice", "UpdateDevice"]
