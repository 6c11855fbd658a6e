"""Containers of Docker's in memory."""

import threading
from pathlib import Path

from modules.runtimes.docker.log_stream import ContainerLog, LogFollower
from modules.runtimes.engine.model import RuntimeContainer
from modules.runtimes.engine.records import ContainerId, ContainerRecord
from protos.cri.v1 import api_pb2 as cri


class DockerContainer(RuntimeContainer):
    """A container of Docker's; its id is Docker's."""

    def __init__(
        self,
        container_id: ContainerId,
        directory: Path,
        request: cri.CreateContainerRequest,
        record: ContainerRecord,
    ) -> None:
        super().__init__(container_id, directory, request, record)
        self.ending_lock = threading.Lock()
        """Held while its start or end is recorded."""
        self.log = ContainerLog(container_id, self.log_path, tty=self.config.tty)
        self.follower: LogFollower | None = None
        self.writable_layer = ""
        """Directory of the container's writable layer; empty if Docker does not report it."""
        self.further_files: tuple[Path, ...] = ()
        """Docker's own files that the container may write: /etc/hostname and /etc/resolv.conf."""
        self._user: cri.ContainerUser | None = None

    def abandon(self) -> None:
        """Release all threads that wait for it, and close its log."""
        super().abandon()
        self.log.close()

    @property
    def user(self) -> cri.ContainerUser | None:
        """User and groups of the first process; None while it does not run, since only the image's files resolve user
        names.
        """
        if self._user is None and self.run is not None and self.exit is None:
            self._user = _user_of(self.run.pid, self.id)
        return self._user


def _user_of(pid: int, container_id: str) -> cri.ContainerUser | None:
    """Return user and groups of a process; None if it has ended, even if its pid belongs to another process by now."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        if container_id not in Path(f"/proc/{pid}/cgroup").read_text(errors="replace"):
            return None
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in status if ":" in line)
    uid, gid = (int(fields[name].split()[0]) for name in ("Uid", "Gid"))
    groups = sorted(int(each) for each in fields["Groups"].split())
    return cri.ContainerUser(linux=cri.LinuxContainerUser(uid=uid, gid=gid, supplemental_groups=groups))
