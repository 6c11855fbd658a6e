"""Which sandboxes' rules are looked after, and whose turn it is, without a machine's rules."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from modules.runtimes.engine.errors import WrongStateError
from modules.runtimes.oci.network import rule_watch
from modules.runtimes.oci.network.rule_watch import AttachedSandbox, RuleWatch
from modules.runtimes.oci.network.turns import MOST_CHAINS, Turns


class Ports:
    """Host ports whose rules are there or not."""

    programs = ("iptables",)

    def __init__(self) -> None:
        self.are_there = False

    def are_in(self, _program: str, _rules: object) -> bool:
        """Whether the rules are there."""
        return self.are_there


class Bench:
    """A watch over sandboxes without edgecore's own network, whose rules are missing, and who asks for its timer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.timers: list[SimpleNamespace] = []
        self.repeated: list[str] = []
        self.failing: set[str] = set()
        self.ports: dict[str, Ports] = {}
        monkeypatch.setattr(rule_watch, "host_ports_of", lambda attachment: self.ports[attachment])
        monkeypatch.setattr(rule_watch, "read_rules", lambda _program: None)
        loopback: Any = SimpleNamespace(restore=lambda _read: False)
        clock: Any = SimpleNamespace(every=self._every)
        self.watch = RuleWatch(clock, None, loopback, self._repeat)

    def _every(self, _seconds: float, _look: Callable[[], None]) -> SimpleNamespace:
        timer = SimpleNamespace(is_set=True)
        timer.cancel = lambda: setattr(timer, "is_set", False)
        self.timers.append(timer)
        return timer

    def _repeat(self, sandbox_id: str, _sandbox: AttachedSandbox) -> None:
        self.repeated.append(sandbox_id)
        if sandbox_id in self.failing:
            raise WrongStateError("repeat", f"{sandbox_id} is stuck")

    def add(self, *names: str) -> None:
        """Look after sandboxes."""
        for name in names:
            self.ports[name] = Ports()
            self.watch.add(name, AttachedSandbox(Path(), lambda: None), cast("Any", name))

    def looks(self) -> int:
        """The timers that are set."""
        return sum(each.is_set for each in self.timers)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_there_is_a_timer_while_there_are_sandboxes(bench: Bench) -> None:
    for _ in range(2):
        bench.add("a", "b")
        assert bench.looks() == 1
        bench.watch.discard("a")
        assert bench.looks() == 1
        bench.watch.discard("b")
        assert bench.looks() == 0
    bench.add("a")
    bench.watch.close()
    assert bench.looks() == 0
    bench.watch.discard("a")
    bench.add("late")
    assert bench.looks() == 0, "nobody would cancel it"


def test_there_is_one_look_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow `iptables-save` would otherwise get ever more company."""
    looks: list[SimpleNamespace] = []

    def thread(**_options: object) -> SimpleNamespace:
        looks.append(SimpleNamespace(start=lambda: None, is_alive=lambda: True, join=lambda: None))
        return looks[-1]

    monkeypatch.setattr("threading.Thread", thread)
    bench.watch.begin()
    assert looks == [], "there is no sandbox"
    bench.add("a")
    for _ in range(2):
        bench.watch.begin()
    assert len(looks) == 1
    looks[0].is_alive = lambda: False
    bench.watch.begin()
    assert len(looks) == 2


def test_the_failure_of_one_sandbox_keeps_no_other_from_its_rules(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once, and again after all was well."""
    bench.add("a", "b", "c")
    bench.failing = {"a"}
    for _ in range(2):
        bench.watch.check()
    assert bench.repeated == ["a", "b", "c"] * 2
    assert caplog.text.count("a is stuck") == 1
    bench.failing.clear()
    bench.watch.check()
    bench.add("a")
    bench.failing = {"a"}
    bench.watch.check()
    assert caplog.text.count("a is stuck") == 2


def test_rules_that_are_not_to_be_seen_are_looked_for_no_more_until_the_sandbox_is_attached_anew(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add("a", "b")
    repeat = bench._repeat

    def attached_meanwhile(sandbox_id: str, sandbox: AttachedSandbox) -> None:
        repeat(sandbox_id, sandbox)
        if sandbox_id == "b":
            bench.add("b")

    monkeypatch.setattr(bench.watch, "_repeat_ports", attached_meanwhile)
    bench.watch.check()
    monkeypatch.setattr(bench.watch, "_repeat_ports", repeat)
    bench.repeated.clear()
    bench.watch.check()
    assert bench.repeated == ["b"]


class _NeverWaits:
    """In place of a condition: notes whether the caller would go on at once."""

    def __init__(self) -> None:
        self.goes_on: list[bool] = []

    def __enter__(self) -> None:
        """Nobody else is there."""

    def __exit__(self, *_error: object) -> None:
        """Nobody else is there."""

    def notify_all(self) -> None:
        """Nobody waits."""

    def wait_for(self, predicate: Callable[[], bool]) -> None:
        """Note it."""
        self.goes_on.append(predicate())


def test_few_are_served_at_one_time_and_one_is_detached_while_others_wait_to_be_attached() -> None:
    served = Turns()
    served._changed = condition = cast("Any", _NeverWaits())
    with ExitStack() as all_of_them:
        for number in range(MOST_CHAINS):
            all_of_them.enter_context(served.to_attach(str(number)))
        assert condition.goes_on == [True] * MOST_CHAINS
        with served.to_attach("more"):
            assert not condition.goes_on[-1]
    with served.to_detach("a"):
        assert condition.goes_on[-1]
        with served.to_detach("b"):
            assert condition.goes_on[-1], "nobody waits"
        served._waiting.append("waits")
        with served.to_detach("b"):
            assert not condition.goes_on[-1]
    with served.to_detach("b"):
        assert condition.goes_on[-1]
