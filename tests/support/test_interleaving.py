"""The scheduler finds the textbook's races, and each order can be repeated."""

import queue
import select
import sys
import threading
from contextlib import suppress
from os import EFD_NONBLOCK, close, eventfd, eventfd_read, eventfd_write

import pytest

from tests.support.interleaving import DeadlockError, Interleaving, StalledError, explore

HERE = sys.modules[__name__]


class Counter:
    def __init__(self) -> None:
        self.value = 0
        self.lock = threading.Lock()

    def add(self) -> None:
        self.value = self.value + 1

    def add_locked(self) -> None:
        with self.lock:
            self.value = self.value + 1


def test_a_lost_update_is_found_and_a_lock_prevents_it() -> None:
    def scenario(threads: Interleaving, *, locked: bool) -> None:
        counter = Counter()
        add = counter.add_locked if locked else counter.add
        threads.run(add, add)
        assert counter.value == 2

    assert explore(lambda threads: scenario(threads, locked=True), HERE) > 50
    found = []
    for _ in range(2):
        with pytest.raises(AssertionError) as failed:
            explore(lambda threads: scenario(threads, locked=False), HERE)
        found.append(failed.value.__notes__)
    assert found[0] == found[1]
    assert "Counter.add:" in found[0][0]


def test_a_deadlock_is_found() -> None:
    def scenario(threads: Interleaving) -> None:
        one, other = threading.Lock(), threading.RLock()

        def forward() -> None:
            with one, other:
                pass

        def backward() -> None:
            with other, one:
                pass

        threads.run(forward, backward)

    with pytest.raises(DeadlockError, match="thread 1, thread 2"):
        explore(scenario, HERE)


class Bell:
    """A queue with an eventfd that is written once until it is read."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.items: list[int] = []
        self.rung = False

    def put(self, item: int) -> None:
        self.items.append(item)
        if not self.rung:
            self.rung = True
            eventfd_write(self.descriptor, 1)

    def take(self, *, silence_first: bool, timeout: float) -> list[int]:
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        poll.poll(timeout)
        if silence_first:
            self._silence()
        taken, self.items = self.items, []
        if not silence_first:
            self._silence()
        return taken

    def _silence(self) -> None:
        with suppress(BlockingIOError):
            eventfd_read(self.descriptor)
            self.rung = False


@pytest.mark.parametrize(("timeout", "error"), [(-1.0, DeadlockError), (10_000.0, StalledError)])
def test_a_missed_wake_up_is_found(timeout: float, error: type[Exception]) -> None:
    def scenario(threads: Interleaving, *, silence_first: bool) -> None:
        descriptor = eventfd(0, EFD_NONBLOCK)
        bell = Bell(descriptor)

        def consume() -> None:
            taken: list[int] = []
            while len(taken) < 2:
                taken += bell.take(silence_first=silence_first, timeout=timeout)

        def produce() -> None:
            bell.put(1)
            bell.put(2)

        try:
            threads.run(consume, produce)
        finally:
            close(descriptor)

    with pytest.raises(error):
        explore(lambda threads: scenario(threads, silence_first=False), HERE)


def test_conditions_events_queues_futures_and_timers_go_by_the_scenario() -> None:
    def scenario(threads: Interleaving) -> None:
        begun, said = threading.Event(), list[str]()
        items: queue.SimpleQueue[str] = queue.SimpleQueue()
        changed = threading.Condition()

        def consume() -> None:
            begun.set()
            said.append(items.get())
            with changed:
                changed.wait_for(lambda: len(said) == 2)
            said.append("end")

        def produce() -> None:
            begun.wait()
            items.put("item")
            other = threading.Thread(target=lambda: threads.clock.after(3600.0, tell))
            other.start()
            other.join()

        def tell() -> None:
            with changed:
                said.append("timer")
                changed.notify_all()

        threads.run(consume, produce)
        assert sorted(said[:2]) == ["item", "timer"]
        assert said[2] == "end"
        assert threads.seconds == 3600.0

    explore(scenario, HERE, single=100, stalls=True)
