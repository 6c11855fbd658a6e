"""Mounts that can never be made, found before anything is."""

import os
from enum import Flag, auto
from pathlib import Path
from typing import Final

from beehive.patterns import pattern
from modules.runtimes.engine.errors import BadRequestError, NotProvidedError, WrongStateError
from modules.runtimes.oci.spec.machine import Machine
from modules.runtimes.oci.spec.paths import checked_path
from protos.cri.v1 import api_pb2 as cri

_MOUNT_OPTIONS: Final = frozenset(("nodev", "noexec", "nosuid", "noatime", "nodiratime", "relatime"))
"""Options of CRI's `mount_options` that a bind mount takes."""
RECURSIVE_READ_ONLY: Final = (5, 12)
"""The kernel that brought mount_setattr."""
_MOST: Final = 4096
"""Mounts of a container: crun needs 0.1 ms for each."""

_ESCAPED: Final = pattern(r"\\([0-7]{3})")


def check_mounts(attempt: str, config: cri.ContainerConfig, machine: Machine) -> None:
    """Refuse mounts that are wrong (BadRequestError), or that this machine cannot make (WrongStateError)."""
    if len(config.mounts) > _MOST:
        raise BadRequestError(attempt, f"it has {len(config.mounts)} mounts, the most are {_MOST}")
    for mount in config.mounts:
        if checked_path(attempt, mount.container_path, "the mount path") == "/":
            raise BadRequestError(attempt, 'a mount at "/" would hide the image')
        if mount.HasField("image") and mount.image.image:
            _check_image(attempt, mount)
        else:
            checked_path(attempt, mount.host_path, "the host path")
        _check_options(attempt, mount, machine)
        _check_mappings(attempt, mount, config.linux.security_context.namespace_options.userns_options)
    _check_propagation(attempt, config, machine)


def _check_image(attempt: str, mount: cri.Mount) -> None:
    if mount.host_path:
        raise BadRequestError(attempt, f'the mount of image "{mount.image.image[:200]}" has a host path too')
    if not mount.readonly:
        raise BadRequestError(attempt, f'the image volume "{mount.image.image[:200]}" must be read-only')
    if mount.image_sub_path:
        if mount.image_sub_path.startswith("/"):
            raise BadRequestError(attempt, f'the path in the image "{mount.image_sub_path[:200]}" is not relative')
        checked_path(attempt, f"/{mount.image_sub_path}", "the path in the image")


def _check_options(attempt: str, mount: cri.Mount, machine: Machine) -> None:
    where = f'the mount at "{mount.container_path[:200]}"'
    if mount.propagation not in cri.MountPropagation.values():
        raise BadRequestError(attempt, f"{where} has the unknown propagation {mount.propagation}")
    if wrong := next((option for option in mount.mount_options if option not in _MOUNT_OPTIONS), None):
        raise NotProvidedError(attempt, f"{where} has the option {wrong[:60]!r}", f"known: {sorted(_MOUNT_OPTIONS)}")
    if not mount.recursive_read_only:
        return
    if not mount.readonly:
        raise BadRequestError(attempt, f"{where} is recursively read-only and writable")
    if mount.propagation != cri.PROPAGATION_PRIVATE:
        raise BadRequestError(attempt, f"{where} is recursively read-only, so its propagation must be private")
    if machine.kernel < RECURSIVE_READ_ONLY:
        raise WrongStateError(attempt, f"{where} is recursively read-only, which needs Linux 5.12")


def _check_mappings(attempt: str, mount: cri.Mount, users: cri.UserNamespace) -> None:
    """Check that owners of a volume are mapped as the users of the pod are, or not at all."""
    if not (mount.uidMappings or mount.gidMappings):
        return
    if (
        users.mode != cri.POD
        or list(mount.uidMappings) != list(users.uids)
        or list(mount.gidMappings) != list(users.gids)
    ):
        where = f'the mount at "{mount.container_path[:200]}"'
        raise NotProvidedError(attempt, f"{where} has id mappings that are not those of the pod's user namespace")


class Propagation(Flag):
    """The optional fields of a mount (proc(5), mountinfo): neither is private."""

    PRIVATE = 0
    SHARED = auto()
    SLAVE = auto()


class MountTable:
    """The mounts of the machine, from a text like /proc/self/mountinfo."""

    def __init__(self, mountinfo: str) -> None:
        self._mounts: dict[str, Propagation] = {}
        for line in mountinfo.split("\n"):
            before, _, _ = line.partition(" - ")
            fields = before.split(" ")
            if len(fields) >= 6:
                self._mounts[_ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4])] = _propagation(fields[6:])

    @classmethod
    def read(cls, path: Path) -> "MountTable":
        """Read the table now. Raises OSError."""
        return cls(path.read_bytes().decode(errors="surrogateescape"))

    def mount_of(self, path: str) -> tuple[str, Propagation]:
        """Return the mount point of an absolute path without links, and how it propagates."""
        while path not in self._mounts and path != "/":
            path = os.path.dirname(path)  # noqa: PTH120 - thousands of components, and no object for each
        return path, self._mounts.get(path, Propagation.PRIVATE)


def _propagation(optional_fields: list[str]) -> Propagation:
    kinds = Propagation.PRIVATE
    for field in optional_fields:
        if field.startswith("shared:"):
            kinds |= Propagation.SHARED
        if field.startswith("master:"):
            kinds |= Propagation.SLAVE
    return kinds


def _check_propagation(attempt: str, config: cri.ContainerConfig, machine: Machine) -> None:
    asked = [mount for mount in config.mounts if mount.propagation != cri.PROPAGATION_PRIVATE and mount.host_path]
    if not asked:
        return
    table = MountTable.read(machine.mountinfo)
    for mount in asked:
        path = os.path.realpath(checked_path(attempt, mount.host_path, "the host path"))
        point, kinds = table.mount_of(path)
        if mount.propagation == cri.PROPAGATION_BIDIRECTIONAL and not kinds & Propagation.SHARED:
            reason = f'path "{path[:200]}" is mounted on "{point[:200]}" but it is not a shared mount'
            raise WrongStateError(attempt, reason, "mount --make-rshared /, or leave mountPropagation out")
        if not kinds:
            reason = f'path "{path[:200]}" is mounted on "{point[:200]}" but it is not a shared or slave mount'
            raise WrongStateError(attempt, reason, "mount --make-rshared /, or leave mountPropagation out")
