"""System calls that Python 3.11 lacks."""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)

_NEW_NETWORK = 0x4000_0000
_NEW_IPC = 0x0800_0000
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


def _check(result: int, subject: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), subject)


def sync_file_system(descriptor: int) -> None:
    """Put everything that was written to a descriptor's file system on the disk (syncfs)."""
    _check(_libc.syncfs(descriptor), "syncfs")


def leave_network() -> None:
    """Give the calling process a network of its own, without any interface."""
    _check(_libc.unshare(_NEW_NETWORK | _NEW_IPC), "namespaces")


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send this signal to the calling process when the parent's thread that made it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "parent death signal")


def forbid_new_privileges() -> None:
    """Make set-user-id programs run without their privilege."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
