"""Limits the memory that the process holds without using it.

glibc's malloc gives the threads of a process up to eight arenas for each core. edgecore has forty threads and
cloudcore thirty, and Python's lock lets one run at a time, so arenas gain nothing; but memory that a thread once
needed for a list of all pods stays in its arena: 3 MB of a full node after a minute of rest.

Texts of objects, tens of kilobytes each, leave holes between blocks that live longer: 300 configmaps of 30 kB that kept
changing brought an agent from 63 MB to 150 MB. So larger blocks become mappings of their own, which disappear when they
are freed, and other free memory is given back to the kernel when the process has grown.
"""

import ctypes
import gc
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from beehive import Clock, Timer

_log = logging.getLogger(__name__)

_M_ARENA_MAX: Final = -8
_M_MMAP_THRESHOLD: Final = -3
"""As `_M_ARENA_MAX` from glibc's malloc.h."""

LARGE: Final = 16 * 1024
"""Bytes above which a block is mapped. Fixed, because glibc would raise its own threshold up to 32 MiB."""

PERIOD: Final = 5.0
"""Seconds between two checks."""

GROWN: Final = 2 * 1024 * 1024
"""Growth in bytes since the last trim that leads to the next one."""

LOOKS: Final = 24
"""Checks after which memory is given back in any case, two minutes. What was in use at the last trim may be free now
without any growth: a burst of pods is trimmed while it runs, and deleted later.
"""

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def set_up_malloc() -> bool:
    """Set glibc's malloc up; call it before the first thread starts. False for another C library."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
        told = bool(mallopt(_M_ARENA_MAX, 1)) and bool(mallopt(_M_MMAP_THRESHOLD, LARGE))
    except (OSError, AttributeError) as error:
        _log.debug("malloc takes no settings here: %s", error)
        return False
    return told


class MemoryTrimmer:
    """A trimmer that gives free memory back to the kernel when the process has grown since the last time, and every two
    minutes.

    Args:
        clock: clock whose thread runs the checks: a check takes microseconds, a trim some milliseconds.
        resident: returns the resident memory in bytes; the process's own by default.
        trim: gives memory back; the C library's `malloc_trim` by default.
    """

    def __init__(
        self, clock: Clock, resident: Callable[[], int] | None = None, trim: Callable[[], None] | None = None
    ) -> None:
        self._resident = resident or resident_bytes
        self._trim = trim or malloc_trim
        self._least = self._resident()
        self._looks = 0
        """Checks since the last trim."""
        self._timer: Timer = clock.every(PERIOD, self._check)

    def close(self) -> None:
        """Stop the checks."""
        self._timer.cancel()

    def _check(self) -> None:
        now = self._resident()
        self._looks += 1
        if now > self._least + GROWN or self._looks >= LOOKS:
            self._trim()
            self._looks = 0
            self._least = self._resident()
        else:
            self._least = min(self._least, now)


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes; 0 if the kernel does not tell."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def collect_and_trim() -> None:
    """Collect garbage, and give free memory back to the kernel.

    For a process whose collector leaves out what its start made (`start_collector.collect_as_usual`): it takes
    milliseconds there, and 0.6 s in a cloudcore with 5,000 nodes. Each actor that has ended, such as the worker of a
    pod that has gone, leaves a class and 45 other objects that only the collector finds.
    """
    gc.collect()
    malloc_trim()


def malloc_trim() -> None:
    """Give free memory of the C library back to the kernel."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError) as error:
        _log.debug("malloc gives nothing back here: %s", error)
