"""The runtime that has its containers in Docker as a program, as `tests.edged.embedded.served`."""

import os
from pathlib import Path
from typing import Final

from beehive.clock import Clock
from edged.dockershim.engine import DockerSettings
from edged.dockershim.runtime import DockerRuntime
from edged.oci.network import BINARY_DIRECTORIES, PodNetwork
from tests.edged.embedded.served import serve

SOCKET: Final = "EDGECORE_TEST_DOCKER"
"""Environment variable with the daemon's socket."""


def settings_of(state: Path, clock: Clock, docker: Path) -> DockerSettings:
    """The settings of a runtime whose files are beside its state directory."""
    return DockerSettings(PodNetwork(state.parent / "net.d", BINARY_DIRECTORIES, clock), docker)


def _new_runtime(state: Path, socket: Path, clock: Clock) -> DockerRuntime:
    return DockerRuntime(state, socket, clock, settings_of(state, clock, Path(os.environ[SOCKET])))


if __name__ == "__main__":
    serve(_new_runtime)
