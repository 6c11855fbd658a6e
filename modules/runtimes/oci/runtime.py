"""The OCI runtime as edgecore starts it."""

from pathlib import Path

from beehive.clock import Clock
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.oci.engine import OciEngine, OciSettings
from modules.runtimes.oci.service import OciMethods


class OciRuntime(CriServer):
    """A CRI v1 server whose containers crun (or runc) isolates, under conmon.

    Args:
        root: its state directory.
        socket: path of its socket; 107 bytes at most.
        clock: for the times of sandboxes and containers.
        settings: of this machine.
    """

    def __init__(self, root: Path, socket: Path, clock: Clock, settings: OciSettings) -> None:
        super().__init__(root, socket, clock)
        self._settings = settings

    def _open(self) -> tuple[OciEngine, OciMethods]:
        engine = OciEngine(self._root, self._clock, self._settings)
        return engine, OciMethods(engine)
