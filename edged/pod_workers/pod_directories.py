"""PodDirectories: files of pods on the node."""

import errno
import glob
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from beehive import Clock
from beehive.files.damaged import set_aside_unless_directory
from beehive.files.descriptors import OwnedFd
from beehive.files.durable import make_directories
from beehive.files.reading import read_file
from beehive.files.removal import remove_tree
from beehive.node_namespaces import give_to_pods
from edged.errors import ConfigError
from edged.logs.files import links_to, remove_log
from edged.pods.config.sandbox_config import domain_of, hostname_of
from edged.pods.labels import ref_of
from edged.pods.model import ContainerId, PodRef, PodUid
from edged.pods.paths import PodPaths, log_path
from edged.settings import EdgedSettings
from edged.volumes import (
    PodVolumes,
    PodVolumeSources,
    VolumeError,
    container_mounts,
    host_hosts_file,
    hosts_file,
)
from modules.apimachinery.types import Container, Nanoseconds, Pod
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

_DIRECTORY_MODE = 0o750
_HOSTS = Path("/etc/hosts")
_LONGEST_FILE_NAME = 255
"""Characters (Linux's NAME_MAX)."""
_WORDS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LONGEST_HOSTS = 1024 * 1024
"""Maximum of bytes of the machine's /etc/hosts that are copied."""


