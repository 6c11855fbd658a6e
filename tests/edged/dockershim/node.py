"""A node whose containers are those of a private dockerd, for the tests of this directory.

Run as a program it serves until its standard input is closed, so that tests can kill it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beehive.clock import Clock, RealClock
from edged.dockershim.answers import ListedContainer
from edged.dockershim.engine import DockerSettings, purge
from edged.dockershim.runtime import DockerRuntime
from edged.oci.network import BINARY_DIRECTORIES, PodNetwork
from protos.cri.v1 import api_pb2 as cri
from tests.edged.embedded.node import LocalNode, Node
from tests.edged.embedded.server_process import RemoteNode
from tests.edged.oci.node import _die_at
from tests.support.directories import short_directory
from tests.support.dockerd import PrivateDockerd
from tests.support.leftovers import remove_cgroups

_SOCKET = "EDGECORE_TEST_DOCKER"
_DIE = "EDGECORE_TEST_DIES"


def settings_of(state: Path, clock: Clock, docker: Path) -> DockerSettings:
    """The settings of a runtime whose files are beside its state directory."""
    return DockerSettings(PodNetwork(state.parent / "net.d", BINARY_DIRECTORIES, clock), docker)


class _DockerNode(Node):
    dockerd: PrivateDockerd
    network = cri.NODE
    """Of pods made from now on."""

    def complete_pod(self, config: cri.PodSandboxConfig) -> None:
        """Control groups of pods are below the daemon's."""
        options = config.linux.security_context.namespace_options
        options.network, options.pid = self.network, cri.CONTAINER
        config.linux.cgroup_parent = self.dockerd.cgroup_parent

    def complete(self, config: cri.ContainerConfig) -> None:
        """Containers have their own processes."""
        options = config.linux.security_context.namespace_options
        options.network, options.pid = self.network, cri.CONTAINER

    def in_docker(self) -> list[ListedContainer]:
        """All containers that Docker has."""
        return self.dockerd.client.get("/containers/json", list[ListedContainer], "list containers", {"all": "1"})


class DockerNode(_DockerNode, LocalNode):
    """A node whose runtime is in this process."""

    def __init__(self, directory: Path, dockerd: PrivateDockerd) -> None:
        self.dockerd = dockerd
        super().__init__(directory)

    def new_runtime(self) -> DockerRuntime:
        """Return a runtime on the node's directory, not started."""
        return DockerRuntime(
            self.state, self.socket, self.clock, settings_of(self.state, self.clock, self.dockerd.socket)
        )

    def purge(self) -> None:
        """Remove everything that the runtime has made."""
        purge(self.state, self.clock, settings_of(self.state, self.clock, self.dockerd.socket))


class RemoteDockerNode(_DockerNode, RemoteNode):
    """A node whose runtime is another process."""

    module = __name__

    def __init__(self, directory: Path, dockerd: PrivateDockerd) -> None:
        self.dockerd = dockerd
        os.environ[_SOCKET] = str(dockerd.socket)
        super().__init__(directory)

    def serve_until(self, step: str) -> None:
        """Start the runtime (again); it dies by SIGKILL at a step: `before` or `after`, a blank, module:name."""
        os.environ[_DIE] = step
        try:
            self.serve()
        finally:
            del os.environ[_DIE]


@contextmanager
def node_directory(dockerd: PrivateDockerd) -> Iterator[Path]:
    """A directory for a node; at the end Docker may have no container of it, and nothing of it may be mounted."""
    with short_directory("dn-", mode=0o755) as directory:
        yield directory
        listed = dockerd.client.get("/containers/json", list[ListedContainer], "list containers", {"all": "1"})
        assert [each.id for each in listed] == []
        assert str(directory) not in Path("/proc/self/mountinfo").read_text()
    remove_cgroups(f"/{directory.name}")


def _serve(state: Path, socket: Path, clock: Clock, docker: Path) -> None:
    runtime = DockerRuntime(state, socket, clock, settings_of(state, clock, docker))
    runtime.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    runtime.stop()


if __name__ == "__main__":
    docker_socket = Path(os.environ[_SOCKET])
    if sys.argv[1] == "serve":
        if step := os.environ.get(_DIE):
            _die_at(step)
        _serve(Path(sys.argv[2]), Path(sys.argv[3]), RealClock(), docker_socket)
    else:
        clock_of_purge = RealClock()
        purge(Path(sys.argv[2]), clock_of_purge, settings_of(Path(sys.argv[2]), clock_of_purge, docker_socket))
