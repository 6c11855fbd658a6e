"""What the runtime remembers of sandboxes and containers between two lives of edgecore.

Each record has one writer: the configurations and `record.json` are edgecore's, `run.json` and `exit.json` are the
shepherd's (and edgecore's only for a container whose shepherd is gone).
"""

from typing import NewType

import msgspec

SandboxId = NewType("SandboxId", str)
ContainerId = NewType("ContainerId", str)
BootId = NewType("BootId", str)
"""Identifies one run of the machine, from /proc/sys/kernel/random/boot_id."""

UNKNOWN_EXIT_CODE = 255
"""Exit code of a container of which nobody saw the end, as containerd reports it."""


class SandboxRecord(msgspec.Struct, frozen=True):
    """A sandbox beside its configuration. `created_at`: nanoseconds since the epoch."""

    created_at: int
    ip: str
    boot_id: BootId
    stopped: bool = False


class ContainerRecord(msgspec.Struct, frozen=True):
    """A container beside its configuration. `created_at`: nanoseconds since the epoch."""

    created_at: int


class Run(msgspec.Struct, frozen=True):
    """Its command runs, or ran; see `shepherd.protocol.RunRecord`."""

    pid: int
    started_at: int


class Exit(msgspec.Struct, frozen=True):
    """It ended and nothing of it is left; see `shepherd.protocol.ExitRecord`."""

    exit_code: int
    finished_at: int
    reason: str
    message: str


def lost(now_ns: int, why: str) -> Exit:
    """The end of a container that nobody saw."""
    return Exit(exit_code=UNKNOWN_EXIT_CODE, finished_at=now_ns, reason="Unknown", message=why)
