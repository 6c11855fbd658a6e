"""Threads for calls whose callers may leave before the end."""

import threading
from collections.abc import Callable

import pytest

from modules.runtimes.cri_server import call_threads
from modules.runtimes.cri_server.call_threads import CallLeftError, CallThreads, TooManyCallsError
from tests.modules.runtimes.process.node import DEADLINE_SECONDS


def _nowhere(_: Callable[[], None]) -> None:
    """The caller has no other reason to leave."""


def test_answers_errors_and_threads_that_serve_again() -> None:
    """A call runs on another thread, which the next call gets."""
    threads = CallThreads()
    seen = [threads.run(threading.current_thread, DEADLINE_SECONDS, _nowhere) for _ in range(3)]
    assert len(set(seen)) == 1
    assert threading.current_thread() not in seen
    with pytest.raises(KeyError):
        threads.run(lambda: dict[str, int]()["x"], DEADLINE_SECONDS, _nowhere)
    assert threads.close(DEADLINE_SECONDS) == 0
    seen[0].join(DEADLINE_SECONDS)
    assert not seen[0].is_alive()
    with pytest.raises(CallLeftError):
        threads.run(lambda: 1, DEADLINE_SECONDS, _nowhere)


@pytest.mark.parametrize("way", ["deadline", "client", "close"])
def test_a_call_that_is_left_goes_on(way: str) -> None:
    """At its deadline, when the client leaves and when the runtime is closed; its late answer is nobody's."""
    threads, release, ended = CallThreads(), threading.Event(), threading.Event()
    leaving: list[Callable[[], None]] = []

    def work() -> None:
        if way == "client":
            leaving[0]()
        elif way == "close":
            assert threads.close(0) == 1
        assert release.wait(DEADLINE_SECONDS)
        ended.set()

    with pytest.raises(TimeoutError if way == "deadline" else CallLeftError):
        threads.run(work, 0.05 if way == "deadline" else None, leaving.append)
    assert not ended.is_set()
    release.set()
    assert ended.wait(DEADLINE_SECONDS)
    assert threads.close(DEADLINE_SECONDS) == 0


def test_calls_beyond_the_limit_are_refused_until_others_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that were left count as long as they hang."""
    monkeypatch.setattr(call_threads, "_MOST_CALLS", 1)
    threads, release, ended = CallThreads(), threading.Event(), threading.Event()

    def work() -> None:
        assert release.wait(DEADLINE_SECONDS)
        ended.set()

    with pytest.raises(TimeoutError):
        threads.run(work, 0, _nowhere)
    with pytest.raises(TooManyCallsError):
        threads.run(lambda: 1, DEADLINE_SECONDS, _nowhere)
    release.set()
    assert ended.wait(DEADLINE_SECONDS)
    with threads._changed:
        threads._changed.wait_for(lambda: not threads._running, DEADLINE_SECONDS)
    assert threads.run(lambda: 1, DEADLINE_SECONDS, _nowhere) == 1
    assert threads.close(DEADLINE_SECONDS) == 0


def test_a_call_for_which_the_machine_has_no_thread_is_not_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later calls begin as if it had never been."""
    threads = CallThreads()
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", _no_thread)
        with pytest.raises(TooManyCallsError):
            threads.run(lambda: 1, DEADLINE_SECONDS, _nowhere)
    assert threads.run(lambda: 1, DEADLINE_SECONDS, _nowhere) == 1
    assert threads.close(DEADLINE_SECONDS) == 0


def _no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_calls_at_once_have_a_thread_each() -> None:
    """Also while one waits for the next call."""
    threads, together = CallThreads(), threading.Barrier(2, timeout=DEADLINE_SECONDS)
    threads.run(lambda: 1, DEADLINE_SECONDS, _nowhere)
    other = threading.Thread(target=threads.run, args=(together.wait, DEADLINE_SECONDS, _nowhere))
    other.start()
    threads.run(together.wait, DEADLINE_SECONDS, _nowhere)
    other.join()
    assert threads.close(DEADLINE_SECONDS) == 0


def test_only_some_threads_wait_for_the_next_call() -> None:
    """Many calls at once, and then none, leave few threads."""
    threads, together = CallThreads(), threading.Barrier(12)
    made: list[threading.Thread] = []

    def work() -> None:
        made.append(threading.current_thread())
        together.wait(DEADLINE_SECONDS)

    callers = [threading.Thread(target=threads.run, args=(work, DEADLINE_SECONDS, _nowhere)) for _ in range(12)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    with threads._changed:
        threads._changed.wait_for(lambda: not threads._running, DEADLINE_SECONDS)
    assert (len(set(made)), threads._idle) == (12, 4)
    assert threads.close(DEADLINE_SECONDS) == 0
    for each in made:
        each.join(DEADLINE_SECONDS)
        assert not each.is_alive()
