"""A thread whose number a file may have, because it was that of a process before."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue


@contextmanager
def numbered_thread() -> Iterator[int]:
    """Yield the number of a thread that waits meanwhile."""
    ended, numbers = threading.Event(), SimpleQueue[int]()

    def wait() -> None:
        numbers.put(threading.get_native_id())
        ended.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield numbers.get()
    finally:
        ended.set()
        thread.join()
