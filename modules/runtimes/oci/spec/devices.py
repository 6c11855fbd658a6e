"""Devices of a container: the devices that CRI lists, or all devices of the machine for a privileged container."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.spec.machine import Machine
from modules.runtimes.oci.spec.model import Json
from modules.runtimes.oci.spec.paths import checked_path
from protos.cri.v1 import api_pb2 as cri

_MOST: Final = 4096
"""Devices of a container, and names looked at in a directory of them."""
_DEV: Final = "/dev"
_OWN: Final = frozenset(("console", "fd", "mqueue", "pts", "shm", ".lxc", ".lxd-mounts", ".udev"))
"""Names in /dev that belong to a container, not to the machine."""


def check_devices(attempt: str, config: cri.ContainerConfig) -> None:
    """Refuse devices that do not exist, are other files, or have wrong permissions. Raises BadRequestError."""
    if len(config.devices) > _MOST:
        raise BadRequestError(attempt, f"it has {len(config.devices)} devices, the most are {_MOST}")
    _asked_devices(attempt, config)


def container_devices(attempt: str, config: cri.ContainerConfig, machine: Machine) -> tuple[list[Json], list[Json]]:
    """Return OCI's `linux.devices` and `linux.resources.devices`.

    The runtime makes the usual ones (null, zero, full, random, urandom, tty, console, ptmx) by itself and permits them.
    In a volume that is mounted at /dev nothing is made.

    Raises BadRequestError as `check_devices`.
    """
    asked = _asked_devices(attempt, config)
    rules: list[Json] = [{"allow": False, "access": "rwm"}]
    if config.linux.security_context.privileged:
        listed = {device["path"]: device for device in _devices_below(machine.devices, _DEV)}
        rules.append({"allow": True, "access": "rwm"})
    else:
        listed = {}
        rules += [
            {
                "allow": True,
                "type": device["type"],
                "major": device["major"],
                "minor": device["minor"],
                "access": permissions,
            }
            for device, permissions in asked
        ]
    listed.update((device["path"], device) for device, _ in asked)
    has_own_dev = any(
        checked_path(attempt, mount.container_path, "the mount path") == "/dev" for mount in config.mounts
    )
    return [] if has_own_dev else list(listed.values()), rules


def _asked_devices(attempt: str, config: cri.ContainerConfig) -> list[tuple[Json, str]]:
    found: list[tuple[Json, str]] = []
    for device in config.devices:
        permissions = device.permissions or "rwm"
        if len(set(permissions)) != len(permissions) or set(permissions) - set("rwm"):
            raise BadRequestError(attempt, f'"{permissions[:20]}" are no permissions of a device', "letters of rwm")
        inside = checked_path(attempt, device.container_path or device.host_path, "the device's path")
        host = checked_path(attempt, device.host_path, "the device's host path")
        found += [(each, permissions) for each in _devices_at(attempt, host, inside)]
        if len(found) > _MOST:
            raise BadRequestError(attempt, f"it has more than {_MOST} devices")
    return found


def _devices_at(attempt: str, host: str, inside: str) -> list[Json]:
    """Return the device at a path, or all below it if it is a directory."""
    try:
        info = os.stat(host)  # noqa: PTH116 - a text of any content
    except OSError as error:
        raise BadRequestError(attempt, f'the device "{host[:200]}": {error.strerror}') from error
    if stat.S_ISDIR(info.st_mode):
        below = list(_devices_below(Path(host), inside))
        if below:
            return below
    elif device := _device(info, inside):
        return [device]
    raise BadRequestError(attempt, f'"{host[:200]}" is no device and no directory of devices')


def _devices_below(top: Path, inside: str) -> Iterator[Json]:
    """Yield the devices of a directory, links not followed. A device that vanishes meanwhile is left out."""
    looked_at = 0
    for directory, names, files in os.walk(top):
        looked_at += 1 + len(files)
        if looked_at > _MOST:
            return
        names[:] = sorted(name for name in names if name not in _OWN)
        for name in sorted(files):
            path = os.path.join(directory, name)  # noqa: PTH118 - hundreds of them
            try:
                info = os.lstat(path)
            except OSError:
                continue
            shown = f"{inside}{path.removeprefix(str(top))}"
            if name not in _OWN and (device := _device(info, shown)):
                yield device


def device_at(attempt: str, host: str, inside: str) -> Json:
    """Return the device at a path of the machine as OCI's, at another path. Raises BadRequestError if it is none."""
    try:
        device = _device(os.stat(host), inside)  # noqa: PTH116 - a text of any content
    except OSError as error:
        raise BadRequestError(attempt, f'the device "{host[:200]}": {error.strerror}') from error
    if device is None:
        raise BadRequestError(attempt, f'"{host[:200]}" is no device')
    return device


def _device(info: os.stat_result, path: str) -> Json | None:
    kind = "c" if stat.S_ISCHR(info.st_mode) else "b" if stat.S_ISBLK(info.st_mode) else None
    if kind is None:
        return None
    return {
        "path": path,
        "type": kind,
        "major": os.major(info.st_rdev),
        "minor": os.minor(info.st_rdev),
        "fileMode": stat.S_IMODE(info.st_mode),
        "uid": info.st_uid,
        "gid": info.st_gid,
    }
