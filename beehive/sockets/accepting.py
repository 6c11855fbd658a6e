"""Accepts connections, also while the process may open no more files."""

import errno
import logging
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from beehive.files.descriptors import SHORTAGES

_log = logging.getLogger(__name__)

_FULL_SECONDS: Final = 1.0
_FREED_SECONDS: Final = 0.02
"""Seconds within which the thread of a connection that was ended closes its socket."""


def accept_connection(
    listening: socket.socket, wait: float = _FULL_SECONDS, make_room: Callable[[], bool] = lambda: False
) -> socket.socket | None:
    """Return the next connection, None when the socket was shut down or closed.

    While the process may open no more files, connections stay in the backlog; accepting is tried again after `wait`
    seconds, and immediately when the socket is shut down.

    Args:
        listening: the socket.
        wait: seconds.
        make_room: ends a connection that can be spared and returns True, after which accepting is tried again soon.
    """
    while True:
        try:
            return listening.accept()[0]
        except OSError as error:
            if error.errno in SHORTAGES:
                _log.warning("no connection can be accepted on %s: %s", listening.getsockname(), error.strerror)
                _wait_for_end(listening, min(wait, _FREED_SECONDS) if make_room() else wait)
            elif error.errno != errno.ECONNABORTED:
                return None


def _wait_for_end(listening: socket.socket, seconds: float) -> None:
    poll = select.poll()
    with suppress(OSError, ValueError):  # it was closed meanwhile
        poll.register(listening, 0)  # no events but the end, which is always reported
        poll.poll(seconds * 1000)
