"""The mounts of a container, in the runtime's order."""

import os
import stat
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Final

from beehive.files.descriptors import OwnedFd
from beehive.node_namespaces import give_to_pods
from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.oci.spec.machine import CgroupLayout, Machine
from modules.runtimes.oci.spec.model import ImageVolume, Json, SandboxFiles
from modules.runtimes.oci.spec.mount_checks import RECURSIVE_READ_ONLY
from modules.runtimes.oci.spec.paths import checked_path, is_below_any
from modules.runtimes.oci.spec.rooted_files import real_path_inside
from protos.cri.v1 import api_pb2 as cri

_DEV: Final = "/dev"
_GROUPS: Final = "/sys/fs/cgroup"
_PROPAGATION: Final = {
    cri.PROPAGATION_PRIVATE: "rprivate",
    cri.PROPAGATION_HOST_TO_CONTAINER: "rslave",
    cri.PROPAGATION_BIDIRECTIONAL: "rshared",
}

_MOST_LINKS: Final = 40
"""Links followed for one path, as in Linux."""


def mount_point(rootfs: Path, path: str) -> str:
    """Return where a mount at `path` is to be made: where the links on its way lead inside the image if something is
    missing there, `path` itself otherwise. Both have no "..".

    The runtime makes missing mount points inside the image, but crun 1.8 fails at an absolute link to a directory that
    the image lacks, such as /var/run -> /run without /run, where nearly every pod has its service account mounted.
    """
    top = str(rootfs)
    found: list[str] = []
    pending = path.strip("/").split("/")[::-1]
    links = 0
    while pending:
        name = pending.pop()
        if name in ("", ".", ".."):
            del found[len(found) - (name == "..") :]
            continue
        try:
            mode = os.lstat(f"{top}/{'/'.join((*found, name))}").st_mode
        except OSError:
            return _without_links(found, name, pending) if links and pending else path
        if not stat.S_ISLNK(mode) or not pending:
            found.append(name)
            continue
        links += 1
        if links > _MOST_LINKS:
            return path
        target = os.readlink(f"{top}/{'/'.join((*found, name))}")  # noqa: PTH115 - the same text as above
        found = [] if target.startswith("/") else found
        pending.extend(target.split("/")[::-1])
    return path


def _without_links(found: list[str], name: str, pending: list[str]) -> str:
    """Nothing below a missing name can be a link."""
    parts = [*found, name]
    for part in reversed(pending):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def container_mounts(
    attempt: str,
    config: cri.ContainerConfig,
    rootfs: Path,
    files: SandboxFiles,
    volumes: Mapping[str, ImageVolume],
    declared: Mapping[str, Path],
    *,
    has_host_ipc: bool,
    machine: Machine,
) -> list[Json]:
    """Return OCI's `mounts`: the kernel's file systems, then the sandbox's files, CRI's mounts and the directories for
    volumes that the image declares, outer ones first.

    A mount of CRI replaces the kernel's file systems at or below its path, and the sandbox's file with the same path. A
    host path that is missing is made here, as a directory; a link is followed.

    Raises:
        WrongStateError: a host path cannot be made, or an image is not mounted.
        BadRequestError: a path inside an image that does not exist.
    """
    asked = [(checked_path(attempt, mount.container_path, "the mount path"), mount) for mount in config.mounts]
    taken = {path for path, _ in asked}
    is_privileged = config.linux.security_context.privileged
    is_unified = machine.cgroup_layout is CgroupLayout.UNIFIED
    kept = [
        mount
        for mount in _kernel_mounts(is_privileged=is_privileged, is_unified=is_unified, has_groups=machine.has_groups)
        if mount["destination"] not in taken and not is_below_any(mount["destination"], taken)
    ]
    users = config.linux.security_context.namespace_options
    has_users = users.HasField("userns_options") and users.userns_options.mode == cri.POD
    if not (is_privileged or is_unified or has_users or machine.rootless) and machine.kernel >= RECURSIVE_READ_ONLY:
        kept += _closed_groups(rootfs, kept, asked)
    others = [
        *_sandbox_mounts(
            files, taken, has_host_ipc=has_host_ipc, readonly=config.linux.security_context.readonly_rootfs
        ),
        *(_bind(path, str(source), "rprivate", "rw", "nosuid", "nodev") for path, source in declared.items()),
        *(_volume(attempt, path, mount, volumes) for path, mount in asked),
    ]
    for mount in others:
        path = str(mount["destination"])
        if not is_below_any(path, taken):
            mount["destination"] = mount_point(rootfs, path)
    return kept + sorted(others, key=lambda mount: str(mount["destination"]).count("/"))


def reported_mounts(config: cri.ContainerConfig, volumes: Mapping[str, ImageVolume]) -> tuple[cri.Mount, ...]:
    """Return the mounts for the container's status: as asked for, with the ids of images."""
    reported = []
    for mount in config.mounts:
        each = cri.Mount()
        each.CopyFrom(mount)
        if mount.image.image in volumes:
            each.image.image_ref = volumes[mount.image.image].image_id
        reported.append(each)
    return tuple(reported)


def rootfs_propagation(config: cri.ContainerConfig) -> str:
    """Return OCI's `rootfsPropagation` that the mounts need, empty for the runtime's default."""
    kinds = {mount.propagation for mount in config.mounts}
    if cri.PROPAGATION_BIDIRECTIONAL in kinds:
        return "rshared"
    return "rslave" if cri.PROPAGATION_HOST_TO_CONTAINER in kinds else ""


