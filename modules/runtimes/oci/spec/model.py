"""The input that the translation of a container needs from the other parts of the runtime, and its result."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from protos.cri.v1 import api_pb2 as cri

Json = dict[str, Any]
"""An object of the OCI runtime specification, ready to be written as JSON."""


class ImageDefaults(Protocol):
    """The part of an image's configuration that describes its process (image-spec `config`). Fields may be empty."""

    @property
    def entrypoint(self) -> Sequence[str]:
        """The program and its first arguments."""

    @property
    def command(self) -> Sequence[str]:
        """Arguments of the entrypoint, or the whole command line without an entrypoint (`Cmd`)."""

    @property
    def environment(self) -> Sequence[str]:
        """Variables as `NAME=value` (`Env`)."""

    @property
    def user(self) -> str:
        """`user`, `uid`, `user:group`, `uid:gid` or a mixture."""

    @property
    def working_directory(self) -> str:
        """The directory where the process starts (`WorkingDir`)."""

    @property
    def stop_signal(self) -> str:
        """`SIGTERM`, `TERM` or `15` (`StopSignal`)."""

    @property
    def volumes(self) -> Sequence[str]:
        """Paths of each container's own directories (`Volumes`)."""


class NamespacePaths(Struct, frozen=True):
    """Files of the sandbox's namespaces. None for a new namespace, or the machine's, by CRI's options."""

    network: Path | None = None
    ipc: Path | None = None
    uts: Path | None = None
    """With a path, the hostname is the namespace's, set when it was made."""
    pid: Path | None = None
    """The namespace that the pod's containers share, or the target container's (`/proc/PID/ns/pid`)."""
    user: Path | None = None
    """With a path, the others belong to it."""


class SandboxFiles(Struct, frozen=True):
    """Files of the sandbox that its containers mount."""

    hostname: Path
    hosts: Path
    resolv_conf: Path
    shm: Path
    """A tmpfs, `/dev/shm` of the pod. With the machine's IPC namespace the machine's own is mounted instead."""


class ImageVolume(Struct, frozen=True):
    """An image that a container mounts as a volume."""

    root: Path
    """Mount point of its layers, read-only."""
    image_id: str
    """Reported in the container's status."""


class LinuxUser(Struct, frozen=True):
    """User and groups of a container's process, as numbers."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    """Ascending; with the gid, as `ContainerStatus.user.linux` reports them."""
    has_entry: bool = True
    """Whether the image's /etc/passwd names the user."""

    def status(self) -> cri.ContainerUser:
        """Return it as CRI's `ContainerStatus.user`."""
        linux = cri.LinuxContainerUser(uid=self.uid, gid=self.gid, supplemental_groups=self.groups)
        return cri.ContainerUser(linux=linux)


class OciSpec(Struct, frozen=True):
    """A container as the OCI runtime wants it."""

    config: Json
    """The content of config.json. Parts are shared with other containers: never change it in place."""
    user: LinuxUser
    mounts: tuple[cri.Mount, ...]
    """The mounts for `ContainerStatus.mounts`."""
