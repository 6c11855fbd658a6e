"""Crashes at a chosen file system step, wherever in the code it is taken.

Python announces each step that changes files to its audit hooks before it is taken; the hook here raises at
the n-th of this thread, which ends the code under test there as a kill would.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_STEPS = {"os.mkdir", "os.rename", "os.symlink", "os.remove", "os.rmdir", "os.chmod", "os.chown", "open"}


class Crash(BaseException):
    """The machine went down."""


class _Trap:
    def __init__(self) -> None:
        self.remaining: int | None = None
        self.thread = 0

    def __call__(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if self.remaining is None or event not in _STEPS or threading.get_ident() != self.thread:
            return
        self.remaining -= 1
        if self.remaining < 0:
            self.remaining = None
            raise Crash


_trap = _Trap()
_installed: list[_Trap] = []


@contextmanager
def crash_after(steps: int) -> Iterator[None]:
    """Let so many steps succeed within the block, and end it at the next with Crash."""
    if not _installed:
        sys.addaudithook(_trap)
        _installed.append(_trap)
    _trap.thread, _trap.remaining = threading.get_ident(), steps
    try:
        yield
    finally:
        _trap.remaining = None