def _kernel_mounts(*, is_privileged: bool, is_unified: bool, has_groups: bool) -> Iterator[Json]:
    """Yield the mounts of the kernel's file systems.

    A privileged container is in the machine's cgroup namespace. A new mount of cgroup v2 from there would take the
    options `nsdelegate` and `memory_recursiveprot` from the machine's own mount (containerd repeats them).
    """
    access = "rw" if is_privileged else "ro"
    yield _mount("/proc", "proc", "nosuid", "noexec", "nodev")
    yield _mount(_DEV, "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k")
    pts = ("newinstance", "ptmxmode=0666", "mode=0620", "gid=5")
    yield _mount("/dev/pts", "devpts", "nosuid", "noexec", *pts)
    yield _mount("/dev/mqueue", "mqueue", "nosuid", "noexec", "nodev")
    yield _mount("/sys", "sysfs", "nosuid", "noexec", "nodev", access)
    groups = ("nosuid", "noexec", "nodev", "relatime", access)
    if not has_groups:
        return
    if is_privileged and is_unified:
        yield _bind(_GROUPS, _GROUPS, "rprivate", *groups)
    else:
        yield _mount(_GROUPS, "cgroup", *groups)


def _closed_groups(rootfs: Path, kept: list[Json], asked: list[tuple[str, cri.Mount]]) -> Iterator[Json]:
    """Yield a mount that closes the directory of control groups of version 1.

    It is a tmpfs, which crun 1.8 and runc 1.1 leave writable though its mount is to be read-only. A further mount of
    it, at itself, is read-only; with crun that mount, and an entry of `readonlyPaths`, would make the groups in it
    writable unless it is recursive. Volumes below it need its mount points: then it stays as it is. So it does for a
    pod with users of its own, to whom the way to the root on the machine is closed.
    """
    below = any(path.startswith(f"{_GROUPS}/") for path, _ in asked)
    if not below and any(mount["type"] == "cgroup" for mount in kept):
        options = ("rro", "rnosuid", "rnoexec", "rnodev")
        yield _bind(_GROUPS, f"{rootfs}{_GROUPS}", "rprivate", *options)


def _mount(destination: str, kind: str, *options: str) -> Json:
    return {"destination": destination, "type": kind, "source": kind, "options": list(options)}


def _bind(destination: str, source: str, *options: str) -> Json:
    return {"destination": destination, "type": "bind", "source": source, "options": ["rbind", *options]}


def _sandbox_mounts(files: SandboxFiles, taken: Set[str], *, has_host_ipc: bool, readonly: bool) -> Iterator[Json]:
    access = "ro" if readonly else "rw"
    for path, source in (
        ("/etc/hostname", files.hostname),
        ("/etc/hosts", files.hosts),
        ("/etc/resolv.conf", files.resolv_conf),
    ):
        if path not in taken:
            yield _bind(path, str(source), "rprivate", access)
    shm = "/dev/shm" if has_host_ipc else str(files.shm)  # noqa: S108
    execution = () if has_host_ipc else ("noexec",)  # the machine decides about its own
    if "/dev/shm" not in taken and _DEV not in taken:  # noqa: S108
        yield _bind("/dev/shm", shm, "rprivate", "rw", "nosuid", "nodev", *execution)  # noqa: S108


def _volume(attempt: str, path: str, mount: cri.Mount, volumes: Mapping[str, ImageVolume]) -> Json:
    if mount.HasField("image") and mount.image.image:
        return _bind(path, inside_image(attempt, mount, volumes), "rprivate", "ro")
    access = "rro" if mount.recursive_read_only else "ro" if mount.readonly else "rw"
    mapped = ("idmap",) if mount.uidMappings or mount.gidMappings else ()
    return _bind(path, _source(attempt, mount), _PROPAGATION[mount.propagation], access, *mapped, *mount.mount_options)


def inside_image(attempt: str, mount: cri.Mount, volumes: Mapping[str, ImageVolume]) -> str:
    """Return the path of an image volume on the machine. Raises BadRequestError if the image lacks it."""
    volume = volumes.get(mount.image.image)
    if volume is None:
        raise WrongStateError(attempt, f'the image volume "{mount.image.image[:200]}" is not mounted')
    if not mount.image_sub_path:
        return str(volume.root)
    try:
        return str(real_path_inside(volume.root, mount.image_sub_path))
    except OSError as error:
        reason = f'the path "{mount.image_sub_path[:200]}" in the image "{mount.image.image[:200]}": {error.strerror}'
        raise BadRequestError(attempt, reason) from error


def _source(attempt: str, mount: cri.Mount) -> str:
    asked = checked_path(attempt, mount.host_path, "the host path")
    if (there := _real_path(asked)) is not None:
        return there
    path = os.path.realpath(asked)
    try:
        if not os.path.lexists(path):
            Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)
            give_to_pods(path)
    except OSError as error:
        raise WrongStateError(attempt, f'the host path "{path[:200]}" cannot be made: {error.strerror}') from error
    return path


def _real_path(path: str) -> str | None:
    """Return where a path leads, as the kernel follows its links, in three calls; None if it is missing."""
    try:
        with OwnedFd(os.open(path, os.O_PATH | os.O_CLOEXEC)) as handle:
            found = os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115 - no path but a descriptor
            return found if os.fstat(handle).st_nlink else None
    except OSError:
        return None
