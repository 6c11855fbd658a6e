"""Containers that are plain processes, in memory."""

import os
import signal
from pathlib import Path

from modules.runtimes.engine.model import RuntimeContainer
from modules.runtimes.engine.records import ContainerId, ContainerRecord
from modules.runtimes.process.images import image_id
from modules.runtimes.process.shim_client import ShimClient
from modules.runtimes.process.users import resolve_user
from protos.cri.v1 import api_pb2 as cri


class ProcessContainer(RuntimeContainer):
    """A container that is a plain process, with the connection to its shim."""

    def __init__(
        self, container_id: ContainerId, directory: Path, request: cri.CreateContainerRequest, record: ContainerRecord
    ) -> None:
        super().__init__(container_id, directory, request, record)
        self.link: ShimClient | None = None

    @property
    def image_id(self) -> str:
        """An id made from the image's name."""
        return image_id(self.config.image.image)

    @property
    def image_ref(self) -> str:
        """The same id."""
        return self.image_id

    @property
    def stop_signal(self) -> int:
        """The configured signal; SIGTERM otherwise."""
        return stop_signal(self.config)

    @property
    def is_starting(self) -> bool:
        """Whether a shim has it, and has not started its command yet."""
        return self.link is not None and self.state == cri.CONTAINER_CREATED

    @property
    def user(self) -> cri.ContainerUser | None:
        """The user that it asks for; None for edgecore's own."""
        user = resolve_user(self.config.linux.security_context, os.geteuid(), "")
        if user is None:
            return None
        return cri.ContainerUser(
            linux=cri.LinuxContainerUser(uid=user["uid"], gid=user["gid"], supplemental_groups=user["groups"])
        )

    @property
    def work(self) -> Path:
        """The container's own directory: its HOME, and its working directory if the pod does not set one."""
        return self.directory / "work"

    @property
    def root(self) -> Path:
        """The place of its private root, in its own mount namespace; always empty on the host."""
        return self.directory / "root"

    def not_started(self) -> None:
        """Forget a start whose shim died before it started anything."""
        self.link = None
        self.decided.set()


def stop_signal(config: cri.ContainerConfig) -> int:
    """Return the number of the signal that asks the container to end: the configured one, SIGTERM otherwise."""
    if config.stop_signal == cri.SIGNAL_RUNTIME_DEFAULT:
        return signal.SIGTERM
    name = cri.Signal.Name(config.stop_signal).removeprefix("SIGNAL_")
    base, sign, offset = name.replace("MINUS", "-").replace("PLUS", "+").partition("-" if "MINUS" in name else "+")
    aliases = {"SIGCLD": "SIGCHLD", "SIGIOT": "SIGABRT", "SIGPOLL": "SIGIO"}
    number = int(signal.Signals[aliases.get(base, base)])
    return number + int(f"{sign}{offset or 0}")
