"""Locks, queues, threads and poll(2) that belong to a scenario; outside of one they are the machine's."""

import queue
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tests.support.interleaving.scheduling import ScheduledThread, current_thread, real_lock

_real_poll: Final = select.poll
_FOREVER: Final = -1


class Lock:
    """`threading.Lock`."""

    def __init__(self) -> None:
        self._lock = real_lock()

    def acquire(self, blocking: bool = True, timeout: float = _FOREVER) -> bool:
        """Take the lock."""
        thread = current_thread()
        if thread is None:
            return self._lock.acquire(blocking, timeout)
        thread.interleaving.step("a lock")
        if blocking and self._lock.locked():
            seconds = None if timeout == _FOREVER else timeout
            thread.interleaving.wait_until(lambda: not self._lock.locked(), seconds)
        return self._lock.acquire(blocking=False)

    def release(self) -> None:
        """Give it back."""
        self._lock.release()
        thread = current_thread()
        if thread is not None:
            thread.interleaving.step("the end of a lock")

    def locked(self) -> bool:
        """Whether it is taken."""
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock:
    """`threading.RLock`, with what `threading.Condition` asks of it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: int | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = _FOREVER) -> bool:
        """Take the lock again."""
        if self._owner != threading.get_ident():
            if not self._lock.acquire(blocking, timeout):
                return False
            self._owner = threading.get_ident()
        self._count += 1
        return True

    def release(self) -> None:
        """Give it back once."""
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _release_save(self) -> int:
        count, self._count, self._owner = self._count, 0, None
        self._lock.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self._lock.acquire()
        self._count, self._owner = count, threading.get_ident()

    def _is_owned(self) -> bool:
        return self._owner == threading.get_ident()


class SimpleQueue:
    """`queue.SimpleQueue`."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Append an item."""
        thread = current_thread()
        if thread is not None:
            thread.interleaving.step("a put")
        self._items.append(item)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Remove and return the first item."""
        thread = current_thread()
        if thread is not None and block:
            thread.interleaving.step("a get")
            thread.interleaving.wait_until(lambda: self._items, timeout)
        if not self._items:
            raise queue.Empty
        return self._items.popleft()

    def qsize(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def empty(self) -> bool:
        """Return whether it is empty."""
        return not self._items

    put_nowait = put

    def get_nowait(self) -> Any:
        """Remove and return the first item."""
        return self.get(block=False)


class Thread(threading.Thread):
    """`threading.Thread`; a scenario's threads start threads of the scenario."""

    _scheduled: ScheduledThread | None = None

    def start(self) -> None:
        """Begin."""
        thread = current_thread()
        if thread is None:
            super().start()
        else:
            self._scheduled = thread.interleaving.spawn(self.run, self.name)
            thread.interleaving.step("the start of a thread")

    def is_alive(self) -> bool:
        """Whether it has begun and not ended."""
        return super().is_alive() if self._scheduled is None else not self._scheduled.finished

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        scheduled = self._scheduled
        if scheduled is None:
            super().join(timeout)
        else:
            scheduled.interleaving.wait_until(lambda: scheduled.finished, timeout)


class Poll:
    """`select.poll`."""

    def __init__(self) -> None:
        self._poll = _real_poll()
        self.register = self._poll.register
        self.modify = self._poll.modify
        self.unregister = self._poll.unregister

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """Wait for a descriptor."""
        thread = current_thread()
        if thread is None:
            return self._poll.poll(timeout)
        seconds = None if timeout is None or timeout < 0 else timeout / 1000
        thread.interleaving.wait_until(lambda: self._poll.poll(0), seconds)
        return self._poll.poll(0)


def monotonic() -> float:
    """Return the seconds of the scenario, outside of one the machine's."""
    thread = current_thread()
    return time.monotonic() if thread is None else thread.interleaving.seconds


REPLACED: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    threading.Lock: Lock,
    threading.RLock: RLock,
    threading.Thread: Thread,
    queue.SimpleQueue: SimpleQueue,
    select.poll: Poll,
    time.monotonic: monotonic,
}
"""What a scenario has in the place of the machine's."""
