"""Where on the node a pod's files are: kubelet's layout, so that people and tools find them.

Names of pods, containers and volumes come from the cloud and become directory names here; one that would
leave its directory is refused.
"""

from pathlib import Path

from msgspec import Struct

from edged.pods.errors import ConfigError
from edged.pods.model import PodRef, PodUid

DEFAULT_LOG_ROOT = Path("/var/log/pods")


class PodPaths(Struct, frozen=True):
    """The agent's root directory (`/var/lib/kubelet`) and the directory of all pods' logs (`/var/log/pods`)."""

    root: Path
    logs: Path = DEFAULT_LOG_ROOT

    def pod(self, uid: PodUid) -> Path:
        """Everything of one pod but its logs."""
        return self.root / "pods" / _component(uid)

    def volume(self, uid: PodUid, plugin: str, name: str) -> Path:
        """One volume; `plugin` is its kind (`configmap`), shown as kubelet does: `kubernetes.io~configmap`."""
        return self.volume_kind(uid, plugin) / _component(name)

    def volume_kind(self, uid: PodUid, plugin: str) -> Path:
        """A pod's volumes of one kind."""
        return self.volumes(uid) / f"kubernetes.io~{_component(plugin)}"

    def all_volumes(self, plugin: str) -> list[Path]:
        """The volumes of one kind of all pods."""
        return sorted((self.root / "pods").glob(f"*/volumes/kubernetes.io~{_component(plugin)}/*"))

    def stages(self, plugin: str) -> Path:
        """Where a kind of plug-in keeps what pods share: a directory for each driver."""
        return self.root / "plugins" / "kubernetes.io" / _component(plugin)

    def stage(self, plugin: str, driver: str, name: str) -> Path:
        """What pods share of one volume."""
        return self.stages(plugin) / _component(driver) / _component(name)

    def volumes(self, uid: PodUid) -> Path:
        """All volumes of a pod that are its own."""
        return self.pod(uid) / "volumes"

    def sub_paths(self, uid: PodUid) -> Path:
        """Where paths within volumes are bound to, for the containers that get no more of a volume."""
        return self.pod(uid) / "volume-subpaths"

    def sub_path(self, uid: PodUid, volume: str, container: str, index: int) -> Path:
        """The place of one such path; `index` is the mount's among its container's."""
        return self.sub_paths(uid) / _component(volume) / _component(container) / str(index)

    def etc_hosts(self, uid: PodUid) -> Path:
        """The pod's /etc/hosts."""
        return self.pod(uid) / "etc-hosts"

    def last_words(self, uid: PodUid, container: str, attempt: int) -> Path:
        """The file in which one container may leave a message when it ends."""
        return self.pod(uid) / "containers" / _component(container) / str(attempt)

    def pod_logs(self, ref: PodRef) -> Path:
        """All logs of one pod: `<namespace>_<name>_<uid>`."""
        return self.logs / "_".join(_component(part) for part in (ref.namespace, ref.name, ref.uid))


def log_path(container: str, attempt: int) -> str:
    """A container's log within its pod's log directory: `<container>/<attempt>.log`."""
    return f"{_component(container)}/{attempt}.log"


def _component(name: str) -> str:
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise ConfigError("cannot make a directory", repr(name), "the name must be one plain path component")
    return name
