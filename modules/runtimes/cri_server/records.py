"""The records of sandboxes and containers that survive edgecore.

Each record has one writer: the requests and `record.json` are edgecore's, `run.json` and `exit.json` are the shim's
(and edgecore's only for a container whose shim is gone).
"""

from pathlib import Path
from typing import NewType

import msgspec

SandboxId = NewType("SandboxId", str)
ContainerId = NewType("ContainerId", str)
BootId = NewType("BootId", str)
"""Identifies one boot of the machine, from /proc/sys/kernel/random/boot_id."""

UNKNOWN_EXIT_CODE = 255
"""Exit code of a container whose end was not observed, as containerd reports it."""


class SandboxRecord(msgspec.Struct, frozen=True):
    """The facts of a sandbox beside its configuration. `created_at`: nanoseconds since the epoch."""

    created_at: int
    ip: str
    boot_id: BootId
    stopped: bool = False
    additional_ips: tuple[str, ...] = ()


class ContainerRecord(msgspec.Struct, frozen=True):
    """The facts of a container beside its configuration. `created_at`: nanoseconds since the epoch."""

    created_at: int


class Run(msgspec.Struct, frozen=True):
    """The command was started; see `shim.protocol.RunRecord`."""

    pid: int
    started_at: int


class Exit(msgspec.Struct, frozen=True):
    """The container ended with all its processes; see `shim.protocol.ExitRecord`."""

    exit_code: int
    finished_at: int
    reason: str
    message: str


def lost(now_ns: int, why: str) -> Exit:
    """Return the exit of a container whose end was not observed."""
    return Exit(exit_code=UNKNOWN_EXIT_CODE, finished_at=now_ns, reason="Unknown", message=why)


def current_boot_id() -> BootId:
    """Return the id of this boot of the machine."""
    return BootId(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())
