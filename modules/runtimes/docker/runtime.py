"""Docker Engine as edgecore's container runtime."""

from pathlib import Path

from beehive.clock import Clock
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.docker.engine import DockerEngine, DockerSettings
from modules.runtimes.docker.service import DockerMethods


class DockerRuntime(CriServer):
    """A CRI v1 server whose containers are Docker's.

    Args:
        root: its state directory.
        socket: path of its socket; 107 bytes at most.
        clock: for the times of sandboxes and containers.
        settings: of this machine.
    """

    def __init__(self, root: Path, socket: Path, clock: Clock, settings: DockerSettings) -> None:
        super().__init__(root, socket, clock)
        self._settings = settings

    def _open(self) -> tuple[DockerEngine, DockerMethods]:
        engine = DockerEngine(self._root, self._clock, self._settings)
        return engine, DockerMethods(engine)
