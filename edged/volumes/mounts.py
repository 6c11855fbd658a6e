"""Where the volumes of a pod appear in a container (kubelet's makeMounts)."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from edged.api import Container, Pod, Volume, VolumeMount
from edged.pods.expansion import expand
from edged.volumes.errors import VolumeError
from protos.cri.v1 import api_pb2 as cri

_HOSTS_FILE = "/etc/hosts"
_PROPAGATION = {
    None: cri.PROPAGATION_PRIVATE,
    "": cri.PROPAGATION_PRIVATE,
    "None": cri.PROPAGATION_PRIVATE,
    "HostToContainer": cri.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": cri.PROPAGATION_BIDIRECTIONAL,
}


def container_mounts(
    pod: Pod,
    container: Container,
    volumes: Mapping[str, Path],
    environment: Mapping[str, str],
    *,
    etc_hosts: Path | None = None,
    last_words: Path | None = None,
) -> list[cri.Mount]:
    """The mounts of a container, parents before what lies in them.

    Args:
        volumes: where each volume of the pod is on the node, by name (from `set_up`).
        environment: for subPathExpr.
        etc_hosts: the pod's /etc/hosts, mounted unless the container brings its own.
        last_words: the file that becomes the container's terminationMessagePath.

    A sub path must exist; `resolve_sub_path` makes it. Raises VolumeError.
    """
    mounts = [_mount(pod, mount, volumes, environment) for mount in container.volume_mounts]
    taken = {mount.container_path for mount in mounts}
    if etc_hosts is not None and _HOSTS_FILE not in taken:
        mounts.append(cri.Mount(container_path=_HOSTS_FILE, host_path=str(etc_hosts)))
    if last_words is not None and container.termination_message_path:
        mounts.append(cri.Mount(container_path=container.termination_message_path, host_path=str(last_words)))
    return sorted(mounts, key=lambda mount: PurePosixPath(mount.container_path).parts)


def resolve_sub_path(volume: Path, sub_path: str) -> Path:
    """The path on the node of a path within a volume, links followed; it may not leave the volume.

    A directory is made for a path that does not exist, as kubelet does. Raises VolumeError.
    """
    parts = PurePosixPath(sub_path).parts
    if not parts or sub_path.startswith("/") or ".." in parts:
        raise VolumeError("cannot mount the sub path", repr(sub_path), "a relative path without .. is wanted")
    root = os.path.realpath(volume)
    target = os.path.realpath(Path(root, sub_path))
    if os.path.commonpath((root, target)) != root:
        raise VolumeError("cannot mount the sub path", repr(sub_path), "a link in it leads out of the volume")
    if not os.path.lexists(target):
        Path(target).mkdir(mode=0o750, parents=True)
    return Path(target)


def hosts_file(hostname: str, domain: str, ips: Iterable[str], aliases: Iterable[tuple[str, Iterable[str]]]) -> str:
    """The text of a pod's /etc/hosts: the usual names, the pod's own, and its hostAliases as (ip, names)."""
    lines = [
        "# Kubernetes-managed hosts file.",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
        "fe00::0\tip6-localnet",
        "fe00::0\tip6-mcastprefix",
        "fe00::1\tip6-allnodes",
        "fe00::2\tip6-allrouters",
    ]
    names = f"{hostname}.{domain}\t{hostname}" if domain else hostname
    lines += [f"{ip}\t{names}" for ip in ips]
    extra = ["\t".join((ip, *names)) for ip, names in aliases]
    if extra:
        lines += ["", "# Entries added by HostAliases.", *extra]
    return "\n".join(lines) + "\n"


def _mount(pod: Pod, mount: VolumeMount, volumes: Mapping[str, Path], environment: Mapping[str, str]) -> cri.Mount:
    host_path = volumes.get(mount.name)
    if host_path is None:
        raise VolumeError("cannot mount the volume", mount.name, "the pod has no volume of that name")
    if mount.mount_propagation not in _PROPAGATION:
        raise VolumeError("cannot mount the volume", mount.name, f"{mount.mount_propagation!r} is no propagation")
    sub_path = _expanded(mount.sub_path_expr, environment) if mount.sub_path_expr else mount.sub_path
    if sub_path:
        host_path = resolve_sub_path(host_path, sub_path)
    return cri.Mount(
        container_path=str(PurePosixPath("/", mount.mount_path)),
        host_path=str(host_path),
        readonly=mount.read_only or _is_read_only(pod, mount.name),
        propagation=_PROPAGATION[mount.mount_propagation],
    )


def _expanded(expression: str, environment: Mapping[str, str]) -> str:
    text = expand(expression, environment)
    if "$(" in text:
        raise VolumeError("cannot expand subPathExpr", repr(expression), "a variable in it is not set")
    return text


def _is_read_only(pod: Pod, name: str) -> bool:
    """Volumes of files belong to the node: a container that wrote to them would disturb their replacement."""
    volume = next((v for v in pod.spec.volumes if v.name == name), Volume())
    return bool(volume.config_map or volume.secret or volume.downward_api or volume.projected)
