"""NetworkGuard alone: which changes reach the module, and when they may cause a dial or break one off."""

import logging
from collections.abc import Callable

import pytest

from beehive.testing import FakeContext
from edgehub.network.guard import DIAL_INTERVAL, LONGEST_INTERVAL, NetworkGuard

ROUTE = "the default route has gone"
POD = "another device is up"


class Watch:
    """Reports the texts that it has, and ends."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.is_closed = False

    def run(self, changed: Callable[[str], None]) -> None:
        for text in self.texts:
            changed(text)

    def close(self) -> None:
        self.is_closed = True


class Guarded:
    """A guard in virtual time, and the changes that it has reported: their times and whether each is of a way out."""

    def __init__(self, *texts: str, act: Callable[[NetworkGuard], bool] = lambda _guard: False) -> None:
        self.context = FakeContext()
        self.watch = Watch(*texts)
        self.guard = NetworkGuard(self.context, lambda: self.watch, self._changed)
        self.reported: list[tuple[float, bool]] = []
        self.acted: list[float] = []
        self._act = act
        self._began = self.context.clock.monotonic()

    @property
    def now(self) -> float:
        return round(self.context.clock.monotonic() - self._began, 3)

    def run_for(self, seconds: float) -> None:
        self.context.simulation.run_for(seconds)

    def _changed(self, is_way_out: bool) -> None:
        self.reported.append((self.now, is_way_out))
        if self._act(self.guard):
            self.acted.append(self.now)


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    """The guard's log lines of a level."""
    found = [record for record in caplog.records if record.name == "edgehub.network.guard"]
    return [record.getMessage() for record in found if record.levelno == level]


def test_each_change_is_reported_with_whether_it_is_of_a_way_out() -> None:
    guarded = Guarded(ROUTE, POD, f"{POD}, {ROUTE}")
    guarded.guard.start()
    guarded.run_for(1.0)
    assert [is_way_out for _, is_way_out in guarded.reported] == [True, False, True]
    guarded.guard.stop()
    assert guarded.watch.is_closed


def test_without_a_watch_nothing_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    def refused() -> Watch:
        raise OSError("no netlink here")

    context, reported = FakeContext(), list[bool]()
    for watch in (None, refused):
        guard = NetworkGuard(context, watch, reported.append)
        with caplog.at_level(logging.INFO):
            guard.start()
        context.simulation.run_for(1.0)
        guard.stop()
    assert reported == []
    assert lines(caplog, logging.INFO) == [
        "changes of the network are not seen (no netlink here); a lost link is found by its deadlines"
    ]


def test_a_change_that_has_the_cloud_dialled_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Once."""
    with caplog.at_level(logging.DEBUG):
        guarded = Guarded(f"{POD}, {ROUTE}", act=NetworkGuard.may_dial)
        guarded.guard.start()
        guarded.run_for(10 * DIAL_INTERVAL)
        assert guarded.guard.may_dial()
    assert lines(caplog, logging.INFO) == [f"the network has changed: {ROUTE}; dialling the cloud now"]


@pytest.mark.parametrize(
    ("text", "act"),
    [(ROUTE, lambda _guard: False), (POD, NetworkGuard.may_dial)],
    ids=["the link is open", "a device of a pod"],
)
def test_other_changes_are_in_the_log_for_debugging(
    text: str, act: Callable[[NetworkGuard], bool], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        guarded = Guarded(text, act=act)
        guarded.guard.start()
        guarded.run_for(1.0)
    assert lines(caplog, logging.INFO) == []
    assert lines(caplog, logging.DEBUG) == [f"the network has changed: {text}"]


def test_a_dial_that_waits_names_the_change_of_the_way_out(caplog: pytest.LogCaptureFixture) -> None:
    """And not the change of a pod's device after it."""
    with caplog.at_level(logging.INFO):
        guarded = Guarded(ROUTE, ROUTE, POD, act=NetworkGuard.may_dial)
        guarded.guard.start()
        guarded.run_for(10 * DIAL_INTERVAL)
    assert guarded.acted == [0.0, DIAL_INTERVAL]
    assert lines(caplog, logging.INFO) == [f"the network has changed: {ROUTE}; dialling the cloud now"] * 2


def test_changes_dial_once_in_an_interval_and_the_last_one_is_reported_again() -> None:
    guarded = Guarded(*[POD] * 5, act=NetworkGuard.may_dial)
    guarded.guard.start()
    guarded.run_for(10 * DIAL_INTERVAL)
    assert guarded.acted == [0.0, DIAL_INTERVAL]
    assert guarded.reported[5:] == [(DIAL_INTERVAL, False)]


