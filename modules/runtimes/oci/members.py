"""The processes of a container that has no control group: those whose root is the container's.

Where a container has a process namespace of its own, its end is the end of all of them. Where it shares one
(`shareProcessNamespace`, ephemeral containers), crun knows them by control groups alone, and ends none without.
"""

import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.files.descriptors import OwnedFd, open_process
from beehive.nesting import read_json

_PROC: Final = Path("/proc")
_ROOT: Final = b"/"
_MOST_ROUNDS: Final = 100
"""Looks for new processes while others are stopped, which make no new ones."""
_MOST_MOUNTS: Final = 1 << 20
"""Bytes of a list of mounts that are read: a privileged pod may make as many mounts as it likes."""


def kill_members(container: str) -> None:
    """Kill the processes whose root is the overlay of a container."""
    kill_processes(lambda: _members(container), lambda pid: _has_root(pid, container))


def shares_processes(state: Path) -> bool:
    """Return whether a container has a process namespace that is not its own; True if that cannot be read.

    Args:
        state: the OCI runtime's directory of the container, with its configuration; nothing is left without it.
    """
    try:
        namespaces = read_json((state / "config.json").read_bytes())["linux"]["namespaces"]
        return not any(each["type"] == "pid" and "path" not in each for each in namespaces)
    except (OSError, ValueError, KeyError, TypeError):
        return state.is_dir()


def kill_processes(find: Callable[[], Iterable[int]], is_meant: Callable[[int], bool]) -> None:
    """Kill processes that may start others meanwhile.

    Args:
        find: returns the process ids of those that are there.
        is_meant: whether the process that has such an id now is one of them.
    """
    stopped: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        found = {*find()} - stopped
        if not found:
            break
        for each in found:
            _send(each, signal.SIGSTOP, is_meant)
        stopped |= found
    for each in stopped:
        _send(each, signal.SIGKILL, is_meant)


def _send(pid: int, number: int, is_meant: Callable[[int], bool]) -> None:
    with suppress(ProcessLookupError), OwnedFd(open_process(pid)) as descriptor:
        if is_meant(pid):
            signal.pidfd_send_signal(descriptor, number)


def _members(container: str) -> list[int]:
    """Return the processes with the root of a container; of a mount namespace one is looked at."""
    known: dict[int, bool] = {}
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it has ended, or is somebody else's
                mounts = (entry / "ns/mnt").stat().st_ino
                if mounts not in known:
                    known[mounts] = _has_root(int(entry.name), container)
                if known[mounts]:
                    found.append(int(entry.name))
    return found


def _has_root(pid: int, container: str) -> bool:
    mark = f"/{container}/upper,".encode()
    with suppress(OSError), (_PROC / str(pid) / "mountinfo").open("rb") as lines:
        left = _MOST_MOUNTS
        while left > 0 and (line := lines.readline(left)):
            left -= len(line)
            if line.split(b" ", 5)[4:5] == [_ROOT]:
                return mark in line
    return False
