"""Time: timers in order, cancelled for certain, cleaned up; the real clock, the virtual one, and a module's own."""

import functools
import itertools
import random
import threading
from collections import Counter
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive import Clock, Message, Module, RealClock, ResourceType, Threads, handles
from beehive.alarms import Alarms
from beehive.runtime import ThreadFuture
from beehive.simulation import EPOCH, Simulation, VirtualClock
from beehive.testing import Harness
from tests.beehive.beds import Bed, Log
from tests.support.patience import PATIENCE

_ROUNDING = 1e-6
"""Seconds: a moment less the time and plus the time again is not always the same number."""


def nothing() -> None:
    """For timers that do not matter."""


@pytest.fixture
def real() -> Iterator[RealClock]:
    """A real clock that is closed after the test."""
    clock = RealClock()
    yield clock
    clock.close()


def test_timers_fire_once_in_the_order_of_their_time(bed: Bed, log: Log) -> None:
    """No timer fires early; timers of the same time keep their order."""
    for seconds in (0.0, -1.0):
        bed.clock.after(seconds, lambda seconds=seconds: log(seconds))  # type: ignore[misc]
    bed.until(lambda: len(log) == 2)
    assert sorted(log.entries) == [-1.0, 0.0]

    def set_all() -> None:
        """By one beginning, however long it takes to set them."""
        begin = bed.clock.monotonic()
        for moment in (0.06, 0.02, 0.04):
            timed = functools.partial(lambda moment: log((moment, bed.clock.monotonic() - begin)), moment)
            bed.clock.after(begin + moment - bed.clock.monotonic(), timed)

    bed.on_the_clock(set_all)
    bed.until(lambda: len(log) == 5)
    assert [moment for moment, _ in log.entries[2:]] == [0.02, 0.04, 0.06]
    assert all(elapsed >= moment - _ROUNDING for moment, elapsed in log.entries[2:])


def test_a_nearer_timer_wakes_a_clock_that_sleeps_for_a_farther_one(bed: Bed, log: Log) -> None:
    """Also when the farther one was cancelled in between."""
    far = bed.clock.after(3600, lambda: log("far"))
    bed.clock.after(0.02, lambda: log("first"))
    bed.until(lambda: log.entries == ["first"])
    assert far.cancel()
    bed.clock.after(0.01, lambda: log("second"))
    bed.until(lambda: log.entries == ["first", "second"])


def test_a_cancelled_timer_does_not_fire_and_reports_it_once(bed: Bed, log: Log) -> None:
    """True for the one call that kept it from firing; False when it has fired or was cancelled before."""

    def set_and_cancel() -> list[bool]:
        timer = bed.clock.after(0.01, lambda: log("no"))
        return [timer.active, timer.cancel(), timer.cancel(), timer.active]

    assert bed.on_the_clock(set_and_cancel) == [True, True, False, False]
    fired = bed.clock.after(0.02, lambda: log("yes"))
    bed.until(lambda: len(log) == 1)
    assert (log.entries, fired.cancel(), fired.active) == (["yes"], False, False)


def test_every_goes_on_until_it_is_cancelled(bed: Bed, log: Log) -> None:
    """First after one period."""
    begin = bed.clock.monotonic()
    timer = bed.clock.every(0.02, lambda: log(bed.clock.monotonic() - begin))
    bed.until(lambda: len(log) >= 3)
    assert timer.cancel()
    assert not timer.cancel()
    assert not timer.active
    assert all(elapsed >= 0.02 * (number + 1) - _ROUNDING for number, elapsed in enumerate(log.entries))
    count = len(log)
    bed.clock.after(0.06, lambda: log("after"))
    bed.until(lambda: log.entries[-1] == "after")
    assert len(log) <= count + 2


@given(st.integers(0, 2**32), st.floats(0.5, 10), st.floats(0, 1))
def test_jitter_only_lengthens_a_period(seed: int, seconds: float, jitter: float) -> None:
    """Law: each period is between `seconds` and `(1 + jitter) * seconds`, and they differ."""
    simulation, moments = Simulation(seed), [0.0]
    simulation.clock.every(seconds, lambda: moments.append(simulation.clock.monotonic()), jitter=jitter)
    simulation.run_for(seconds * 20)
    periods = [after - before for before, after in itertools.pairwise(moments)]
    assert len(periods) >= 9
    assert all(seconds * 0.999 <= period <= seconds * (1 + jitter) * 1.001 for period in periods)
    if jitter > 0.01:
        assert len(set(periods)) > 1


