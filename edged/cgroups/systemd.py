"""Control groups on a machine whose cgroups belong to systemd (`cgroupDriver: systemd`).

Who writes there behind systemd's back loses what he wrote at its next reload, so slices are made, set and ended by
systemd itself. A kubelet speaks to it over D-Bus; here it is `systemctl`, which is there wherever systemd is and needs
no library. What systemd has no property for (huge pages) is written to the files, and what is left after a slice's end
in hierarchies that systemd does not know is removed there.
"""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from edged.cgroups.errors import CgroupError
from edged.cgroups.knobs import weight_of
from edged.cgroups.limits import UNLIMITED, Limits
from edged.cgroups.names import CgroupPath
from edged.cgroups.tree import Tree

Run = Callable[[Sequence[str]], None]
"""Runs a program with its arguments; raises CgroupError when it fails."""

_SECONDS: Final = 30.0


def properties(limits: Limits, *, unified: bool) -> Iterator[str]:
    """The limits as systemd's resource-control properties; v1's names where the hierarchy is v1."""
    if limits.cpu_shares is not None:
        yield f"CPUWeight={weight_of(limits.cpu_shares)}" if unified else f"CPUShares={limits.cpu_shares}"
    if limits.cpu_quota == UNLIMITED:
        yield "CPUQuota="
    elif limits.cpu_quota is not None and limits.cpu_period:
        yield f"CPUQuota={100 * limits.cpu_quota / limits.cpu_period:.2f}%"
        yield f"CPUQuotaPeriodSec={limits.cpu_period}us"
    if limits.memory is not None:
        yield f"{'MemoryMax' if unified else 'MemoryLimit'}={_or_infinity(limits.memory)}"
    if limits.pids is not None:
        yield f"TasksMax={_or_infinity(limits.pids)}"


class SystemdSlices:
    """See the module's docstring; `Tree` says what its methods do.

    Args:
        files: the same cgroups as files.
        unified: whether processors and memory are in cgroup v2.
        run: calls systemctl.
    """

    def __init__(self, files: Tree, *, unified: bool, run: Run | None = None) -> None:
        self._files = files
        self._unified = unified
        self._run = run or _run

    def make(self, path: CgroupPath) -> None:
        """See `Tree`. systemd makes the slices above it too."""
        self._run(("systemctl", "start", _unit(path)))

    def set(self, path: CgroupPath, limits: Limits) -> None:
        """See `Tree`."""
        if wanted := list(properties(limits, unified=self._unified)):
            self._run(("systemctl", "set-property", "--runtime", _unit(path), *wanted))
        if limits.huge_pages:
            self._files.set(path, Limits(huge_pages=limits.huge_pages))

    def remove(self, path: CgroupPath) -> None:
        """See `Tree`. Stopping a slice ends what is in it; one that never was is stopped without complaint."""
        self._run(("systemctl", "stop", _unit(path)))
        self._run(("systemctl", "revert", _unit(path)))
        self._files.remove(path)


def _unit(path: CgroupPath) -> str:
    return path.rsplit("/", 1)[-1]


def _or_infinity(number: int) -> str:
    return "infinity" if number == UNLIMITED else str(number)


def _run(command: Sequence[str]) -> None:
    what = f"cannot {command[1]} the slice", " ".join(command[2:])
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CgroupError(*what, str(error), retryable=True) from error
    if done.returncode:
        hint = done.stderr[-500:].decode(errors="replace").strip()
        raise CgroupError(*what, hint or f"systemctl ended with {done.returncode}", retryable=True)
