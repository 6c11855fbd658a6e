"""Starts a container that crun has created, without crun.

crun's first process of a container waits for a byte from the FIFO `exec.fifo` in crun's directory of the container.
`crun start` does no more than write it, unless the container has hooks for its start; but for that it loads ten
libraries and reads its state. The FIFO of runc works the other way round: nobody reads it, and runc is called.

The FIFO is renamed first: from then on crun takes the container for a running one. An edgecore that is killed between
that and the byte leaves a FIFO with the new name. The next edgecore must not write the byte, although the first process
still waits: without a writer that process calls `select` and `read` again and again, and a writer that comes between
the two makes `read` fail (EAGAIN), with which the process ends.
"""

import errno
import fcntl
import os
import struct
import termios
from contextlib import suppress
from pathlib import Path
from typing import Final

_WAITING: Final = "exec.fifo"
_BEGUN: Final = "exec.fifo.begun"


def start_waiting(state: Path) -> bool:
    """Start a created container; return False if its first process does not wait in this way. Raises OSError.

    Args:
        state: the OCI runtime's directory of the container.
    """
    try:
        waiting = os.open(state / _WAITING, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    try:
        (state / _WAITING).rename(state / _BEGUN)
        _release(waiting)
        (state / _BEGUN).unlink()
    finally:
        os.close(waiting)
    return True


def waits_for_start(state: Path) -> bool:
    """Return whether nobody has begun to start a container, by the FIFO; its first process may have ended."""
    return (state / _WAITING).exists()


def settle_start(state: Path) -> bool:
    """Return whether the first process waits for a byte that a killed edgecore was about to write.

    If not, it has started or ended, and the renamed FIFO is removed; there may be none.
    """
    try:
        waiting = os.open(state / _BEGUN, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ENXIO:
            return False
    else:
        try:
            if not _has_unread(waiting):
                return True
        finally:
            os.close(waiting)
    with suppress(OSError):  # the container's removal removes it, too
        (state / _BEGUN).unlink()
    return False


def _has_unread(fifo: int) -> bool:
    (unread,) = struct.unpack("i", fcntl.ioctl(fifo, termios.FIONREAD, struct.pack("i", 0)))
    return bool(unread)


def _release(waiting: int) -> None:
    os.write(waiting, b"\0")
