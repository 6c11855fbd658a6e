"""The paths of a pod's files on the node: kubelet's layout, so that people and tools find them.

Names of pods, containers and volumes come from the cloud and become names of directories; a name that would leave its
directory is refused.
"""

from pathlib import Path

from msgspec import Struct

from edged.errors import ConfigError
from edged.pods.model import ContainerId, PodRef, PodUid

DEFAULT_LOG_ROOT = Path("/var/log/pods")
_PODS, _VOLUMES = "pods", "volumes"
_LONGEST_LINK = 255 - len(".log")


class PodPaths(Struct, frozen=True):
    """Paths below the agent's root directory (`/var/lib/kubelet`) and the directory of all pods' logs
    (`/var/log/pods`).

    Every method raises ConfigError for a name that is not one plain path component.
    """

    root: Path
    logs: Path = DEFAULT_LOG_ROOT

    @property
    def pods(self) -> Path:
        """The directory with those of all pods, by their uids."""
        return self.root / _PODS

    def pod(self, uid: PodUid) -> Path:
        """Return the pod's directory, with everything but its logs."""
        return Path(f"{self.root}/{_PODS}/{_component(uid)}")

    def volume(self, uid: PodUid, plugin: str, name: str) -> Path:
        """Return the directory of one volume. A `plugin` of `configmap` becomes `kubernetes.io~configmap`, as in a
        kubelet.
        """
        return self.volume_kind(uid, plugin) / _component(name)

    def volume_kind(self, uid: PodUid, plugin: str) -> Path:
        """Return a pod's volumes of one plugin."""
        return Path(self.root, _PODS, _component(uid), _VOLUMES, f"kubernetes.io~{_component(plugin)}")

    def stages(self, plugin: str) -> Path:
        """Return the directory of a plugin for mounts that pods share, with one directory per driver."""
        return self.root / "plugins" / "kubernetes.io" / _component(plugin)

    def stage(self, plugin: str, driver: str, name: str) -> Path:
        """Return the mount of one volume that pods share."""
        return self.stages(plugin) / _component(driver) / _component(name)

    def volumes(self, uid: PodUid) -> Path:
        """Return the volumes of one pod."""
        return Path(f"{self.root}/{_PODS}/{_component(uid)}/{_VOLUMES}")

    def sub_paths(self, uid: PodUid) -> Path:
        """Return the bind mounts of a pod's subPaths, for containers that get only a part of a volume."""
        return Path(f"{self.root}/{_PODS}/{_component(uid)}/volume-subpaths")

    def sub_path(self, uid: PodUid, volume: str, container: str, index: int) -> Path:
        """Return the target of one bind mount of a subPath; `index` is the mount's in its container."""
        return self.sub_paths(uid) / _component(volume) / _component(container) / str(index)

    def etc_hosts(self, uid: PodUid) -> Path:
        """Return the pod's /etc/hosts."""
        return Path(f"{self.root}/{_PODS}/{_component(uid)}/etc-hosts")

    def termination_message(self, uid: PodUid, container: str, attempt: int) -> Path:
        """Return the file for a container's termination message."""
        return Path(f"{self.root}/{_PODS}/{_component(uid)}/containers/{_component(container)}/{attempt}")

    def pod_logs(self, ref: PodRef) -> Path:
        """Return the logs of one pod: `<namespace>_<name>_<uid>`."""
        return Path(f"{self.logs}/{_component(ref.namespace)}_{_component(ref.name)}_{_component(ref.uid)}")

    @property
    def log_links(self) -> Path:
        """The directory of links to all containers' logs, beside that of the logs (`/var/log/containers`)."""
        return self.logs.parent / ("containers" if self.logs.name != "containers" else "container-logs")

    def log_link_prefix(self, ref: PodRef) -> str:
        """Return how the names of the links to a pod's logs begin."""
        return f"{_component(ref.name)}_{_component(ref.namespace)}_"[:_LONGEST_LINK]

    def log_link(self, ref: PodRef, container: str, container_id: ContainerId) -> Path:
        """Return a container's link: `<name>_<namespace>_<container>-<id>.log`, cut where Linux takes no more."""
        name = f"{self.log_link_prefix(ref)}{_component(container)}-{_component(container_id)}"
        return Path(f"{self.log_links}/{name[:_LONGEST_LINK]}.log")


def log_path(container: str, attempt: int) -> str:
    """Return a container's log within its pod's log directory: `<container>/<attempt>.log`."""
    return f"{_component(container)}/{attempt}.log"


def _component(name: str) -> str:
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise ConfigError("cannot make a directory", repr(name), "the name must be one plain path component")
    return name
