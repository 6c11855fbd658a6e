"""Whose turn it is."""

import threading

import pytest

from beehive.turns import Turns
from tests.end_to_end.processes import wait_until
from tests.support.patience import PATIENCE


def test_a_holder_that_takes_it_again_waits_behind_earlier_waiters() -> None:
    """edgecontroller had transaction after transaction, and the API server none."""
    turns, order = Turns(), list[str]()
    assert turns.acquire()

    def take(name: str) -> None:
        assert turns.acquire(timeout=PATIENCE)
        order.append(name)
        turns.release()

    threads = []
    for number in range(3):
        thread = threading.Thread(target=take, args=(f"other {number}",))
        thread.start()
        threads.append(thread)
        wait_until(lambda count=number + 1: len(turns._waiting) == count, "it waits")  # type: ignore[misc]
    turns.release()
    take("own")
    for thread in threads:
        thread.join()
    assert order == ["other 0", "other 1", "other 2", "own"]
    assert not turns.locked()


def test_who_has_waited_long_enough_gives_up_and_leaves_no_trace() -> None:
    turns = Turns()
    assert turns.acquire()
    assert not turns.acquire(timeout=0.01)
    turns.release()
    assert not turns.locked()
    assert turns.acquire(timeout=0.01)


def test_a_turn_that_comes_when_its_waiter_gives_up_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would give it back otherwise, and no transaction would begin any more."""
    order = list[str]()

    class LateGate:
        """The gate of a thread that is served just after it has waited long enough."""

        def acquire(self, timeout: float | None = None) -> bool:
            """Close it, or wait for it in vain."""
            if timeout is not None:
                turns.release()
            return timeout is None

        def release(self) -> None:
            """Open it."""
            order.append("opened")

    turns = Turns()
    assert turns.acquire()
    monkeypatch.setattr(threading, "Lock", LateGate)
    assert turns.acquire(timeout=0)
    assert order == ["opened"]
    turns.release()
    assert not turns.locked()
