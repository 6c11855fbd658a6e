"""Threads for calls whose callers may leave before the end."""

import threading
from collections.abc import Callable

import pytest

from modules.runtimes.cri_server.call_threads import CallLeftError, CallThreads
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
