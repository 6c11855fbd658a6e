"""A node with a private dockerd's containers, for the tests of this directory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.docker.answers import ListedContainer
from modules.runtimes.engine.engine import purge
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.docker.served import SOCKET, settings_of
from tests.modules.runtimes.process.node import LocalNode, Node
from tests.modules.runtimes.process.server_process import RemoteNode
from tests.support.directories import short_directory
from tests.support.dockerd import PrivateDockerd
from tests.support.leftovers import remove_cgroups


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

    def purge(self) -> None:
        """Remove everything that the runtime has made."""
        purge(self.state, self.clock, settings_of(self.state, self.clock, self.dockerd.socket))

    def in_docker(self) -> list[ListedContainer]:
        """All containers that Docker has."""
        return self.dockerd.client.get("/containers/json", list[ListedContainer], "list containers", {"all": "1"})


class DockerNode(_DockerNode, LocalNode):
    """A node whose runtime is in this process."""

    def __init__(self, directory: Path, dockerd: PrivateDockerd) -> None:
        self.dockerd = dockerd
        super().__init__(directory)

    def new_runtime(self) -> CriServer:
        """Return a runtime on the node's directory, not started."""
        return CriServer(self.state, self.socket, self.clock, settings_of(self.state, self.clock, self.dockerd.socket))


class RemoteDockerNode(_DockerNode, RemoteNode):
    """A node whose runtime is another process."""

    module = "tests.modules.runtimes.docker.served"

    def __init__(self, directory: Path, dockerd: PrivateDockerd) -> None:
        self.dockerd = dockerd
        os.environ[SOCKET] = str(dockerd.socket)
        super().__init__(directory)


@contextmanager
def node_directory(dockerd: PrivateDockerd) -> Iterator[Path]:
    """A directory for a node; at the end Docker may have no container of it, and nothing of it may be mounted."""
    with short_directory("dn-", mode=0o755) as directory:
        yield directory
        listed = dockerd.client.get("/containers/json", list[ListedContainer], "list containers", {"all": "1"})
        assert [each.id for each in listed] == []
        assert str(directory) not in Path("/proc/self/mountinfo").read_text()
    remove_cgroups(f"/{directory.name}")
