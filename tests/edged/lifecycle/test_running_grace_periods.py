"""Grace periods that have begun, their end, and how they are shortened. On both runtimes."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive import Clock, Runtime, Timer
from beehive.simulation import Simulation
from edged.lifecycle.running_grace_periods import GracePeriod, GracePeriods
from edged.lifecycle.termination_ordering import TerminationOrdering
from edged.lifecycle.waits import Wait, WaitOverError, Waits
from edged.pod_workers.container_killer import run_concurrently
from edged.pods.model import ContainerId, PodUid

UID, OTHER = PodUid("uid"), PodUid("other")
A, B, C = (ContainerId(name) for name in "abc")


def about(seconds: int) -> Any:
    """So many seconds, less what a test may take of them on a busy machine."""
    return pytest.approx(seconds - 50, abs=50)


@given(st.integers(0, 10_000), st.lists(st.tuples(st.floats(0, 1000), st.integers(0, 1000)), max_size=6))
def test_a_grace_period_only_ever_gets_shorter(seconds: int, life: list[tuple[float, int]]) -> None:
    """What is left is never less than two seconds, never more than it was, and at most what was asked for last."""
    simulation = Simulation(1)
    clock = simulation.clock
    departure = GracePeriod(clock, seconds)
    end = clock.monotonic() + seconds
    for pause, shorter in life:
        simulation.run_for(pause)
        departure.shorten(shorter)
        end = min(end, clock.monotonic() + shorter)
        assert departure.remaining == pytest.approx(end - clock.monotonic())
        assert 2 <= departure.stop_timeout() <= max(2, shorter, end - clock.monotonic() + 1)


def test_only_the_pod_that_is_meant_gets_less_and_only_while_it_ends(actors: Runtime) -> None:
    departures = GracePeriods(actors.clock)
    with departures.begin(UID, 3000) as one, departures.begin(OTHER, 3000) as two:
        departures.shorten(UID, 500)
        assert (one.stop_timeout(), two.stop_timeout()) == (about(500), about(3000))
        departures.shorten(UID, 2000)
        assert one.stop_timeout() == about(500)
    departures.shorten(OTHER, 0)
    assert two.stop_timeout() == about(3000)


def test_a_grace_period_that_begins_later_is_shortened_too(actors: Runtime) -> None:
    """The worker had its job already, and had not come to the containers. Until the pod is gone."""
    departures = GracePeriods(actors.clock)
    departures.shorten(UID, 500)
    departures.shorten(UID, 2000)
    for _ in range(2):
        with departures.begin(UID, 60_000) as late:
            assert late.stop_timeout() == about(500)
    with departures.begin(UID, 100) as shorter:
        assert shorter.stop_timeout() == about(100)
    departures.forget_pod(UID)
    with departures.begin(UID, 60_000) as another:
        assert another.stop_timeout() == about(60_000)


def test_a_wait_ends_with_the_grace_period_although_that_was_shortened_meanwhile(actors: Runtime) -> None:
    waits, departures, forever = Waits(actors), GracePeriods(actors.clock), actors.future()
    begin = actors.clock.monotonic()
    actors.clock.after(0.05, lambda: departures.shorten(UID, 0))
    with departures.begin(UID, 1000) as departure, pytest.raises(WaitOverError):
        waits.call(forever.get, limit=departure)
    assert actors.clock.monotonic() - begin < 100
    forever.set(None)


def test_a_listener_is_called_until_it_stops_listening(actors: Runtime) -> None:
    heard: list[int] = []
    departure = GracePeriod(actors.clock, 3000)
    with departure.listening(lambda: heard.append(departure.stop_timeout())):
        departure.shorten(4000)
        departure.shorten(1000)
        departure.shorten(500)
    departure.shorten(100)
    assert heard == [about(1000), about(500)]


def test_each_waits_until_those_before_it_have_ended(actors: Runtime) -> None:
    turns = TerminationOrdering(Waits(actors), {B: frozenset({A}), C: frozenset({A, B})})
    ended: list[ContainerId] = []

    def stop(container: ContainerId) -> None:
        turns.wait_for_turn(container, GracePeriod(actors.clock, 1000))
        ended.append(container)
        turns.container_terminated(container)

    run_concurrently(actors, [lambda: stop(C), lambda: stop(B), lambda: stop(A)])
    assert ended == [A, B, C]


def test_no_container_waits_longer_than_its_grace_period(actors: Runtime) -> None:
    departure = GracePeriod(actors.clock, 1000)
    actors.clock.after(0.02, lambda: departure.shorten(0))
    TerminationOrdering(Waits(actors), {B: frozenset({A})}).wait_for_turn(B, departure)
    assert departure.remaining <= 0


def test_a_container_whose_turn_comes_while_its_wait_begins_does_not_wait() -> None:
    wait = Mock(spec=Wait)

    def begin_late(begin: Callable[[Wait], None], *, limit: object) -> None:
        assert limit is not None
        ordering.container_terminated(A)
        begin(wait)

    ordering = TerminationOrdering(Mock(spec=Waits, wait=begin_late), {A: frozenset(), B: frozenset({A})})
    ordering.wait_for_turn(B, Mock(spec=GracePeriod))
    wait.end.assert_called_once_with()


class ShortenedMeanwhile:
    """A clock that shortens the grace period from another thread just before the first timer begins."""

    def __init__(self, clock: Clock, shorten: Callable[[], None]) -> None:
        self._clock = clock
        self._shorten: list[Callable[[], None]] = [shorten]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Begins a timer."""
        if self._shorten:
            self._shorten.pop()()
        return self._clock.after(seconds, function)


def test_a_limit_that_was_shortened_ends_nothing_later() -> None:
    simulation, ended = Simulation(1), list[bool]()
    departure = GracePeriod(simulation.clock, 60)
    with departure.limiting(lambda: ended.append(True)):
        departure.shorten(30)
    simulation.run_for(100)
    assert ended == []


def test_a_grace_period_is_shortened_while_its_limit_begins() -> None:
    """Neither the earlier nor the later of two threads may miss it: the wait would last as long as before."""
    simulation = Simulation(1)
    ended: list[float] = []
    clock: Any = ShortenedMeanwhile(simulation.clock, lambda: period.shorten(1))
    period = GracePeriod(clock, 1000)
    with period.limiting(lambda: ended.append(simulation.clock.monotonic())):
        began = simulation.clock.monotonic()
        simulation.run_for(10)
    assert [round(at - began) for at in ended] == [1]


def test_no_container_waits_when_edged_ends(actors: Runtime) -> None:
    waits = Waits(actors)
    actors.clock.after(0.02, waits.close)
    TerminationOrdering(waits, {B: frozenset({A})}).wait_for_turn(B, GracePeriod(actors.clock, 1000))
