"""Short turns at the interpreter's lock, while a thread computes for long."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_TURN: Final = 0.001
"""Seconds after which the thread lets another one go on, in place of Python's 5 ms: a node's request goes through seven
threads, and waits for each.
"""
_lock: Final = threading.Lock()


class _Before:
    """The interval of the interpreter outside all contexts, and how many there are."""

    interval = 0.0
    contexts = 0


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads take short turns in the context; several threads may have one."""
    with _lock:
        if not _Before.contexts:
            _Before.interval = sys.getswitchinterval()
            sys.setswitchinterval(_TURN)
        _Before.contexts += 1
    try:
        yield
    finally:
        with _lock:
            _Before.contexts -= 1
            if not _Before.contexts:
                sys.setswitchinterval(_Before.interval)
