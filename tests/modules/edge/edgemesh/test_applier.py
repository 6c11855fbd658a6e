"""The applier alone: when it changes its data plane, and how it learns that somebody else has."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from beehive.testing import FakeContext
from modules.edge.edgemesh.applier import CHECK_SECONDS, GATHER_SECONDS, Applier
from modules.edge.edgemesh.counters import MeshCounters
from modules.edge.edgemesh.nft.watch import Loss
from modules.edge.edgemesh.plane import PlaneError
from tests.modules.edge.edgemesh.doubles import Plane
from tests.modules.edge.edgemesh.objects import port_table


class Context(FakeContext):
    """A module whose calls take some seconds."""

    name = "edgemesh"

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds
        self.runtime: Any = self

    def call(self, work: Callable[[], None], name: str) -> None:
        """Call it at the end of its time."""
        self.clock.after(self.seconds, work)


class Watch:
    """A `RulesWatch` by which the test reports."""

    def __init__(self, error: OSError | None = None) -> None:
        self._error = error
        self.lost: Callable[[Loss], None] = lambda _: None
        self.closed = 0

    def run(self, lost: Callable[[Loss], None]) -> None:
        """Keep the function, or fail."""
        if self._error is not None:
            raise self._error
        self.lost = lost

    def close(self) -> None:
        """Count."""
        self.closed += 1


class Applying:
    """An applier, its data plane, and its reports."""

    def __init__(self, plane: Plane | None = None, seconds: float = 0.0) -> None:
        self.context, self.plane, self.counters = Context(seconds), plane or Plane(), MeshCounters()
        self.plane.now = self.context.clock.monotonic
        self.reports: list[str] = []
        self.applier = Applier(self.context, [self.plane], self.counters, self.reports.append)  # type: ignore[arg-type]
        self.applier.start()

    @classmethod
    def at_rest(cls) -> "Applying":
        """One that has applied something, and waits for nothing."""
        made = cls()
        made.apply(wait=10)
        made.plane.times.clear()
        return made

    def lose(self, number: int = 1, loss: Loss = Loss.CERTAIN, wait: float = 0.0) -> None:
        """Report so many times that somebody has deleted the rules, and let `wait` seconds pass."""
        for _ in range(number):
            self.context.clock.after(0.0, partial(self.applier.lost, loss))
        if wait:
            self.run_for(wait)

    def apply(self, *names: str, wait: float = 0.0) -> None:
        """Apply tables of Services with these names, and let `wait` seconds pass."""
        ports = [port_table(("192.0.2.2", 1), port=80)._replace(service=each) for each in names]
        self.applier.apply({each.key: each for each in ports}, frozenset())
        self.run_for(wait)

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        self.context.simulation.run_for(seconds)

    @property
    def times(self) -> list[float]:
        """When the data plane was changed."""
        return [round(each, 3) for each in self.plane.times]


def test_tables_that_come_before_the_data_plane_is_chosen_are_applied_then() -> None:
    applying = Applying(seconds=3)
    applying.apply("web", wait=6.5)
    assert [sorted(each) for each in applying.plane.tables] == [["pods", "web"]]
    assert (applying.reports, applying.counters.applied, applying.counters.plane) == ([""], 1, "fake")


def test_the_data_plane_is_changed_once_in_a_tenth_of_a_second_at_most() -> None:
    applying = Applying()
    for number in range(300):
        applying.apply(f"web-{number}", wait=0.01)
    applying.run_for(1)
    assert 25 <= len(applying.times) <= 31
    assert min(after - before for before, after in pairwise(applying.times)) > GATHER_SECONDS - 0.001
    assert "web-299" in applying.plane.tables[-1]


def test_while_a_change_is_under_way_the_newest_tables_wait_for_its_end() -> None:
    applying = Applying(seconds=5)
    applying.run_for(6)
    for number in range(30):
        applying.apply(f"web-{number}", wait=0.2)
    applying.run_for(60)
    assert "web-29" in applying.plane.tables[-1]
    assert len(applying.times) <= 4


def test_a_change_and_a_deletion_after_a_repair_are_made_good_by_the_next_repair() -> None:
    """The change was to come earlier than a repair may."""
    applying = Applying()
    applying.apply("web", wait=10)
    began = applying.context.clock.monotonic()
    applying.applier.lost()
    applying.run_for(0.02)
    applying.apply("db", wait=0.02)
    applying.applier.lost()
    applying.run_for(30)
    assert [round(each - began, 3) for each in applying.times[1:]] == [0.0, 1.0]
    assert (applying.plane.restored, sorted(applying.plane.tables[-1])) == (2, ["db", "pods"])


def test_a_refused_change_is_reported_until_it_is_made() -> None:
    applying = Applying()
    applying.plane.refusals = ["no memory", "no memory"]
    applying.apply("web", wait=30)
    assert applying.reports == ["no memory", "no memory", ""]
    assert (applying.counters.failed, applying.counters.applied) == (2, 1)


def test_a_change_that_is_refused_for_long_is_tried_ever_less_often() -> None:
    applying = Applying()
    applying.plane.refusals = ["no memory"] * 1000
    applying.apply("web", wait=600)
    assert 10 <= len(applying.times) < 60


def test_nothing_is_removed_right_after_a_change() -> None:
    """Older kernels take chains as still in use for a while."""
    applying = Applying(seconds=5)
    for seconds in (11.5, 60):
        applying.apply(f"web-{seconds}", wait=seconds)
    assert (len(applying.times), applying.plane.cleaned) == (2, 1)


def test_what_a_change_has_left_is_removed_once_and_a_failure_of_that_ends_nothing() -> None:
    applying = Applying()

    def fail() -> None:
        applying.plane.during_clean = lambda: None
        raise PlaneError("busy")

    applying.plane.during_clean = fail
    for name in ("web", "db"):
        applying.apply(name, wait=1)
    applying.run_for(10)
    assert applying.plane.cleaned == 1
    applying.apply("web", wait=10)
    assert (applying.plane.cleaned, len(applying.times)) == (2, 3)


@pytest.mark.parametrize(("loss", "is_whole", "restored"), [
    (Loss.CERTAIN, True, 1), (Loss.POSSIBLE, True, 0), (Loss.POSSIBLE, False, 1),
])  # fmt: skip
def test_a_deletion_that_the_watch_reports_is_repaired(loss: Loss, restored: int, *, is_whole: bool) -> None:
    plane, watch = Plane(), Watch()
    plane.watching = watch
    applying = Applying(plane)
    applying.apply("web", wait=10)
    plane.whole = is_whole
    watch.lost(loss)
    applying.run_for(10)
    assert (plane.restored, applying.counters.restored) == (restored, restored)
    applying.run_for(10 * CHECK_SECONDS)
    assert plane.looks == (loss is Loss.POSSIBLE), "nobody looks for rules that are watched"


@pytest.mark.parametrize("watch", [None, Watch(OSError("no buffer space"))])
def test_rules_that_cannot_be_watched_are_looked_for(watch: Watch | None) -> None:
    """Also when the kernel cannot be asked: they are made again."""
    plane = Plane()
    plane.kind, plane.watching = "nft", watch
    applying = Applying(plane)
    applying.apply("web", wait=CHECK_SECONDS * 3.5)
    assert (plane.looks, plane.restored) == (3, 0)
    plane.whole = False
    applying.run_for(CHECK_SECONDS)
    assert plane.restored == 1
    plane.refusals = ["nft"]
    applying.run_for(CHECK_SECONDS)
    assert plane.restored == 2


def test_the_proxy_is_not_looked_at() -> None:
    applying = Applying()
    applying.apply("web", wait=CHECK_SECONDS * 3.5)
    assert applying.plane.looks == 0


@pytest.mark.parametrize("watch", [None, Watch()])
def test_at_its_end_the_data_plane_and_the_watch_are_closed(watch: Watch | None) -> None:
    plane = Plane()
    plane.watching = watch
    applying = Applying(plane)
    applying.applier.stop()
    assert plane.closed == 0, "none is chosen yet"
    applying.run_for(1)
    applying.applier.stop()
    assert plane.closed == 1
    assert watch is None or watch.closed == 1


def test_many_reports_of_one_deletion_are_one_immediate_repair() -> None:
    """Case 15: a reloaded firewall is reported once for each chain."""
    applying = Applying.at_rest()
    began = applying.context.clock.monotonic()
    applying.lose(16, wait=30)
    assert [each - began <= 0.1 for each in applying.times] == [True]
    assert applying.plane.restored == applying.counters.restored == 1
    assert applying.plane.cleaned


def test_a_change_that_comes_while_something_is_removed_is_made_after_that() -> None:
    applying = Applying.at_rest()

    def change() -> None:
        applying.plane.during_clean = lambda: None
        applying.apply("web")

    applying.plane.during_clean = change
    applying.apply("web", wait=300)
    assert len(applying.times) == 2


def test_a_repair_is_not_put_off_by_reports_meanwhile() -> None:
    applying = Applying.at_rest()
    began = applying.context.clock.monotonic()
    applying.lose()
    for _ in range(90):
        applying.run_for(0.01)
        applying.lose()
        applying.apply("web")
    applying.run_for(30)
    assert [round(each - began, 3) for each in applying.times[:2]] == [0.0, 1.0]
    assert applying.counters.restored == 2


def test_repairs_and_changes_are_bounded_while_rules_are_deleted_again_and_again() -> None:
    applying = Applying.at_rest()
    for _ in range(1000):
        applying.lose(3)
        applying.apply("web", wait=0.01)
    assert 10 <= len(applying.times) == applying.counters.restored <= 11
    gaps = [after - before for before, after in pairwise(applying.times)]
    assert min(gaps) > 0.99


def test_rules_that_are_deleted_during_a_change_are_made_again_after_it() -> None:
    """The change that is under way may know nothing of the deletion."""
    applying = Applying.at_rest()
    applying.plane.during = lambda: applying.lose() if not applying.plane.restored else None
    applying.apply("web", wait=0.1)
    assert len(applying.times) == 2
    assert applying.plane.restored == 1


def test_a_repair_does_not_wait_until_a_refused_change_is_tried_again() -> None:
    applying = Applying.at_rest()
    applying.plane.refusals = ["no such table"]
    applying.apply("web", wait=0.2)
    assert applying.counters.failed == 1
    began = applying.context.clock.monotonic()
    applying.lose(wait=30)
    assert [round(each - began, 3) for each in applying.times[1:]] == [0.0]


def test_after_a_success_a_refused_change_is_tried_again_soon() -> None:
    applying = Applying.at_rest()
    applying.plane.refusals = ["no memory"] * 9
    applying.apply("web", wait=600)
    applying.plane.refusals = ["no memory"]
    applying.apply("web", wait=2)
    assert len(applying.times) == 10 + 2


def test_the_kernel_is_asked_for_the_rules_once_at_a_time() -> None:
    """Its reports may be more than fit its queue."""
    applying = Applying.at_rest()
    applying.lose(50, Loss.POSSIBLE, wait=1)
    assert applying.times == []
    assert applying.plane.looks == 2, "the first answer may be from before the other reports"
    applying.plane.whole = False
    applying.lose(50, Loss.POSSIBLE, wait=30)
    assert len(applying.times) == applying.plane.restored == 1


class _Slow:
    """A module whose calls end some time after their results have come."""

    name = "slow"

    def __init__(self) -> None:
        self.ends: list[Callable[[], None]] = []
        self.runtime = self
        self.clock = FakeContext().clock

    def call(self, work: Callable[[], None], name: str) -> None:
        """Call at once."""
        work()

    def call_soon(self, function: Callable[[], None]) -> None:
        """Handle a result at once, and the end of a call later."""
        if isinstance(function, partial):
            function()
        else:
            self.ends.append(function)

    def after(self, _seconds: float, function: Callable[[], None]) -> None:
        """Call at once, but clean nothing."""
        if function.__name__ != "_clean_now":
            function()


def test_a_change_is_not_forgotten_while_a_look_waits_and_a_call_has_not_quite_ended() -> None:
    """It had no place in the queue then, and nothing was changed any more until the next restart."""
    slow, plane = _Slow(), Plane()
    applier = Applier(slow, [plane], MeshCounters(), lambda _reason: None)  # type: ignore[arg-type]
    applier.start()
    applier.lost(Loss.POSSIBLE)
    applier.apply({}, frozenset())
    while slow.ends:
        slow.ends.pop(0)()
    assert len(plane.times) == 1
