"""The plan of each volume of a pod on the node; pure, `set_up` carries it out."""

from pathlib import Path, PurePosixPath
from posixpath import normpath

from msgspec import Struct

from edged.errors import VolumeError
from edged.pods.config.downward import DownwardView
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.volumes.payload import (
    Payload,
    VolumeSources,
    config_map_payload,
    downward_payload,
    projected_payload,
    secret_payload,
)
from modules.apimachinery.pods.demand import all_limited, pod_limits
from modules.apimachinery.types import (
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    Pod,
    Quantity,
    Volume,
    VolumeMount,
    whole_value,
)


def memory_size(pod: Pod, limit: Quantity | None, allocatable: int) -> int:
    """Return the size of a volume in bytes: the smallest of its own limit, the limit of the pod's containers together,
    and the node's allocatable memory. Without any of them 0, which leaves the kernel's default, half of the memory.

    Args:
        pod: of the volume. Its own limit counts only when every container has one, as for its cgroup.
        limit: the volume's `sizeLimit`.
        allocatable: bytes of memory that the node has for pods; 0 when unknown.
    """
    own = whole_value(limit) if limit is not None else 0
    bounds = [bound for bound in (own, _memory_limit(pod), allocatable) if bound > 0]
    return min(bounds, default=0)


def _memory_limit(pod: Pod) -> int:
    """Return the limit of the pod's containers together in bytes, 0 if one has no limit."""
    return int(pod_limits(pod).get("memory", 0)) if all_limited(pod, "memory") else 0


EMPTY_DIRECTORY = "empty-dir"
"""kubelet's name of the kind in a volume's directory."""


_ON_DISK = frozenset({"configmap"})
"""Kinds of files that kubelet keeps on the disk; secrets, tokens and facts of the pod are in memory."""


class EmptyDirectory(Struct, frozen=True):
    """A directory of the pod's own, writable for all."""

    path: Path


class MemoryDirectory(Struct, frozen=True):
    """A directory in memory of the pod's own, writable for all; `size` in bytes, 0 for the kernel's default limit."""

    path: Path
    size: int


class HostPath(Struct, frozen=True):
    """A path of the node; `type` is the required kind of file ("" for no check); the `…OrCreate` types are made if
    missing.
    """

    path: Path
    type: str


class Files(Struct, frozen=True):
    """A directory of files that change together; read-only for containers."""

    path: Path
    payload: Payload
    memory: int | None = None
    """Limit of its memory in bytes, 0 for the kernel's default; None for a directory on the disk."""
    mount_points: tuple[str, ...] = ()
    """Directories in it for other mounts of the pod."""


VolumePlan = EmptyDirectory | MemoryDirectory | HostPath | Files


def plan_volume(
    pod: Pod, volume: Volume, paths: PodPaths, sources: VolumeSources, view: DownwardView, memory: int = 0
) -> VolumePlan:
    """Return the plan of one volume; `memory` are the bytes that the node has for pods, 0 when unknown.

    Raises VolumeError, which names an unsupported kind.
    """
    if volume.host_path is not None:
        return host_path_plan(volume.host_path)
    uid = PodUid(pod.metadata.uid)
    if volume.empty_dir is not None:
        return _empty_directory(pod, volume.name, volume.empty_dir, paths, memory)
    kind, payload = _files(pod, volume, sources, view)
    size = None if kind in _ON_DISK else memory_size(pod, None, memory)
    return Files(paths.volume(uid, kind, volume.name), payload, size, _mount_points(pod, volume.name))


def _mount_points(pod: Pod, name: str) -> tuple[str, ...]:
    """Return where containers mount something directly within a volume of files, as kubelet makes these directories
    (pkg/volume/util/nested_volumes.go): the volume is read-only for a runtime, too. Mounts of single files are left
    out, as a directory is no mount point for them.
    """
    files = {each.name for each in pod.spec.volumes if kind_of_files(each) is not None}
    found: set[str] = set()
    for container in pod.spec.all_containers:
        mounts = {PurePosixPath(normpath(f"/{each.mount_path}")): each for each in container.volume_mounts}
        for path, mount in mounts.items():
            outer = next((each for each in path.parents if each in mounts), None)
            if outer is None or _has_sub_path(mounts[outer]) or mounts[outer].name != name:
                continue
            inner = path.relative_to(outer)
            if not (_has_sub_path(mount) and mount.name in files) and not inner.parts[0].startswith(".."):
                found.add(str(inner))
    return tuple(sorted(found))


def _has_sub_path(mount: VolumeMount) -> bool:
    return bool(mount.sub_path or mount.sub_path_expr)


def kind_of_files(volume: Volume) -> str | None:
    """Return kubelet's name of the kind of a volume of files; None for a volume of another kind."""
    kinds = {
        "configmap": volume.config_map,
        "secret": volume.secret,
        "downward-api": volume.downward_api,
        "projected": volume.projected,
    }
    return next((kind for kind, source in kinds.items() if source is not None), None)


def _empty_directory(
    pod: Pod, name: str, source: EmptyDirVolumeSource, paths: PodPaths, memory: int
) -> EmptyDirectory | MemoryDirectory:
    path = paths.volume(PodUid(pod.metadata.uid), EMPTY_DIRECTORY, name)
    if source.medium == "Memory":
        return MemoryDirectory(path, memory_size(pod, source.size_limit, memory))
    if source.medium:
        hint = f"emptyDir of medium {source.medium} is not supported, Memory is"
        raise VolumeError("cannot make the volume", name, hint)
    return EmptyDirectory(path)


def host_path_plan(source: HostPathVolumeSource) -> HostPath:
    """Return the plan of a path of the node. Raises VolumeError."""
    path = PurePosixPath(source.path)
    if not path.is_absolute() or ".." in path.parts:
        raise VolumeError("cannot use the host path", repr(source.path), "an absolute path without .. is wanted")
    return HostPath(Path(path), source.type or "")


def _files(pod: Pod, volume: Volume, sources: VolumeSources, view: DownwardView) -> tuple[str, Payload]:
    if (of_map := volume.config_map) is not None:
        config_map = sources.config_map(of_map.name)
        return "configmap", config_map_payload(
            config_map, of_map.name, of_map.items, of_map.default_mode, optional=of_map.optional
        )
    if (of_secret := volume.secret) is not None:
        name = of_secret.secret_name
        return "secret", secret_payload(
            sources.secret(name), name, of_secret.items, of_secret.default_mode, optional=of_secret.optional
        )
    if volume.downward_api is not None:
        source = volume.downward_api
        return "downward-api", downward_payload(pod, source.items, view, source.default_mode)
    if volume.projected is not None:
        return "projected", projected_payload(pod, volume.projected, sources, view)
    is_claim = volume.persistent_volume_claim is not None or volume.ephemeral is not None
    kind = "persistentVolumeClaim" if is_claim else "its kind"
    raise VolumeError("cannot make the volume", volume.name, f"{kind} is not supported")
