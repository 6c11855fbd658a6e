"""Calls and requests of threads that fail half-way: what they have left."""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import closing
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from beehive.actor import Actor
from beehive.bounded_calls import BoundedCalls
from beehive.errors import RequestError, StartError
from beehive.hive import Hive
from beehive.message import Message
from beehive.module import Module
from beehive.runtime import Threads
from beehive.simulation import Simulation
from beehive.simulation.scheduler import Scheduler
from beehive.thread_requests import ThreadRequests
from beehive.trace_context import Cause, acting_as, current_cause, current_context, resumed
from tests.beehive.beds import Bed, Log
from tests.beehive.test_lifecycle import Noting, Other
from tests.support.failing import Failing, PlannedError, census


class _AtOnce:
    """A module whose threads and turns run at once."""

    name = "caller"

    def __init__(self) -> None:
        self.runtime = self
        self.turns: deque[Callable[[], None]] = deque()

    def call(self, run: Callable[[], None], name: str) -> None:
        """Run a call on its thread."""
        assert name == "caller/call"
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(threading, "excepthook", lambda _: None)
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()

    def call_soon(self, turn: Callable[[], None]) -> None:
        """Keep a turn."""
        self.turns.append(turn)


def test_a_call_that_raises_is_the_module_s_failure_and_leaves_its_place() -> None:
    """So whoever waits for the result is answered; the next call has the place."""
    module, results = _AtOnce(), list[int]()
    calls = BoundedCalls(cast("Module", module), 1, 1)

    def fails() -> int:
        raise PlannedError

    assert calls.submit(fails, results.append)
    assert calls.submit(lambda: 5, results.append)
    with pytest.raises(PlannedError):
        module.turns.popleft()()
    while module.turns:
        module.turns.popleft()()
    assert results == [5]


def test_so_many_calls_run_and_so_many_wait_again_and_again() -> None:
    """A call that has ended leaves its place, to one that waits first."""
    running, ended = deque[Callable[[], None]](), list[int]()
    runtime = SimpleNamespace(call=lambda run, **_: running.append(run))
    module = SimpleNamespace(name="caller", runtime=runtime, call_soon=lambda turn: turn())
    calls = BoundedCalls(cast("Module", module), 2, 1)
    for _ in range(3):
        taken = [calls.submit(partial(int, number), ended.append) for number in range(4)]
        assert (taken, len(running)) == ([True, True, True, False], 2)
        while running:
            running.popleft()()
        assert ended == [0, 1, 2]
        ended.clear()


def test_who_shares_calls_has_turns() -> None:
    """And no more of them at a time than its share."""
    running, begun = deque[tuple[Callable[[], None], str]](), list[str]()
    runtime = SimpleNamespace(call=lambda run, **_: running.append(run))
    module = SimpleNamespace(name="caller", runtime=runtime, call_soon=lambda turn: turn())
    calls = BoundedCalls(cast("Module", module), 3, 100, 2)
    for share in ("a", "a", "a", "a", "b", "b", "c"):
        calls.submit(partial(begun.append, share), lambda _: None, share)
    assert len(running) == 3
    while running:
        cast("Any", running.popleft())()
    assert begun == ["a", "a", "b", "a", "b", "c", "a"]
    assert (calls._waiting, dict(calls._running), calls._queues) == (0, {}, {})


def test_one_share_has_half_of_the_queue() -> None:
    runtime = SimpleNamespace(call=lambda *_, **__: None)
    calls = BoundedCalls(cast("Module", SimpleNamespace(name="caller", runtime=runtime)), 2, 4, 1)
    taken = [calls.submit(int, lambda _: None, share) for share in "xxxxyyyyz"]
    assert taken == [True, True, True, False, True, True, True, False, False]


def test_the_end_of_another_s_call_is_no_room_in_one_s_share() -> None:
    """Its calls wait in their order."""
    running, begun = dict[str, Callable[[], None]](), list[str]()
    names = iter("abcdef")
    runtime = SimpleNamespace(call=lambda run, **_: running.__setitem__(next(names), run))
    module = SimpleNamespace(name="caller", runtime=runtime, call_soon=lambda turn: turn())
    calls = BoundedCalls(cast("Module", module), 2, 100, 1)
    for number, share in enumerate(("x", "x", "x", "y")):
        calls.submit(partial(begun.append, f"{share}{number}"), lambda _: None, share)
    assert list(running) == ["a", "b"]
    running.pop("b")()
    assert (list(running), begun) == (["a"], ["y3"]), "two of x wait"
    for name in "acd":
        running.pop(name)()
    assert begun == ["y3", "x0", "x1", "x2"]


def test_a_request_that_fails_is_waited_for_no_longer() -> None:
    class Hive:
        """Refuses requests."""

        def request(self, *_: object) -> None:
            """Refuse one."""
            raise RequestError("ask", "nobody is there")

    class Owner:
        """A module on it."""

        hive = Hive()

    requests = ThreadRequests(cast("Module", Owner()))
    before = census((requests,))
    with pytest.raises(RequestError):
        requests.ask("nobody", Message(), 1.0)
    assert not census((requests,)).more_than(before)


