"""How the process takes memory: from one pool instead of one for each thread.

glibc's malloc gives up to eight arenas a core to the threads of a process. edgecore has forty threads, of which one
runs at a time because of Python's lock, so they gain nothing by it; but what each once needed for a list of all pods
stays with its arena: 3 MB of a full node after a minute in which nothing happens.
"""

import ctypes
import logging
from typing import Final

_log = logging.getLogger(__name__)

_M_ARENA_MAX: Final = -8
"""From glibc's malloc.h."""


def use_one_arena() -> bool:
    """Before the first thread is started. Whether the C library was told so; one that is not glibc has other ways."""
    try:
        told = bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
    except (OSError, AttributeError) as error:
        _log.debug("malloc takes no settings here: %s", error)
        return False
    return told
