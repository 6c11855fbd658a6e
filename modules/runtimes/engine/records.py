"""The records of sandboxes and containers that survive edgecore.

Each record has one writer: the requests and `record.json` are edgecore's, `run.json` and `exit.json` are the shim's
(and edgecore's only for a container whose shim has ended).
"""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NewType

import msgspec

from beehive.node_namespaces import namespaces_id

SandboxId = NewType("SandboxId", str)
ContainerId = NewType("ContainerId", str)
BootId = NewType("BootId", str)
"""Identifies one boot of the machine, from /proc/sys/kernel/random/boot_id."""

UNKNOWN_EXIT_CODE = 255
"""Exit code of a container whose end was not observed, as containerd reports it."""


class PodAddresses(msgspec.Struct, frozen=True):
    """Addresses of a pod: the one for clients that know only one, and the others."""

    ip: str
    additional: tuple[str, ...] = ()


class SandboxRecord(msgspec.Struct, frozen=True):
    """The facts of a sandbox beside its configuration. `created_at`: nanoseconds since the epoch."""

    created_at: int
    ip: str
    boot_id: BootId
    stopped: bool = False
    additional_ips: tuple[str, ...] = ()


class ContainerRecord(msgspec.Struct, frozen=True):
    """The facts of a container at its creation, beside its configuration.

    `created_at` is in nanoseconds since the epoch. `image_id` and `image_ref` are kept because the image's name may
    refer to another image later. `stop_signal` is the number of the signal that asks the container to end.
    `image_volumes` has names and ids of the images that it mounts.
    """

    created_at: int
    image_id: str = ""
    image_ref: str = ""
    stop_signal: int = int(signal.SIGTERM)
    image_volumes: tuple[tuple[str, str], ...] = ()


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


def reference_of(image_id: str, repo_digests: Sequence[str] | None) -> str:
    """Return the reference of an image for clients: its first name with a digest, or its id without one."""
    return repo_digests[0] if repo_digests else image_id


def lost(now_ns: int, why: str) -> Exit:
    """Return the exit of a container whose end was not observed."""
    return Exit(exit_code=UNKNOWN_EXIT_CODE, finished_at=now_ns, reason="Unknown", message=why)


def current_boot_id() -> BootId:
    """Return the id of this boot of the machine, or of the node's namespaces, which end no later."""
    return BootId(namespaces_id() or Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())