class PodDirectories:
    """The manager of pods' directories, volumes and logs, which also lists the mounts of a container.

    Methods raise VolumeError, ConfigError and OSError.

    Args:
        settings: edged's.
        clock: the dates of versions of files.
        volumes: sets up and tears down volumes.
    """

    def __init__(self, settings: EdgedSettings, clock: Clock, volumes: PodVolumes | None = None) -> None:
        self._settings = settings
        self._clock = clock
        self._paths = PodPaths(settings.root, settings.pod_logs)
        self._volumes = volumes or PodVolumes(self._paths)

    def prepare(self, pod: Pod, sources: PodVolumeSources, *, starts: bool = False) -> dict[str, Path]:
        """Make or update the pod's directory and volumes; return the path of each volume by name (see `PodVolumes`)."""
        directory = self._paths.pod(ref_of(pod).uid)
        set_aside_unless_directory(directory, self._settings.root)
        make_directories(directory, _DIRECTORY_MODE)
        return self._volumes.prepare(pod, sources, Nanoseconds(self._clock.now_ns()), starts=starts)

    def mounts(
        self,
        pod: Pod,
        container: Container,
        attempt: int,
        volumes: Mapping[str, Path],
        environment: Mapping[str, str],
        ips: tuple[str, ...],
        *,
        has_recursive: bool = False,
    ) -> list[cri.Mount]:
        """Return the mounts of one container, with the pod's /etc/hosts and the file for the container's last words, as
        a kubelet has them. The process runtime leaves those two out where it cannot mount.
        """
        sub_paths = self._volumes.sub_paths(pod, container, volumes)
        return container_mounts(
            pod,
            container,
            volumes,
            environment,
            etc_hosts=self._etc_hosts(pod, ips),
            termination_message=self._last_words(pod, container, attempt),
            sub_paths=sub_paths,
            has_recursive=has_recursive,
        )

    def make_log_directory(self, pod: Pod) -> None:
        """Make the directory into which the runtime writes the logs of the pod's containers.

        Namespace, name and uid are its name, so a pod may have names that are too long for Linux, and can never run
        (as on a kubelet: Kubernetes' issue 104288).
        """
        path = self._paths.pod_logs(ref_of(pod))
        if (surplus := len(path.name) - _LONGEST_FILE_NAME) > 0:
            length = len(pod.metadata.namespace) + len(pod.metadata.name)
            hint = f"give it a shorter one: namespace and name have {length} characters, {length - surplus} at most"
            raise ConfigError("name the log directory of a pod", path.name, hint)
        path.mkdir(mode=0o755, parents=True, exist_ok=True)

    def link_log(self, pod: Pod, container: str, attempt: int, container_id: ContainerId) -> None:
        """Link to a container's log from the directory that collectors of logs read (kubelet's startContainer). Without
        the link the container runs nevertheless.
        """
        ref = ref_of(pod)
        link = self._paths.log_link(ref, container, container_id)
        log = f"{self._paths.pod_logs(ref)}/{log_path(container, attempt)}"
        try:
            try:
                os.symlink(log, link)  # noqa: PTH211 - at each start of a container
            except FileNotFoundError:
                link.parent.mkdir(mode=0o755, exist_ok=True)
                link.symlink_to(log)
        except FileExistsError:
            pass
        except OSError as error:
            _log.warning("pod %s: the log of container %s has no link: %s", ref, container, error)

    def pods(self) -> list[PodUid]:
        """Return the pods that have files on the node, whether or not they are known."""
        directory = self._paths.pod(PodUid("any")).parent
        return [PodUid(path.name) for path in sorted(directory.iterdir())] if directory.is_dir() else []

    def remove_volumes(self, ref: PodRef) -> None:
        """Unmount the volumes of a pod that has ended, and remove their content unless others share it.

        Its logs, termination messages and /etc/hosts stay, for people who ask how it ended. Raises as `remove`.
        """
        self._volumes.remove(ref.uid)
        self._remove_trees(self._paths.sub_paths(ref.uid), self._paths.volumes(ref.uid))

    def remove(self, ref: PodRef) -> None:
        """Unmount the pod's volumes, remove its logs and then its files, so that `pods` finds an interrupted removal.

        Files that do not exist are no error. The uid is enough for a pod whose name is no longer known. Raises
        VolumeError when a file system is still mounted there: it is not emptied, for it is not the pod's.
        """
        logs = [self._paths.pod_logs(ref)] if ref.name else [*self._paths.logs.glob(f"*_{glob.escape(ref.uid)}")]
        self._volumes.remove(ref.uid)
        for path in logs:
            self._remove_log_links(ref, path)
        self._remove_trees(*logs, self._paths.pod(ref.uid))

    def remove_container(self, ref: PodRef, name: str, attempt: int) -> None:
        """Remove the logs and last words of a container that was removed. Raises OSError."""
        log = self._paths.pod_logs(ref) / log_path(name, attempt)
        self._remove_log_links(ref, log)
        remove_log(log)
        self._paths.termination_message(ref.uid, name, attempt).unlink(missing_ok=True)

    def _remove_log_links(self, ref: PodRef, log: Path) -> None:
        """Remove the links to a log of a pod, or to the logs in its directory. Raises OSError."""
        prefix = self._paths.log_link_prefix(ref) if ref.name else ""
        for link in links_to(log, self._paths.log_links, prefix):
            link.unlink(missing_ok=True)

    def _remove_trees(self, *paths: Path) -> None:
        """Remove files, or directories with their content. Something else may be mounted there: a removal does not go
        into it (kubelet's RemoveAllOneFilesystem).
        """
        for path in paths:
            try:
                path.lstat()
                remove_tree(path)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):  # no file can have too long a name
                    continue
                if error.errno != errno.EBUSY:
                    raise
                mounted = self._volumes.mounts.below(path.resolve())
                hint = "it is a mount point; unmount it, the removal is tried again"
                on = str(mounted[0] if mounted else path)
                raise VolumeError("remove a pod's files", on, hint, retryable=True) from error

    def _etc_hosts(self, pod: Pod, ips: tuple[str, ...]) -> Path:
        """Return the pod's /etc/hosts, a file of its own; on the host's network a copy of the machine's, because
        a container may write to it (kubelet's makeHostsMount).
        """
        aliases = [(alias.ip, alias.hostnames) for alias in pod.spec.host_aliases]
        path = self._paths.etc_hosts(ref_of(pod).uid)
        if pod.spec.host_network:
            text = host_hosts_file(_machine_hosts(), aliases)
        else:
            domain = domain_of(pod, self._settings.cluster_domain)
            text = hosts_file(hostname_of(pod), domain, ips, aliases).encode()
        if not _holds(path, text):
            with path.open("wb") as file:  # the content comes last: a file with it is taken as it is
                os.fchmod(file.fileno(), 0o644)
                give_to_pods(file.fileno())
                file.write(text)
        return path

    def _last_words(self, pod: Pod, container: Container, attempt: int) -> Path:
        """Return the file for the container's message when it ends; anybody in it may write there."""
        path = self._paths.termination_message(ref_of(pod).uid, container.name, attempt)
        make_directories(path.parent, _DIRECTORY_MODE)
        with OwnedFd(os.open(path, _WORDS, 0o666)) as descriptor:
            os.fchmod(descriptor, 0o666)
            give_to_pods(descriptor)
        return path


def _machine_hosts() -> bytes:
    """Return the machine's /etc/hosts; nothing if it does not exist."""
    try:
        return read_file(_HOSTS, _LONGEST_HOSTS)
    except FileNotFoundError:
        return b""


def _holds(path: Path, content: bytes) -> bool:
    """Return whether a file has exactly this content. It is read no further: containers may have written to it."""
    try:
        with path.open("rb") as file:
            return file.read(len(content) + 1) == content
    except FileNotFoundError:
        return False
