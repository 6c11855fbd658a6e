"""Signals, changes and the passing of time, in one queue."""

import signal
from collections.abc import Iterator

import pytest

from beehive.clock import RealClock
from modules.processes.demo.events import SIGNALS, Deadline, Ended, Events, PodChanged, Tick


@pytest.fixture
def events() -> Iterator[Events]:
    """Events that have the signals, which are given back."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield Events(RealClock())
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_is_an_event(events: Events) -> None:
    """Nothing is raised; the event says which signal it was, and it is counted."""
    signal.raise_signal(signal.SIGTERM)
    assert events.next(5) == Ended(signal.SIGTERM)
    assert events.asked_to_end == 1


def test_order_and_silence(events: Events) -> None:
    """Events come in their order; when there is none, time passes."""
    events.put(PodChanged({}, deleted=False))
    events.put(PodChanged({}, deleted=True))
    assert [events.next(0), events.next(0), events.next(0)] == [
        PodChanged({}, deleted=False),
        PodChanged({}, deleted=True),
        Tick(),
    ]


def test_a_deadline_passes(events: Events) -> None:
    """It lasts as long as was said, whatever else happens."""
    started = events.clock.monotonic()
    deadline = Deadline(events, 0.1)
    while deadline.is_open():
        events.put(PodChanged({}, deleted=False))
    assert events.clock.monotonic() - started >= 0.1


def test_a_deadline_passes_when_asked_once_more(events: Events) -> None:
    """The request that is known when it begins does not count, the next one does."""
    signal.raise_signal(signal.SIGINT)
    deadline = Deadline(events, 600)
    assert deadline.is_open()
    signal.raise_signal(signal.SIGINT)
    assert not deadline.is_open()
