"""The mounts of a container: where the volumes of its pod appear (kubelet's makeMounts)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath

from edged.errors import VolumeError
from edged.pods.config.expansion import expand
from edged.volumes.sub_path import resolve_sub_path
from modules.apimachinery.types import Container, Pod, Volume, VolumeMount
from protos.cri.v1 import api_pb2 as cri

SubPaths = Callable[[int, VolumeMount, str], Path]
"""Returns the path on the node of a path within a volume: takes the mount's index in its container, the mount, and the
sub path.
"""

_HOSTS_FILE = "/etc/hosts"
HOST_HEADER = b"# Kubernetes-managed hosts file (host network).\n"
"""First line of the /etc/hosts of a pod on the host's network, as kubelet writes it."""
_LONGEST_PATH = 4095
"""Bytes (Linux' PATH_MAX, less the closing zero)."""
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
    termination_message: Path | None = None,
    sub_paths: SubPaths | None = None,
    has_recursive: bool = False,
) -> list[cri.Mount]:
    """Return the mounts of a container, parents before their children.

    Args:
        pod: of the container.
        container: whose mounts to make.
        volumes: path on the node of each volume of the pod, by name (from `set_up`).
        environment: for subPathExpr.
        etc_hosts: the pod's /etc/hosts, mounted unless the container mounts its own.
        termination_message: the file that becomes the container's terminationMessagePath.
        sub_paths: binds sub paths; without it they are only resolved.
        has_recursive: whether the runtime has recursive read-only mounts.

    Raises VolumeError, and TooLargeError for a subPathExpr that becomes longer than a path can be.
    """

    def resolve(_index: int, mount: VolumeMount, sub_path: str) -> Path:
        return resolve_sub_path(volumes[mount.name], sub_path)

    mounts = [
        _mount(pod, mount, volumes, environment, partial(sub_paths or resolve, index), has_recursive=has_recursive)
        for index, mount in enumerate(container.volume_mounts)
    ]
    taken = {mount.container_path for mount in mounts}
    if etc_hosts is not None and _HOSTS_FILE not in taken:
        mounts.append(cri.Mount(container_path=_HOSTS_FILE, host_path=str(etc_hosts)))
    if termination_message is not None and container.termination_message_path:
        mounts.append(cri.Mount(container_path=container.termination_message_path, host_path=str(termination_message)))
    return sorted(mounts, key=lambda mount: PurePosixPath(mount.container_path).parts)


def hosts_file(hostname: str, domain: str, ips: Iterable[str], aliases: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return the text of a pod's /etc/hosts: the usual names, the pod's own, and its hostAliases as (ip, names)."""
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
    return "\n".join([*lines, *_aliases(aliases)]) + "\n"


def host_hosts_file(host: bytes, aliases: Iterable[tuple[str, Iterable[str]]]) -> bytes:
    """Return the /etc/hosts of a pod on the host's network: the host's bytes, in any encoding, and the pod's aliases
    (kubelet's nodeHostsFileContent, byte for byte).
    """
    added = _aliases(aliases)
    return b"".join([HOST_HEADER, host, *([("\n".join(added) + "\n").encode()] if added else [])])


def _aliases(aliases: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    lines = ["\t".join((ip, *names)) for ip, names in aliases]
    return ["", "# Entries added by HostAliases.", *lines] if lines else []


def _mount(
    pod: Pod,
    mount: VolumeMount,
    volumes: Mapping[str, Path],
    environment: Mapping[str, str],
    sub_paths: Callable[[VolumeMount, str], Path],
    *,
    has_recursive: bool,
) -> cri.Mount:
    host_path = volumes.get(mount.name)
    if host_path is None:
        raise VolumeError("cannot mount the volume", mount.name, "the pod has no volume of that name")
    if mount.mount_propagation not in _PROPAGATION:
        raise VolumeError(
            "cannot mount the volume", mount.name, f"{mount.mount_propagation!r} is not a mount propagation"
        )
    sub_path, expression = mount.sub_path, mount.sub_path_expr
    if expression:
        sub_path = expand(expression, _SetVariables(expression, environment), _LONGEST_PATH)
    if sub_path:
        host_path = sub_paths(mount, sub_path)
    return cri.Mount(
        container_path=str(PurePosixPath("/", mount.mount_path)),
        host_path=str(host_path),
        readonly=mount.read_only or _is_read_only(pod, mount.name),
        recursive_read_only=_is_recursive(mount, is_possible=has_recursive),
        propagation=_PROPAGATION[mount.mount_propagation],
    )


def _is_recursive(mount: VolumeMount, *, is_possible: bool) -> bool:
    """Return whether the mounts below a volume are read-only, too (kubelet's resolveRecursiveReadOnly)."""
    if mount.recursive_read_only == "Enabled" and not is_possible:
        hint = "recursiveReadOnly: Enabled is not supported by the runtime on this machine"
        raise VolumeError("cannot mount the volume", mount.name, hint)
    return mount.recursive_read_only in ("Enabled", "IfPossible") and is_possible


class _SetVariables(Mapping[str, str]):
    """The variables of an expression, each of which has to have a value: with an empty one a container would see more
    of the volume than its own directory (kubelet's ExpandContainerVolumeMounts).
    """

    def __init__(self, expression: str, environment: Mapping[str, str]) -> None:
        self._expression = expression
        self._environment = environment

    def __getitem__(self, name: str) -> str:
        """Return the value. Raises VolumeError."""
        value = self._environment.get(name)
        if not value:
            raise VolumeError("cannot expand subPathExpr", repr(self._expression), f"{name or 'a variable'} is not set")
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._environment)

    def __len__(self) -> int:
        return len(self._environment)


def _is_read_only(pod: Pod, name: str) -> bool:
    """Return whether a volume is read-only for containers: volumes of files, which their writer replaces, and claims
    and CSI volumes that the pod declares so.
    """
    volume = next((v for v in pod.spec.volumes if v.name == name), Volume())
    claim = volume.persistent_volume_claim
    if (claim is not None and claim.read_only) or (volume.csi is not None and volume.csi.read_only):
        return True
    return bool(volume.config_map or volume.secret or volume.downward_api or volume.projected)
