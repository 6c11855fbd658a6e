"""Control groups made by systemd (`cgroupDriver: systemd`)."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from edged.cgroups.errors import CgroupError
from edged.cgroups.knobs import weight_of
from edged.cgroups.names import CgroupPath
from edged.cgroups.resource_config import UNLIMITED, ResourceConfig
from edged.cgroups.tree import CgroupTree

Run = Callable[[Sequence[str]], None]
"""Runs a program with its arguments; raises CgroupError when it fails."""

_SECONDS: Final = 30.0


def properties(limits: ResourceConfig, *, unified: bool) -> Iterator[str]:
    """Yield the limits as systemd's resource-control properties; v1's names if the hierarchy is v1."""
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
    """A `CgroupTree` of systemd's slices.

    systemd's next reload discards changes of its cgroups by others, so systemd itself makes, sets and removes the
    slices. kubelet uses D-Bus for this; here it is `systemctl`, which comes with systemd and needs no library. Limits
    without a property of systemd (huge pages) are written to the files, and remains of a slice in hierarchies unknown
    to systemd are removed there.

    Args:
        files: the same cgroups as files.
        unified: whether CPU and memory are in cgroup v2.
        run: calls systemctl.
    """

    def __init__(self, files: CgroupTree, *, unified: bool, run: Run | None = None) -> None:
        self._files = files
        self._unified = unified
        self._run = run or _run

    def make(self, path: CgroupPath) -> None:
        """See `CgroupTree`. systemd makes the slices above it too."""
        self._run(("systemctl", "start", _unit(path)))

    def set(self, path: CgroupPath, limits: ResourceConfig) -> None:
        """See `CgroupTree`."""
        if wanted := list(properties(limits, unified=self._unified)):
            self._run(("systemctl", "set-property", "--runtime", _unit(path), *wanted))
        if limits.huge_pages:
            self._files.make(path)  # systemd enables no controller of huge pages
            self._files.set(path, ResourceConfig(huge_pages=limits.huge_pages))

    def remove(self, path: CgroupPath) -> None:
        """See `CgroupTree`. Stopping a slice ends its processes; stopping a missing one succeeds."""
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
