"""systemd gets the limits that the kernel's files would get; its own programs are a double here."""

from collections.abc import Sequence

import pytest

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