def test_dials_that_were_broken_off_for_weeks_are_broken_off_as_seldom() -> None:
    """A cloud that never answers, and a network that always changes."""
    guarded = Guarded()
    for _ in range(2000):
        while not guarded.guard.may_break_off():
            guarded.run_for(LONGEST_INTERVAL)
    assert not guarded.guard.may_break_off()
    guarded.context.clock.jump_wall(2 * LONGEST_INTERVAL)
    assert not guarded.guard.may_break_off(), "the wall clock counts for nothing"
    guarded.run_for(LONGEST_INTERVAL)
    assert guarded.guard.may_break_off()


def test_a_change_that_waits_is_dropped_when_the_cloud_is_dialled_anyway() -> None:
    guarded = Guarded()
    assert guarded.guard.may_dial()
    assert not guarded.guard.may_break_off()
    guarded.guard.dialled()
    guarded.run_for(10 * DIAL_INTERVAL)
    assert guarded.reported == []


@pytest.mark.parametrize("is_dial_first", [True, False])
def test_of_two_changes_that_wait_the_one_that_is_due_first_is_reported(*, is_dial_first: bool) -> None:
    guarded = Guarded()
    for _ in range(3):
        assert guarded.guard.may_break_off()
        guarded.run_for(20.0)
    assert guarded.guard.may_break_off()
    asked = [guarded.guard.may_dial, guarded.guard.may_break_off]
    assert not any(may() for may in (asked if is_dial_first else asked[::-1]))
    guarded.run_for(100.0)
    assert guarded.reported == [(60.0 + DIAL_INTERVAL, False)]


def test_each_change_that_comes_too_soon_is_reported_again() -> None:
    guarded = Guarded(act=NetworkGuard.may_dial)
    assert guarded.guard.may_dial()
    for _ in range(2):
        guarded.run_for(1.0)
        assert not guarded.guard.may_dial()
        guarded.run_for(DIAL_INTERVAL - 1.0)
    assert guarded.acted == [DIAL_INTERVAL, 2 * DIAL_INTERVAL]


def test_a_change_after_a_dial_is_reported_like_the_one_that_the_dial_has_served() -> None:
    guarded = Guarded()
    for acts in (True, False):
        assert guarded.guard.may_dial() is acts
    guarded.guard.dialled()
    guarded.run_for(1.0)
    assert not guarded.guard.may_dial()
    guarded.run_for(10 * DIAL_INTERVAL)
    assert guarded.reported == [(DIAL_INTERVAL, False)]


def test_dials_are_broken_off_ever_more_seldom_until_the_link_is_up() -> None:
    """The intervals double up to the longest, as a dial takes half a minute at most."""
    guarded = Guarded()

    def broken_off(seconds: int) -> list[float]:
        """When a dial is broken off while the network changes every second."""
        began, found = guarded.now, []
        for _ in range(seconds):
            if guarded.guard.may_break_off():
                found.append(guarded.now - began)
            guarded.run_for(1.0)
        return found

    assert DIAL_INTERVAL == 3.0
    assert broken_off(214) == [0.0, 3.0, 9.0, 21.0, 45.0, 93.0, 93.0 + LONGEST_INTERVAL, 93.0 + 2 * LONGEST_INTERVAL]
    guarded.guard.opened()
    guarded.run_for(LONGEST_INTERVAL)
    assert broken_off(10) == [0.0, 3.0, 9.0]


def test_a_change_of_a_way_out_that_comes_too_soon_is_reported_again_as_one() -> None:
    guarded = Guarded()
    assert guarded.guard.may_break_off()
    guarded.run_for(1.0)
    assert not guarded.guard.may_break_off()
    guarded.run_for(10 * DIAL_INTERVAL)
    assert guarded.reported == [(DIAL_INTERVAL, True)]


def test_a_change_that_an_open_link_has_outlived_is_not_in_the_log_later(caplog: pytest.LogCaptureFixture) -> None:
    """As the reason of a dial that it did not cause."""
    with caplog.at_level(logging.INFO):
        guarded = Guarded(ROUTE)
        guarded.guard.start()
        guarded.run_for(1.0)
        guarded.guard.opened()
        assert guarded.guard.may_dial()
    assert lines(caplog, logging.INFO) == []
