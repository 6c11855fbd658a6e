"""A node with the OCI runtime and the image of busybox, for the tests of this directory."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.engine.engine import purge
from modules.runtimes.engine.errors import ContainerRuntimeError
from modules.runtimes.oci.programs import find_programs
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.served import settings_of
from tests.modules.runtimes.process.node import LocalNode, Node, processes_of
from tests.modules.runtimes.process.server_process import RemoteNode
from tests.support.directories import short_directory
from tests.support.images import BUSYBOX, busybox_image, docker_archive


def reason_missing() -> str:
    """Why this machine cannot run these tests; empty if it can."""
    if os.geteuid() != 0:
        return "OCI containers need root"
    if not BUSYBOX.exists():
        return f"{BUSYBOX} (busybox-static) is not installed"
    try:
        find_programs()
    except ContainerRuntimeError as error:
        return str(error)
    return ""


class OciPods(Node):
    """Pods and containers as this kind of runtime needs them."""

    shares_processes = False
    """Whether containers made from now on share their processes with their pod."""

    def complete_pod(self, config: cri.PodSandboxConfig) -> None:
        """Pods are on the machine's network, and their control groups below one of the node's."""
        options = config.linux.security_context.namespace_options
        options.network, options.pid = cri.NODE, cri.CONTAINER
        config.linux.cgroup_parent = f"/{self.directory.name}"

    def complete(self, config: cri.ContainerConfig) -> None:
        """Containers have their own processes, or share them."""
        options = config.linux.security_context.namespace_options
        options.network, options.pid = cri.NODE, cri.POD if self.shares_processes else cri.CONTAINER

    def purge(self) -> None:
        """Remove everything that the runtime has made."""
        purge(self.state, self.clock, settings_of(self.state, self.clock))


class OciNode(OciPods, LocalNode):
    """A node whose runtime is in this process."""

    def new_runtime(self) -> CriServer:
        """Return a runtime on the node's directory, not started."""
        return CriServer(self.state, self.socket, self.clock, settings_of(self.state, self.clock))


class RemoteOciNode(OciPods, RemoteNode):
    """A node whose runtime is another process."""

    module = "tests.modules.runtimes.oci.served"


@contextmanager
def node_directory() -> Iterator[Path]:
    """A directory with the archive of busybox; at the end nothing of it may be mounted, run, or have control groups."""
    if reason := reason_missing():
        pytest.skip(reason)
    with short_directory("oci-", mode=0o755) as directory:
        (directory / "archives").mkdir()
        shutil.move(docker_archive(busybox_image(), directory), directory / "archives" / "busybox.tar")
        try:
            yield directory
        finally:
            left = control_groups(directory.name)
            for group in sorted(left, reverse=True):
                group.rmdir()
        assert processes_of(directory) == []
        assert str(directory) not in Path("/proc/self/mountinfo").read_text()
        assert all(group.name == directory.name for group in left), "control groups of containers are left"


def control_groups(name: str) -> list[Path]:
    """The control groups of this name and below in all hierarchies."""
    found = []
    for top in (*Path("/sys/fs/cgroup").glob(f"*/{name}"), *Path("/sys/fs/cgroup").glob(name)):
        found += [top, *(each for each in top.rglob("*") if each.is_dir())]
    return found