def test_a_timer_that_fails_does_not_stop_the_real_clock(real: RealClock, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged; the next one fires."""
    fired = threading.Event()
    real.after(0, lambda: 1 // 0)  # type: ignore[arg-type]
    real.after(0.01, fired.set)
    assert fired.wait(PATIENCE)
    assert "ZeroDivisionError" in caplog.text


def test_a_timer_farther_than_a_thread_can_wait_does_not_stop_the_others(real: RealClock) -> None:
    """A pod may be given any number of seconds to end."""
    fired = threading.Event()
    real.after(1e15, nothing)
    Bed(Threads(real)).until(lambda: real._wakes_at > 1e14)
    real.after(0.01, fired.set)
    assert fired.wait(PATIENCE)


def test_a_future_may_be_waited_for_longer_than_a_lock(real: RealClock) -> None:
    """The same."""
    future = ThreadFuture[str]()
    real.after(0.01, lambda: future.set("there"))
    assert future.get(timeout=1e15) == "there"


def test_cancelled_timers_leave_the_heap(real: RealClock) -> None:
    """A node sets and cancels a deadline for every request: they must not pile up until their time comes."""
    keep = [real.after(3600, nothing) for _ in range(10)]
    for _ in range(5000):
        real.after(1800, nothing).cancel()
    assert len(real._alarms) <= 2 * (len(keep) + Alarms.SLACK)
    assert sum(timer.cancel() for timer in keep) == 10


def test_cancelled_alarms_that_have_left_the_heap_at_their_time_are_counted_no_more() -> None:
    """Or the heap would be rebuilt with each further one."""
    alarms, clock = Alarms(), Mock()
    for due in range(10):
        assert alarms.withdraw(alarms.add(clock, due, lambda: None))
    alarms.add(clock, 10.0, lambda: None)
    assert alarms.first_due() == 10.0
    assert (len(alarms), alarms._cancelled) == (1, 0)


def test_the_virtual_clock_forgets_cancelled_timers_too() -> None:
    """A simulated hour of requests must not fill the memory either."""
    clock = Simulation(1).clock
    for _ in range(5000):
        clock.after(1800, nothing).cancel()
    assert clock.pending() <= 2 * Alarms.SLACK


def test_the_shortest_wait_moves_the_virtual_clock() -> None:
    clock = VirtualClock(seed=1)
    clock.fire_next(100_000.0)
    clock.after(1e-14, nothing)
    assert clock.fire_next(200_000.0)
    assert clock.monotonic() > 100_000.0, "a loop that waits for what is left of a deadline would never end"


def test_a_wait_of_nothing_takes_no_virtual_time() -> None:
    clock = VirtualClock(seed=1)
    clock.fire_next(100_000.0)
    clock.after(0.0, nothing)
    clock.after(-1.0, nothing)
    assert [clock.fire_next(200_000.0), clock.fire_next(200_000.0)] == [True, True]
    assert clock.monotonic() == 100_000.0


def test_after_close_nothing_fires_and_no_thread_is_left(real: RealClock) -> None:
    """Also for timers that are set afterwards."""
    fired = threading.Event()
    timer = real.after(3600, fired.set)
    real.close()
    late = real.after(0, fired.set)
    assert not timer.active
    assert not late.active
    assert real._thread is not None
    assert not real._thread.is_alive()
    assert not fired.is_set()
    real.close()


def test_a_clock_may_be_closed_by_its_own_timer(real: RealClock) -> None:
    """It must not wait for itself."""
    closed = threading.Event()

    def close() -> None:
        real.close()
        closed.set()

    real.after(0, close)
    assert closed.wait(PATIENCE)


def test_a_timer_is_either_fired_or_cancelled_never_both(real: RealClock) -> None:
    """Stress: threads cancel timers at the moment they are due; `cancel` is True exactly where nothing fired."""
    counts: Counter[str] = Counter()
    lock = threading.Lock()
    both: list[int] = []
    fired: set[int] = set()

    def race(worker: int) -> None:
        source = random.Random(worker)  # noqa: S311
        for number in range(300):
            key = worker * 1000 + number
            timer = real.after(source.uniform(0, 0.0004), lambda key=key: fired.add(key))  # type: ignore[misc]
            cancelled = [timer.cancel(), timer.cancel()]
            with lock:
                counts["cancelled"] += cancelled[0]
                counts["twice"] += all(cancelled)
            if cancelled[0]:
                both.append(key)

    threads = [threading.Thread(target=race, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    last = threading.Event()
    real.after(0.01, last.set)
    assert last.wait(PATIENCE)
    assert counts["twice"] == 0
    assert not fired & set(both)
    assert len(fired) + counts["cancelled"] == 6 * 300


def test_two_threads_that_cancel_the_same_timer_do_not_both_win(real: RealClock) -> None:
    """Stress: exactly one `cancel` is True, and the count of cancelled entries stays exact."""
    wins: list[bool] = []
    for _ in range(200):
        timer, begin = real.after(3600, nothing), threading.Barrier(3)

        def cancel(timer: object = timer, begin: threading.Barrier = begin) -> None:
            begin.wait()
            wins.append(timer.cancel())  # type: ignore[attr-defined]

        threads = [threading.Thread(target=cancel) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sum(wins) == 200
    alarms = real._alarms
    assert alarms._cancelled == sum(alarm.function is None for _, _, alarm in alarms._heap)


def test_the_wall_clock_may_jump_without_timers_noticing(log: Log) -> None:
    """An administrator sets the date back by a year: periods stay, `now` follows."""
    simulation = Simulation(1)
    simulation.clock.every(10, lambda: log(simulation.clock.now()))
    simulation.run_for(25)
    simulation.clock.jump_wall(-365 * 86400.0)
    simulation.run_for(25)
    assert log.entries == [EPOCH + 10, EPOCH + 20] + [EPOCH + seconds - 365 * 86400 for seconds in (30, 40, 50)]
    assert simulation.clock.monotonic() == 50


@pytest.mark.parametrize("make", [RealClock, lambda: VirtualClock(3)])
def test_units(make: type[Clock]) -> None:
    """Milliseconds for headers, nanoseconds for CRI, both of the wall clock."""
    clock = make()
    before, millis, nanos, after = clock.now(), clock.now_ms(), clock.now_ns(), clock.now()
    assert int(before * 1000) <= millis <= int(after * 1000)
    assert int(before * 10**9) <= nanos <= int(after * 10**9)


class Ticking(Module):
    """Has timers."""

    name = "ticking"

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def on_start(self) -> None:
        self.tick = self.every(10, lambda: self.log("tick"))

    @handles(ResourceType.POD)
    def busy(self, message: Message) -> None:
        done = self.runtime.future()
        self.clock.after(105, done.set)
        done.get()
        self.log("busy for 105 s")

    @handles(ResourceType.NODE)
    def cancel_when_due(self, message: Message) -> None:
        timer = self.after(5, lambda: self.log("must not run"))
        done = self.runtime.future()
        self.clock.after(6, done.set)
        done.get()
        self.log(("cancelled", timer.cancel(), timer.cancel()))

    @handles(ResourceType.SECRET)
    def many(self, message: Message) -> None:
        for _ in range(1000):
            self.after(0, lambda: None)
        self.log(len(self._Module__timers))  # type: ignore[attr-defined]


@pytest.fixture
def bee(log: Log) -> Iterator[Harness]:
    """A harness with the ticking module."""
    with Harness() as harness:
        harness.add(Ticking, log)
        harness.start()
        yield harness


def test_a_module_s_ticks_do_not_pile_up_while_it_is_busy(bee: Harness, log: Log) -> None:
    """As a Go ticker: one waits, the others are left out."""
    bee.send("ticking", bee.message("default/pod/a", "insert"), wait=109)
    assert log.entries == ["busy for 105 s", "tick"]
    bee.run_for(20)
    assert log.entries.count("tick") == 3


def test_a_module_can_cancel_a_timer_that_waits_in_its_inbox(bee: Harness, log: Log) -> None:
    """The clock has fired it already, but the module has not come to it: it does not run."""
    bee.send("ticking", bee.message("null/node/n", "insert"), wait=9)
    assert log.entries == [("cancelled", True, False)]


def test_spent_timers_of_a_module_are_forgotten_but_not_the_live_ones(bee: Harness, log: Log) -> None:
    """Thousands of `after` leave no list behind, and the first `every` is still cancelled when the module ends."""
    for _ in range(10):
        bee.send("ticking", bee.message("default/secret/s", "insert"), wait=0.1)
    assert log.entries[-1] <= 2100
    bee.hive.stop()
    log.entries.clear()
    bee.run_for(100)
    assert log.entries == []
    assert bee.clock.pending() <= Alarms.SLACK
