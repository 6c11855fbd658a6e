"""The action Check: whether processors, memory and disks have room (KubeEdge's limits)."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

SAMPLE_SECONDS: Final = 0.1
"""Time over which the processors' use is measured."""
MOST_USED: Final = 0.8
"""Share of processors, memory or a disk above which a check fails."""


class MachineReading(msgspec.Struct, frozen=True):
    """Used parts of a machine, at one time."""

    at: float
    """Monotonic seconds."""
    busy: float
    """Seconds of all processors together that were not idle."""
    processors: int
    memory: float
    """Used share."""
    disks: Mapping[str, float]
    """Used share of the file systems, by a directory in each."""


class CheckedMachine(Protocol):
    """The machine of the node."""

    def read(self) -> MachineReading:
        """Return the present usage."""


def fault_of(items: Sequence[str], before: MachineReading, after: MachineReading) -> str:
    """Return why a check fails; empty if it does not.

    Args:
        items: of the job: cpu, mem, disk.
        before, after: the machine, `SAMPLE_SECONDS` apart.
    """
    seconds = max(after.at - before.at, 1e-6) * max(after.processors, 1)
    used = {
        "cpu": {"the processors": (after.busy - before.busy) / seconds},
        "mem": {"the memory": after.memory},
        "disk": {f"the file system of {directory}": share for directory, share in after.disks.items()},
    }
    for item in items:
        if item not in used:
            return f"unknown check item {item[:50]!r}: cpu, mem and disk are known"
        for name, share in used[item].items():
            if share > MOST_USED:
                return f"{share:.0%} of {name} are used, and {MOST_USED:.0%} are the most"
    return ""
