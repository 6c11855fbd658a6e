"""The first process of a container: signals that cannot reach another process, and signals that are not lost."""

import contextlib
import os
import re
import signal
import threading
from pathlib import Path
from typing import Final, Self

from beehive.files.descriptors import OwnedFd, open_process
from beehive.patterns import pattern
from modules.runtimes.shim.out_of_memory import ran_out_of_memory
from modules.runtimes.shim.procfs import read_stat

_UNCATCHABLE: Final = (signal.SIGKILL, signal.SIGSTOP)
_STATUS: Final = pattern(rb"\nNSpid:[^\n]*?(\d+)\n(?:.*\n)?SigBlk:\t(\w+)\nSigIgn:\t(\w+)\nSigCgt:\t(\w+)\n", re.DOTALL)
"""Of /proc/PID/status: the innermost process id, and masks of signals: a blocked signal waits for the process, an
ignored or caught one was decided on. The first line has the program's name, without newlines.
"""
_USUAL_STATUS: Final = 4 * 1024
"""Bytes of it. A larger buffer is mapped for each look."""
_LONGEST_STATUS: Final = 64 * 1024
"""Bytes read of it: a process may be in thousands of groups."""
_FIRST_LOOK_SECONDS: Final = 0.002
_GROWTH: Final = 4
_LEAST_LOOKS: Final = 8
"""Looks within a grace period that are evenly spread: programs without a handler, as most shells, get all of them."""
_LONGEST_LOOK_SECONDS: Final = 1.0


class FirstProcess:
    """The first process of a running container, held by a descriptor so that a signal cannot reach another process."""

    def __init__(self, pid: int, pidfd: int, groups: str) -> None:
        self._groups = groups
        self._directory = f"/proc/{pid}"
        self._pidfd = pidfd
        self._lock = threading.Lock()
        self._starter: tuple[int, int] | None = None

    @classmethod
    def of(cls, pid: int, container_id: str, parent: int | None) -> Self | None:
        """Return the first process of a container; None if it has ended, also when its id belongs to another by now.

        Args:
            pid: its id.
            container_id: of the container, whose control group it is in, if it has one.
            parent: process id of the container's conmon.
        """
        try:
            pidfd = open_process(pid)
        except ProcessLookupError:
            return None
        with contextlib.ExitStack() as unless_it_is:
            unless_it_is.callback(os.close, pidfd)
            try:
                groups = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
            except OSError:
                groups = ""
            status = read_stat(pid)
            if container_id in groups or (status is not None and status.parent == parent):
                unless_it_is.pop_all()
                return cls(pid, pidfd, groups)
        return None

    def waits_for_start(self) -> None:
        """Note that it executes the OCI runtime still, and the container's program after the start."""
        self._starter = self._program()

    def send(self, number: int) -> None:
        """Send a signal; nothing happens when the process has ended."""
        with self._lock:
            if self._pidfd >= 0:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, number)

    def await_notice(self, number: int, ended: threading.Event, seconds: float) -> None:
        """Wait until the process would notice a signal; at most `seconds`, or until it has ended.

        The kernel drops a signal to the first process of a process namespace that has no handler for it
        (pid_namespaces(7)), and a signal to the OCI runtime never reaches the program that it executes later. A program
        that was just started has no handler yet; a program without handlers does not miss the signal.
        """
        if number in _UNCATCHABLE:
            return
        try:
            status = os.open(f"{self._directory}/status", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # it has ended
        with OwnedFd(status):
            look, left = _FIRST_LOOK_SECONDS, seconds
            longest = min(seconds / _LEAST_LOOKS, _LONGEST_LOOK_SECONDS)
            while not self._would_notice(status, number) and left > 0 and not ended.wait(min(look, left)):
                left -= look
                look = min(look * _GROWTH, longest)

    def ran_out_of_memory(self) -> bool:
        """Return whether the kernel has killed a process of the container for its limit of memory. It may have ended,
        but not be deleted.
        """
        return ran_out_of_memory(self._groups)

    def close(self) -> None:
        """Forget the process."""
        with self._lock:
            if self._pidfd >= 0:
                os.close(self._pidfd)
                self._pidfd = -1

    def _would_notice(self, status: int, number: int) -> bool:
        if self._starter is not None:
            if self._program() == self._starter:
                return False
            self._starter = None
        try:
            text = os.pread(status, _USUAL_STATUS, 0)
            if len(text) == _USUAL_STATUS:
                text = os.pread(status, _LONGEST_STATUS, 0)
            return notices(text, number)
        except OSError:
            return True  # it has ended

    def _program(self) -> tuple[int, int] | None:
        """Return the identity of the program that the process executes; None if it has ended."""
        try:
            program = os.stat(f"{self._directory}/exe")  # noqa: PTH116 - called for each look
        except OSError:
            return None
        return program.st_dev, program.st_ino


def notices(status: bytes, number: int) -> bool:
    """Return whether a process would notice a signal, or has ended.

    Args:
        status: its /proc/PID/status.
        number: of the signal.
    """
    found = _STATUS.search(status)
    if found is None or found[1] != b"1":
        return True  # the signal's default action ends it
    masks = int(found[2], 16) | int(found[3], 16) | int(found[4], 16)
    return bool(masks & 1 << (number - 1))
