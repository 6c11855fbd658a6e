"""A runtime in the namespaces of an ordinary user, as a process of its own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from beehive.node_namespaces import DIRECTORY
from modules.runtimes.engine.errors import ContainerRuntimeError
from modules.runtimes.oci.programs import find_programs
from modules.runtimes.oci.rootless.entering import check
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.rootless.served import RANGES
from tests.modules.runtimes.process.node import eventually
from tests.modules.runtimes.process.server_process import RemoteNode
from tests.support.containerd import CNI_PLUGINS
from tests.support.directories import short_directory
from tests.support.images import BUSYBOX, busybox_image, docker_archive

_SEARCHED = "/usr/sbin:/usr/bin:/sbin:/bin"
_TUN = Path("/dev/net/tun")


def reason_missing() -> str:
    """Why this machine cannot run these tests; empty if it can."""
    if os.geteuid() == 0:
        return "an ordinary user runs these tests, and this is root"
    programs = (str(BUSYBOX), "slirp4netns", "newuidmap", "crun", "iptables", str(CNI_PLUGINS / "bridge"))
    missing = [each for each in programs if shutil.which(each, path=_SEARCHED) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (.ci/install-runtime installs them)"
    if not os.access(_TUN, os.R_OK | os.W_OK):
        return f"no namespaces for ordinary users: {_TUN} is root's"
    try:
        check()
        find_programs()
    except ContainerRuntimeError as error:
        return f"no namespaces for ordinary users: {error}"
    return ""


class RootlessNode(RemoteNode):
    """A node whose pods have a network of their own."""

    module = "tests.modules.runtimes.oci.rootless.served"
    shares_processes = False
    """Whether containers made from now on share the processes of their pod."""

    def serve(self) -> None:
        """Start the runtime (again) and connect."""
        super().serve()
        assert self._process is not None
        self._users = _users_of(Path("/proc", str(self._process.pid)))

    def complete_pod(self, config: cri.PodSandboxConfig) -> None:
        """Containers have processes of their own, or share them."""
        config.linux.security_context.namespace_options.pid = self._processes

    def complete(self, config: cri.ContainerConfig) -> None:
        """Containers are in the process namespace that their pod demands."""
        config.linux.security_context.namespace_options.pid = self._processes

    @property
    def _processes(self) -> cri.NamespaceMode.ValueType:
        return cri.POD if self.shares_processes else cri.CONTAINER

    def purge(self) -> None:
        """Remove everything that the runtime has made, in its namespaces."""
        self._purge_there()

    def members(self) -> dict[str, int]:
        """The processes in the node's namespaces, by name."""
        found = {}
        for each in Path("/proc").iterdir():
            if each.name.isdecimal() and _users_of(each) == self._users:
                with suppress(OSError):  # it has ended meanwhile
                    found[(each / "comm").read_text().strip()] = int(each.name)
        return found

    def in_network(self, *command: str) -> str:
        """What a command says in the network that the node's pods are connected to."""
        entered = [*enter_network(self.members()["sleep"]), *command]
        return subprocess.run(entered, check=True, capture_output=True, text=True).stdout


@contextmanager
def rootless_node(ranges: str = "") -> Iterator[RootlessNode]:
    """A node with the image of busybox, and addresses for pods; nothing is left of it."""
    if reason := reason_missing():
        pytest.skip(reason)
    with short_directory("rl-", mode=0o755) as directory:
        (directory / "archives").mkdir()
        (directory / RANGES).write_text(ranges)
        shutil.move(docker_archive(busybox_image(), directory), directory / "archives" / "busybox.tar")
        with RootlessNode(directory) as node:
            yield node
        eventually(node.members, lambda members: not members)


def enter_network(member: int) -> list[str]:
    """Return what runs a command in the network of the node whose namespaces a process is in."""
    enter = ["nsenter", f"--target={member}", "--user", "--mount", "--preserve-credentials"]
    return [*enter, "nsenter", f"--net={DIRECTORY / 'net'}"]


def _users_of(process: Path) -> str:
    """The user namespace of a process; empty if it has ended, or is somebody else's."""
    try:
        return str((process / "ns/user").readlink())
    except OSError:
        return ""