def test_a_request_that_begins_while_its_module_ends_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module waits for its thread, which would wait for an answer that nobody takes any more."""
    with closing(Threads()) as threads:
        hive = Hive(threads)
        hive.add(Noting, Log())  # not started: it answers nothing
        requests = ThreadRequests(cast("Module", SimpleNamespace(hive=hive)))
        register = hive.pending_requests.register

        def late(*given: Any, **named: Any) -> bool:
            requests.end_all("the module ends")
            return register(*given, **named)

        monkeypatch.setattr(hive.pending_requests, "register", late)
        message = Message.new(threads.clock, source="test", resource="a/pod/c", operation="query")
        with pytest.raises(RequestError, match="the module ends"):
            requests.ask("noting", message, 5.0)


def test_what_fails_in_the_course_of_another_cause_leaves_the_thread_with_its_own() -> None:
    """Later messages of the thread would have a cause that is long over."""
    with acting_as("first"), resumed(Cause(1, 1)):
        with pytest.raises(PlannedError), resumed(Cause(2, 2)):
            raise PlannedError
        assert current_cause() == Cause(1, 1)
        with pytest.raises(PlannedError), acting_as("second"):
            raise PlannedError
        assert current_context().actor == "first"


def test_an_interrupted_start_stops_what_has_started(bed: Bed, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    hive = bed.hive()
    for module in (Noting, Other):
        hive.add(module, log)
    monkeypatch.setattr(hive, "_start", Failing(1, KeyboardInterrupt()).call(hive._start))
    with pytest.raises(KeyboardInterrupt):
        hive.start()
    assert log.entries == ["start noting", "stop noting"]


class _Parent(Noting):
    """Has an actor of its own."""

    def on_start(self) -> None:
        super().on_start()
        self.start_actor(_Unreported)


class _SecondParent(_Parent):
    name = "second"


def test_a_hive_without_a_thread_for_its_parts_says_so_and_stops_those_that_it_has(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever has none: the supervisor, a module, or an actor of a module."""
    start, failed, before = threading.Thread.start, list[str](), census()
    failing = Failing(None)

    def counted(thread: threading.Thread) -> None:
        failing.step()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    for at in range(6):
        log.entries.clear()
        failing = Failing(at, RuntimeError("can't start new thread"))
        with closing(Threads()) as threads:
            hive = Hive(threads)
            for module in (_Parent, _SecondParent):
                hive.add(module, log)
            try:
                hive.start()
            except StartError as error:
                failed.append(str(error).split(":", maxsplit=1)[0].removeprefix("cannot start module "))
            else:
                hive.stop()
            assert hive.depths() == {"noting": 0, "second": 0}
        failing.forget()
        started = [entry.split()[1] for entry in log.entries if entry.startswith("start")]
        stopped = [entry.split()[1] for entry in log.entries if entry.startswith("stop")]
        assert stopped == [name for name in reversed(started) if name not in failed[-1:] or at == 5]
        assert not census().more_than(before)
    assert failed == ["supervisor", "noting", "noting", "second", "second"]


def _fails(*_: object) -> None:
    raise PlannedError


class _Unreported(Actor):
    """Fails at its first message, and whoever is told of that fails, too."""

    failed = staticmethod(_fails)

    def on_receive(self, _message: object) -> None:
        """Fail."""
        raise PlannedError


def test_an_actor_whose_end_cannot_be_reported_has_ended_all_the_same(
    bed: Bed, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who stops it would wait for it in vain."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    hive = bed.started(Noting, log)
    slot = hive.slot(Noting.name)
    monkeypatch.setattr(slot, "finished", _fails)
    worker = bed.runtime.start(_Unreported, name="worker")
    worker.ref.tell("fail")
    assert slot.running is not None
    for running in (worker, slot.running):
        assert running.stop(60.0)


def test_a_module_without_a_thread_has_ended(bed: Bed, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be registered for ever, and waited for at the stop."""
    hive, failing = bed.hive(), Failing(0, RuntimeError("can't start new thread"))
    hive.add(Noting, log)
    slot = hive.slot(Noting.name)
    with monkeypatch.context() as refused:
        refused.setattr(bed.runtime, "_spawn", failing.call(print))
        with pytest.raises(RuntimeError, match="new thread"):
            slot.start().get()
    assert (slot.stop(bed.clock.monotonic()), bed.leftovers()) == (True, [])


def test_the_supervisor_ends_before_the_modules() -> None:
    """It would start again those that have ended."""
    hive, parts = cast("Any", object.__new__(Hive)), Mock()
    hive.clock, hive._supervisor, hive._slots = Simulation(0).clock, parts.supervisor, {"a": parts.a, "b": parts.b}
    hive.stop()
    assert [name for name, *_ in parts.mock_calls] == ["supervisor.stop", "b.stop", "a.stop"]


def test_what_is_no_message_has_no_cause() -> None:
    """The turn before it has left its own."""
    seen = list[tuple[int, int]]()
    module = cast("Any", object.__new__(Noting))
    context = module._Module__context = SimpleNamespace(span=7, trace=8)
    module._actor_handle = lambda _: seen.append((context.span, context.trace))
    module._Module__handle_other("stop")
    assert seen == [(0, 0)]


def test_a_killed_greenlet_that_was_ready_does_not_run() -> None:
    scheduler, killed, other = cast("Any", object.__new__(Scheduler)), object(), object()
    scheduler._killed, scheduler._alive, scheduler._ready = set(), {killed, other}, [killed, other]
    scheduler.kill(cast("Any", [killed]))
    assert (scheduler._ready, scheduler._alive) == ([other], {other})
