"""Prepares the kernel for a process that is about to be moved to another control group.

Before such a move the kernel waits until all processors know that forks and exits must take a lock from now on: 10 ms
and more (a grace period of RCU, for `cgroup_threadgroup_rwsem`; the mount option `favordynmods` of control groups saves
it, at the cost of all forks). A move soon after another waits for nothing. conmon and crun load their libraries, make
processes, and then wait; so meanwhile this process moves a thread of its own to its present group.
"""

import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

_log = logging.getLogger(__name__)

_GROUPS: Final = Path("/proc/self/cgroup")
_MOUNTS: Final = Path("/sys/fs/cgroup")
_ALONE: Final = "pids"
"""A hierarchy of version 1 that is never mounted together with another."""


class _Members(msgspec.Struct, frozen=True):
    """The file of a control group for numbers: of a thread (version 1), or of a process."""

    path: str
    takes_threads: bool

    @property
    def own_number(self) -> int:
        return threading.get_native_id() if self.takes_threads else os.getpid()


class GroupMoves:
    """A thread that lets the kernel wait in advance.

    Args:
        groups: the control groups of this process, as /proc shows them.
        mounts: where the hierarchies are mounted.
    """

    def __init__(self, groups: Path = _GROUPS, mounts: Path = _MOUNTS) -> None:
        self._groups = groups
        self._mounts = mounts
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="oci-group-moves")
        self._last: Future[None] | None = None
        self._is_usable = self._is_member()

    def expect(self) -> None:
        """Begin to wait, and return immediately; nothing where this process does not find its control group."""
        if self._is_usable and (self._last is None or self._last.done()):
            with suppress(RuntimeError):  # closed meanwhile, or there can be no more threads
                self._last = self._thread.submit(self._move)

    def close(self) -> None:
        """End the thread."""
        self._is_usable = False
        self._thread.shutdown()

    def _is_member(self) -> bool:
        """Return whether the group that is found is this process' own: in a container paths may be another's."""
        try:
            members = self._members()
            return str(members.own_number) in Path(members.path).read_text().split()
        except OSError:
            return False

    def _move(self) -> None:
        try:
            members = self._members()
            with open(members.path, "wb", 0) as file:  # noqa: PTH123 - a string: this is done for each container
                file.write(b"%d" % members.own_number)
        except OSError as error:
            self._is_usable = False
            _log.info("containers and commands in them start some 10 ms later: %s", error)

    def _members(self) -> _Members:
        """Return the file of this process's group. Raises OSError."""
        path = ""
        for line in self._groups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == _ALONE:
                return _Members(f"{self._mounts}/{_ALONE}/{path.lstrip('/')}/tasks", takes_threads=True)
        return _Members(f"{self._mounts}/{path.lstrip('/')}/cgroup.procs", takes_threads=False)
