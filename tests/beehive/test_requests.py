"""Open requests under races: each ends exactly once, answers are never lost, memory stays bounded."""

import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from beehive import DropReason, Hive, Message, Module, RequestTimeoutError, Threads, handles
from beehive.errors import RequestError
from beehive.requests import PendingRequests
from beehive.runtime import Future, ThreadFuture
from beehive.simulation import Simulation
from tests.support.patience import PATIENCE


@pytest.fixture
def threads() -> Iterator[Threads]:
    """A runtime that is closed after the test."""
    runtime = Threads()
    yield runtime
    runtime.close()


def question(runtime: Threads) -> Message:
    """A request."""
    return Message.new(runtime.clock, source="t", resource="default/pod/a", operation="query")


def run(*functions: object) -> None:
    """Run all of them at the same moment, each on a thread."""
    begin = threading.Barrier(len(functions))

    def body(function: object) -> None:
        begin.wait()
        function()  # type: ignore[operator]

    workers = [threading.Thread(target=body, args=(function,)) for function in functions]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)


def test_a_waiter_ends_once_when_answer_and_deadline_meet(threads: Threads) -> None:
    """Stress: answers come at the moment of the deadline, twice; every wait ends once and every answer is accounted."""
    waiters = PendingRequests(threads.clock)
    ends: Counter[str] = Counter()
    questions = [question(threads) for _ in range(400)]
    for number, one in enumerate(questions):
        waiters.register(one, 0.02 + number * 0.0002, lambda _result, key=one.id: ends.update([key]))  # type: ignore[misc]

    def answer() -> None:
        pause = threading.Event()
        for number, one in enumerate(questions):
            if number % 20 == 0:
                pause.wait(0.002)
            waiters.answer(one.reply(threads.clock))

    run(answer, answer)
    last = ThreadFuture[None]()
    threads.clock.after(0.15, last.set)
    last.get(timeout=PATIENCE)
    assert ends == Counter({one.id: 1 for one in questions})
    assert len(waiters) == 0
    late, double = waiters.unmatched[DropReason.LATE_ANSWER], waiters.unmatched[DropReason.DOUBLE_ANSWER]
    assert waiters.unmatched[DropReason.UNKNOWN_ANSWER] == 0
    assert late + double >= len(questions)
    assert late + double <= 2 * len(questions)


def test_of_two_who_end_the_same_wait_one_does(threads: Threads) -> None:
    """Both have seen the request open; the first ends it, and the second learns that it is too late."""
    waiters, one = PendingRequests(threads.clock), question(threads)
    ends: list[object] = []
    waiters.register(one, 60, ends.append)
    seen_by_both = waiters._open[one.id]
    assert waiters._finish(one.id, seen_by_both, "first")
    assert not waiters._finish(one.id, seen_by_both, "second")
    assert ends == ["first"]


def test_a_request_may_be_sent_again_with_its_id_after_its_end_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """As KubeEdge's metaclient does. A deadline that fires while the first ends does not end the second."""
    clock, deadlines = Simulation(0).clock, list[Callable[[], None]]()

    def after(_seconds: float, expire: Callable[[], None]) -> SimpleNamespace:
        deadlines.append(expire)
        return SimpleNamespace(cancel=lambda: None)

    monkeypatch.setattr(clock, "after", after)
    pending, results = PendingRequests(clock), list[object]()
    done = results.append
    asked = Message.new(clock, source="t", resource="default/pod/a", operation="query")
    assert pending.register(asked, 5.0, done)
    assert not pending.register(asked, 5.0, done)
    assert (len(results), len(deadlines), len(pending)) == (1, 1, 1)
    answer = asked.reply(clock)
    pending.answer(answer)
    assert pending.register(asked, 5.0, done)
    deadlines[0]()
    assert results[1:] == [answer]
    pending.cancel(asked.id, RequestError("ask", "nobody is there"))
    assert pending.answer(answer) is DropReason.LATE_ANSWER
    assert (len(results), len(pending)) == (3, 0)


def test_an_answer_that_comes_while_its_request_ends_does_not_end_the_next_with_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As above, by another thread between the steps of the answering one."""
    pending, results = PendingRequests(Simulation(0).clock), list[object]()
    asked = Message.new(pending._clock, source="t", resource="default/pod/a", operation="query")
    pending.register(asked, 5.0, results.append)
    lock = pending._lock

    class OtherThread:
        """Comes before the lock is taken for the first time."""

        def __enter__(self) -> None:
            monkeypatch.setattr(pending, "_lock", lock)
            pending.cancel(asked.id, RequestError("ask", "nobody is there"))
            pending.register(asked, 5.0, results.append)
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    monkeypatch.setattr(pending, "_lock", OtherThread())
    assert pending.answer(asked.reply(pending._clock)) is DropReason.LATE_ANSWER
    assert (len(results), len(pending)) == (1, 1)


def test_an_ended_request_has_no_deadline_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node has thousands an hour."""
    clock, cancelled = Simulation(0).clock, list[float]()
    timer = SimpleNamespace(cancel=lambda: cancelled.append(3600.0))
    monkeypatch.setattr(clock, "after", lambda _seconds, _function: timer)
    pending = PendingRequests(clock)
    asked = Message.new(clock, source="t", resource="default/pod/a", operation="query")
    pending.register(asked, 3600.0, lambda _: None)
    assert cancelled == []
    pending.answer(asked.reply(clock))
    assert cancelled == [3600.0]


