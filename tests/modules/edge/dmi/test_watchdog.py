"""Devices that fall silent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_silent_device_is_reported_unknown_once_and_then_repeated() -> None:
    dog = Watchdog()
    assert dog.silent("a", 180.0, 0.0) == (False, False), "its time begins now"
    assert dog.silent("a", 180.0, 179.0) == (False, False)
    assert dog.silent("a", 180.0, 180.0) == (True, True)
    assert dog.silent("a", 180.0, 181.0) == (False, False)
    assert dog.silent("a", 180.0, 180.0 + NUDGE_SECONDS) == (False, True)
    assert dog.silent("a", 180.0, 181.0 + NUDGE_SECONDS) == (False, False)
    assert dog.observe("a", 500.0), "it is online again"
    assert not dog.observe("a", 501.0)
    assert dog.silent("a", 180.0, 600.0) == (False, False)


def test_a_device_that_is_known_to_be_offline_stays_so() -> None:
    """Its mapper has said it, and says it when it changes."""
    dog = Watchdog()
    dog.observe("a", 0.0, "Offline")
    assert dog.silent("a", 180.0, 200.0) == (False, True)
    assert not dog.observe("a", 201.0)


def test_a_device_that_was_offline_and_is_refused_may_be_online_after_its_next_values() -> None:
    dog = Watchdog()
    dog.observe("a", 0.0, "Offline")
    dog.refused("a", 1.0)
    assert dog.observe("a", 2.0)


def test_a_device_that_need_not_report_is_never_silent() -> None:
    dog = Watchdog()
    dog.observe("a", 0.0)
    assert dog.silent("a", 0.0, 1e9) == (False, False)
    dog.silent("a", 1.0, 1e9)
    dog.keep(set())
    assert dog.silent("a", 1.0, 1e9) == (False, False), "it was forgotten"


def test_a_mapper_gets_its_device_again() -> None:
    """An equal device, for a mapper that could not open it at first."""
    mapper = FakeMapper()
    mapper.model("m")
    mapper.device("a", "m")
    mapper.run()
    key = next(key for key in mapper.catalogue.keys("demo") if key.kind == "device")
    mapper.peer.doubt(key)
    mapper.run()
    assert mapper.methods[-2:] == ["UpdateDevice", "UpdateDevice"]


_EVENTS = st.one_of(
    st.tuples(st.just("heard"), st.sampled_from(["", "", "Online", "OFFLINE", "Unknown"])),
    st.tuples(st.sampled_from(["watched", "watched", "lost", "forgotten"]), st.just("")),
)


@given(steps=st.lists(st.tuples(_EVENTS, st.sampled_from([0.0, 1.0, 100.0, 180.0, 299.0, 300.0])), max_size=20))
def test_a_device_becomes_unknown_and_online_in_turns(steps: list[tuple[tuple[str, str], float]]) -> None:
    """Whatever is reported, and however often its mapper ends: and never one whose mapper has said that it is away."""
    dog, now = Watchdog(), 1000.0
    state, is_silent, last, nudged = "online", False, None, 0.0
    for (event, reported), pause in steps:
        now += pause
        match event:
            case "heard":
                last, was_silent, is_silent = now, is_silent, False
                state = reported.lower() or state
                assert dog.observe("a", now, reported) is (was_silent and not reported and state == "online")
            case "lost":
                assert dog.lost("a", now) is (not is_silent and state == "online")
                nudged = nudged if is_silent else now
                is_silent = True
            case "watched":
                last = now if last is None else last
                is_due = now - last >= 180.0 and (not is_silent or now - nudged >= NUDGE_SECONDS)
                assert dog.silent("a", 180.0, now) == (is_due and not is_silent and state == "online", is_due)
                is_silent, nudged = is_silent or is_due, now if is_due else nudged
            case _:
                dog.keep({"b"})
                state, is_silent, last = "online", False, None
