"""How the process takes memory, and that it gives it back.

glibc's malloc gives up to eight arenas a core to the threads of a process. edgecore has forty threads, of which one
runs at a time because of Python's lock, so they gain nothing by it; but what each once needed for a list of all pods
stays with its arena: 3 MB of a full node after a minute in which nothing happens.

Texts of objects, tens of kilobytes each, leave holes among what lives longer: 300 configmaps of 30 kB that change all
the time left an agent with 150 MB that had begun with 63. So each larger piece is a mapping of its own, which goes with
it, and what is free otherwise is given back to the kernel after it has become more.
"""

import ctypes
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from beehive import Clock, Timer

_log = logging.getLogger(__name__)

_M_ARENA_MAX: Final = -8
_M_MMAP_THRESHOLD: Final = -3
"""Both from glibc's malloc.h."""

LARGE: Final = 16 * 1024
"""Bytes from which on a piece is mapped. A fixed figure: glibc raises its own to 32 MiB as it sees larger ones go."""

PERIOD: Final = 5.0
"""Seconds between two looks at how much there is."""

GROWN: Final = 2 * 1024 * 1024
"""Bytes by which it has to have become more since memory was last given back."""

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def set_up_malloc() -> bool:
    """Before the first thread is started. Whether the C library was told so; one that is not glibc has other ways."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
        told = bool(mallopt(_M_ARENA_MAX, 1)) and bool(mallopt(_M_MMAP_THRESHOLD, LARGE))
    except (OSError, AttributeError) as error:
        _log.debug("malloc takes no settings here: %s", error)
        return False
    return told


class GiveBack:
    """Gives free memory back to the kernel, now and then, when there has come more.

    Args:
        clock: for the looks, which are on its thread: they take microseconds, giving back some milliseconds.
        resident: bytes of resident memory; the process's own unless given.
        trim: gives back; the C library's way unless given.
    """

    def __init__(
        self, clock: Clock, resident: Callable[[], int] | None = None, trim: Callable[[], None] | None = None
    ) -> None:
        self._resident = resident or resident_bytes
        self._trim = trim or _malloc_trim
        self._least = self._resident()
        self._timer: Timer = clock.every(PERIOD, self._look)

    def close(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        now = self._resident()
        if now > self._least + GROWN:
            self._trim()
            now = self._resident()
        self._least = now


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the kernel does not say."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def _malloc_trim() -> None:
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError) as error:
        _log.debug("malloc gives nothing back here: %s", error)