def test_the_memory_of_closed_requests_is_bounded(threads: Threads) -> None:
    """A node that runs for a year keeps the newest thousand."""
    waiters = PendingRequests(threads.clock)
    for _ in range(5000):
        one = question(threads)
        waiters.register(one, 60, lambda _result: None)
        waiters.answer(one.reply(threads.clock))
    assert len(waiters) == 0
    assert len(waiters._closed) == 1024
    assert waiters.answer(one.reply(threads.clock)) is DropReason.DOUBLE_ANSWER


def test_requests_of_many_threads_all_get_their_own_answer(threads: Threads) -> None:
    """Stress: eight threads ask one module; nobody gets another's answer, none is lost (KubeEdge loses some)."""

    class Echo(Module):
        name = "echo"

        @handles()
        def echo(self, message: Message) -> None:
            self.reply(message, message.content)

    hive = Hive(threads)
    hive.add(Echo)
    hive.start()
    wrong: list[object] = []

    def ask() -> None:
        for number in range(200):
            one = question(threads).with_content((threading.get_ident(), number))
            answer = hive.request("echo", one, 60).get()
            if answer.content != one.content or answer.parent_id != one.id:
                wrong.append(answer)

    run(*[ask] * 8)
    hive.stop()
    assert wrong == []
    assert hive.pending_requests.unmatched == {}
    assert len(hive.pending_requests) == 0


def test_a_request_that_comes_while_a_module_ends_is_no_error(threads: Threads) -> None:
    """A garbage collection lets its thread in: the module's thread ended with a RuntimeError, among thousands."""
    pending = PendingRequests(threads.clock)

    def register(phase: str = "start", _info: dict[str, int] | None = None) -> None:
        if phase == "start":
            pending.register(question(threads), 60, lambda _: None)

    for _ in range(3000):
        register()
    before, enabled = gc.get_threshold(), gc.isenabled()
    gc.callbacks.append(register)
    gc.set_threshold(1)
    gc.enable()
    try:
        pending.lose("echo", set())
    finally:
        gc.callbacks.remove(register)
        gc.set_threshold(*before)
        if not enabled:
            gc.disable()
    assert len(pending) > 3000


def test_requests_while_the_hive_stops_all_end(threads: Threads) -> None:
    """Stress: senders go on while modules stop; every request is answered or fails immediately."""

    class Echo(Module):
        name = "echo"

        @handles()
        def echo(self, message: Message) -> None:
            self.reply(message)

    for _ in range(10):
        hive = Hive(threads)
        hive.add(Echo)
        hive.start()
        outcomes: Counter[str] = Counter()
        stopped = threading.Event()

        def ask(hive: Hive = hive, outcomes: Counter[str] = outcomes, stopped: threading.Event = stopped) -> None:
            futures: list[Future[Message]] = []
            while not stopped.is_set() or len(futures) < 50:
                futures.append(hive.request("echo", question(threads), 60))
                if len(futures) > 2000:
                    break
            for future in futures:
                try:
                    future.get()
                    outcomes["answered"] += 1
                except RequestTimeoutError:
                    outcomes["in vain"] += 1
                except Exception as error:  # noqa: BLE001
                    outcomes[type(error).__name__] += 1

        def stop(hive: Hive = hive, stopped: threading.Event = stopped) -> None:
            hive.stop(60.0)
            stopped.set()

        run(ask, ask, stop)
        assert outcomes["in vain"] == 0
        assert set(outcomes) <= {"answered", "UndeliverableError", "in vain"}
        assert hive.depths() == {"echo": 0}


@pytest.mark.modules_fail
def test_a_failing_module_under_load_loses_nothing(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stress: a module that fails now and then while four threads send; each message is handled or a dead letter."""
    monkeypatch.setattr("beehive.supervisor.FIRST_DELAY", 0.001)
    monkeypatch.setattr("beehive.supervisor.LONGEST_DELAY", 0.002)
    handled: Counter[int] = Counter()

    class Shaky(Module):
        name = "shaky"
        attempts = 2

        @handles()
        def take(self, message: Message) -> None:
            if message.content % 97 == 0:
                raise ValueError("shaky")
            handled[message.content] += 1

    hive = Hive(threads)
    hive.add(Shaky)
    hive.start()

    def send(worker: int) -> None:
        for number in range(250):
            hive.send("shaky", question(threads).with_content(worker * 250 + number))

    run(*(lambda worker=worker: send(worker) for worker in range(4)))
    poisoned = [number for number in range(1000) if number % 97 == 0]
    deadline = ThreadFuture[None]()
    check = threads.clock.every(0.01, lambda: _settle_when(len(handled) == 1000 - len(poisoned), deadline))
    deadline.get(timeout=PATIENCE)
    check.cancel()
    hive.stop()
    assert set(handled.values()) == {1}
    assert sorted(letter.message.content for letter in hive.dead_letters) == poisoned
    assert hive.restarts() == {"shaky": 2 * len(poisoned)}


def _settle_when(done: bool, future: ThreadFuture[None]) -> None:
    if done and not future.settled:
        future.set()
