"""systemd gets the limits that the kernel's files would get; its own programs are a double here."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from edged.cgroups.errors import CgroupError
from edged.cgroups.names import CgroupPath
from edged.cgroups.resource_config import UNLIMITED, ResourceConfig
from edged.cgroups.systemd import SystemdSlices, properties
from edged.cgroups.tree import SilentTree

SLICE = CgroupPath("/kubepods.slice/kubepods-podx.slice")


@pytest.mark.parametrize(
    ("limits", "unified", "expected"),
    [
        (
            ResourceConfig(1024, 50_000, 100_000, 4096, 10),
            True,
            ["CPUWeight=39", "CPUQuota=50.00%", "CPUQuotaPeriodSec=100000us", "MemoryMax=4096", "TasksMax=10"],
        ),
        (ResourceConfig(1024, memory=4096), False, ["CPUShares=1024", "MemoryLimit=4096"]),
        (
            ResourceConfig(2, UNLIMITED, 100_000, UNLIMITED, UNLIMITED),
            True,
            ["CPUWeight=1", "CPUQuota=", "MemoryMax=infinity", "TasksMax=infinity"],
        ),
        (ResourceConfig(), True, []),
        (ResourceConfig(cpu_quota=50_000), True, []),
    ],
)
def test_limits_as_properties(limits: ResourceConfig, unified: bool, expected: list[str]) -> None:
    assert list(properties(limits, unified=unified)) == expected


def test_a_slice_is_started_set_stopped_and_its_settings_are_taken_back() -> None:
    """Programs get their arguments as a list; no shell is asked."""
    calls: list[Sequence[str]] = []
    slices = SystemdSlices(SilentTree(), unified=True, run=calls.append)
    slices.make(SLICE)
    slices.set(SLICE, ResourceConfig(memory=4096))
    slices.set(SLICE, ResourceConfig())
    slices.remove(SLICE)
    unit = "kubepods-podx.slice"
    assert calls == [
        ("systemctl", "start", unit),
        ("systemctl", "set-property", "--runtime", unit, "MemoryMax=4096"),
        ("systemctl", "stop", unit),
        ("systemctl", "revert", unit),
    ]


class Recorder(SilentTree):
    """The files of the slices."""

    def __init__(self, done: list[object]) -> None:
        self._done = done

    def make(self, path: CgroupPath) -> None:
        self._done.append(("make", path))

    def set(self, path: CgroupPath, limits: ResourceConfig) -> None:
        self._done.append((path, limits))

    def remove(self, path: CgroupPath) -> None:
        self._done.append(("remove", path))


def test_huge_pages_are_limited_in_the_files_once_their_controller_is_there() -> None:
    """systemd has no property for them, and enables no controller without one: the file would be missing."""
    done: list[object] = []
    slices = SystemdSlices(Recorder(done), unified=True, run=done.append)
    slices.set(SLICE, ResourceConfig(memory=4096, huge_pages={"2MB": 4096}))
    assert done[1:] == [("make", SLICE), (SLICE, ResourceConfig(huge_pages={"2MB": 4096}))]


def test_a_slice_is_removed_in_the_hierarchies_that_systemd_does_not_know_too() -> None:
    done: list[object] = []
    SystemdSlices(Recorder(done), unified=False, run=done.append).remove(SLICE)
    assert done[-1] == ("remove", SLICE)


def test_systemctl_that_fails_cannot_be_started_or_hangs_is_an_error_to_retry(tmp_path: Path) -> None:
    """With what it has said."""
    systemctl = tmp_path / "systemctl"
    slices = SystemdSlices(SilentTree(), unified=True)
    with patch.dict("os.environ", {"PATH": str(tmp_path)}):
        with pytest.raises(CgroupError, match="No such file") as missing:
            slices.make(SLICE)
        systemctl.write_text("#!/bin/sh\nprintf '%09999d' 0 >&2\nexit 4\n")
        systemctl.chmod(0o755)
        with pytest.raises(CgroupError) as long:
            slices.make(SLICE)
        assert len(str(long.value)) < 1000
        systemctl.write_text("#!/bin/sh\necho the bus is away >&2\nexit 4\n")
        systemctl.chmod(0o755)
        with pytest.raises(CgroupError, match="the bus is away") as failed:
            slices.make(SLICE)
    with (
        patch("subprocess.run", side_effect=subprocess.TimeoutExpired("systemctl", 30)) as run,
        pytest.raises(CgroupError, match="timed out") as late,
    ):
        slices.make(SLICE)
    assert run.call_args.kwargs["timeout"] == 30
    assert missing.value.retryable and failed.value.retryable and late.value.retryable
