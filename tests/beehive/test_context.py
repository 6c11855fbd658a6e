"""A module's parts: the context that they are given, its double for tests, and functions called beside everything."""

import threading

import pykka
import pytest

from beehive import Actor, Module, ModuleContext
from beehive.simulation import Simulation
from beehive.testing import FakeContext, Harness
from beehive.trace_context import current_context, own_context
from tests.beehive.beds import Bed, Log
from tests.support.patience import PATIENCE


class Deadline:
    """A part of a module: it notes a request and its expiry, and who called it."""

    def __init__(self, context: ModuleContext, log: Log) -> None:
        self.context = context
        self.log = log
        self.timer = context.after(30.0, lambda: self.note("expired"))
        context.every(20.0, lambda: self.note("still waiting"))
        context.call_soon(lambda: self.note("set"))

    def note(self, text: str) -> None:
        self.log((text, self.context.clock.monotonic()))


class Worker(Actor):
    """An actor of a part: it answers."""

    def on_receive(self, message: object) -> object:
        return f"done: {message}"


class Owner(Module):
    """A module with one part."""

    name = "owner"

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def on_start(self) -> None:
        Deadline(self, self.log)


def test_a_part_behaves_in_a_fake_context_as_in_its_module(log: Log) -> None:
    """The same calls at the same virtual times, without module and hive."""
    in_module = Log()
    with Harness() as bee:
        bee.start(Owner, in_module)
        bee.run_for(45.0)
    context = FakeContext()
    Deadline(context, log)
    context.simulation.run_for(45.0)
    assert log.entries == in_module.entries
    assert log.entries == [("set", 0.0), ("still waiting", 20.0), ("expired", 30.0), ("still waiting", 40.0)]


def test_a_timer_of_a_fake_context_can_be_cancelled(log: Log) -> None:
    """As a module's."""
    context = FakeContext()
    part = Deadline(context, log)
    assert part.timer.active
    assert part.timer.cancel()
    context.simulation.run_for(31.0)
    assert [text for text, _ in log.entries] == ["set", "still waiting"]


def test_an_actor_of_a_fake_context_runs_in_its_simulation() -> None:
    """It answers, and stops when it is asked to."""
    context = FakeContext()
    ref: pykka.ActorRef[Worker] = context.start_actor(Worker, name="worker")
    assert ref.ask("one", block=True) == "done: one"
    ref.stop()
    assert context.simulation.scheduler.alive() == []


def test_a_call_gives_the_result_of_its_function(bed: Bed) -> None:
    """On an actor of its own, which has ended afterwards."""
    before = set(pykka.ActorRegistry.get_by_class_name("_Call"))
    assert bed.runtime.call(lambda: 6 * 7, name="product").get(timeout=PATIENCE) == 42
    bed.until(lambda: set(pykka.ActorRegistry.get_by_class_name("_Call")) <= before)


def test_a_call_gives_the_error_of_its_function(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """It is raised by the future and not logged; a SystemExit does not end the process either."""
    with pytest.raises(ValueError, match="no such version"):
        bed.runtime.call(lambda: int("no such version"), name="version").get(timeout=PATIENCE)

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        bed.runtime.call(leave, name="leave").get(timeout=PATIENCE)
    assert not caplog.records


def test_a_call_has_the_trace_context_of_its_caller(bed: Bed) -> None:
    """And its own actor's name."""
    context = own_context()
    context.span, context.trace = 12, 7
    try:
        called = bed.runtime.call(
            lambda: (current_context().actor, current_context().span, current_context().trace), name="probe"
        )
    finally:
        context.span = context.trace = 0
    assert called.get(timeout=PATIENCE) == ("probe", 12, 7)


def test_calls_run_beside_each_other() -> None:
    """A blocked call does not hold up another; in simulation calls wait in virtual time."""
    simulation = Simulation()
    gate = simulation.future()
    slow = simulation.call(gate.get, name="slow")
    assert simulation.call(lambda: "quick", name="quick").get() == "quick"
    assert not slow.settled
    simulation.clock.after(3600.0, lambda: gate.set("late"))
    assert slow.get() == "late"
    assert simulation.clock.monotonic() == 3600.0


def test_a_call_runs_on_a_thread_of_its_name(bed: Bed) -> None:
    """Under threads a dump shows what is called; the simulation has one thread."""
    name = bed.runtime.call(lambda: threading.current_thread().name, name="cri version").get(timeout=PATIENCE)
    assert name == ("cri version" if bed.real else threading.current_thread().name)
