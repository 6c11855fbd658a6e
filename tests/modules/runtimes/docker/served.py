"""The runtime that has its containers in Docker as a program, as `tests.modules.runtimes.process.served`."""

import os
from pathlib import Path
from typing import Final

from beehive.clock import Clock
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.docker.driver import DockerSettings
from modules.runtimes.oci.network.pod_network import BINARY_DIRECTORIES, PodNetwork
from tests.modules.runtimes.process.served import serve

SOCKET: Final = "EDGECORE_TEST_DOCKER"
"""Environment variable with the daemon's socket."""


def settings_of(state: Path, clock: Clock, docker: Path) -> DockerSettings:
    """The settings of a runtime whose files are beside its state directory."""
    return DockerSettings(PodNetwork(state.parent / "net.d", BINARY_DIRECTORIES, clock), docker)


def _new_runtime(state: Path, socket: Path, clock: Clock) -> CriServer:
    return CriServer(state, socket, clock, settings_of(state, clock, Path(os.environ[SOCKET])))


if __name__ == "__main__":
    serve(_new_runtime)
