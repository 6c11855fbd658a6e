"""Containers of the OCI runtime in memory, and the record of their start."""

import os
from collections.abc import Callable
from pathlib import Path

from modules.runtimes.engine.model import RuntimeContainer
from modules.runtimes.engine.records import ContainerId, ContainerRecord, Run
from modules.runtimes.oci.first_process import FirstProcess
from protos.cri.v1 import api_pb2 as cri


class OciRun(Run, frozen=True):
    """A start: `pid` of the first process with its user and groups. It is written before the container is started."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()


class OciContainer(RuntimeContainer):
    """A container under crun and conmon."""

    run: OciRun | None

    def __init__(
        self, container_id: ContainerId, directory: Path, request: cri.CreateContainerRequest, record: ContainerRecord
    ) -> None:
        super().__init__(container_id, directory, request, record)
        self.first_process: FirstProcess | None = None

    @property
    def user(self) -> cri.ContainerUser | None:
        """User and groups of the first process; None before the start, because names are in the image's files."""
        if self.run is None:
            return None
        numbers = cri.LinuxContainerUser(uid=self.run.uid, gid=self.run.gid, supplemental_groups=self.run.groups)
        return cri.ContainerUser(linux=numbers)

    @property
    def mounts(self) -> list[cri.Mount]:
        """Its mounts, images with their ids."""
        ids = dict(self.record.image_volumes)
        found = []
        for mount in self.config.mounts:
            found.append(cri.Mount())
            found[-1].CopyFrom(mount)
            if mount.image.image:
                found[-1].image.image_ref = ids.get(mount.image.image, "")
        return found

    def abandon(self) -> None:
        """Release all threads that wait for it, and the descriptor of its first process."""
        super().abandon()
        if self.first_process is not None:
            self.first_process.close()

    @property
    def has_own_processes(self) -> bool:
        """Whether it has a process namespace of its own, whose end ends all its processes."""
        security = self.config.linux.security_context
        return not security.HasField("namespace_options") or security.namespace_options.pid == cri.CONTAINER


class ConmonEnd:
    """The end of a conmon, see `modules.runtimes.engine.process_watcher.Watched`."""

    def __init__(self, pidfd: int, on_end: Callable[[], None]) -> None:
        self._pidfd = pidfd
        self._on_end = on_end

    def fileno(self) -> int:
        """Return the descriptor of the process, which becomes readable when it ends."""
        return self._pidfd

    def read(self) -> bool:
        """Return False: the end of the process is the only event."""
        return False

    def gone(self) -> None:
        """Deal with the end."""
        self.close()
        self._on_end()

    def close(self) -> None:
        """Forget the process, which may go on."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
