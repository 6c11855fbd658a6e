"""The kinds of container runtime that the contract is held against, each with an instance of the tests' own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from beehive.clock import RealClock
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.docker.driver import DockerSettings
from modules.runtimes.engine.engine import purge
from modules.runtimes.oci.driver import OciSettings
from modules.runtimes.oci.network.default_network import DefaultNetwork
from modules.runtimes.oci.network.pod_network import BINARY_DIRECTORIES, PodNetwork
from modules.runtimes.oci.programs import Programs, find_programs
from tests.modules.runtimes.oci.node import node_directory
from tests.modules.runtimes.oci.rootless.node import rootless_node
from tests.support.containerd import PrivateContainerd, reason_missing, reserve_network
from tests.support.dockerd import PrivateDockerd
from tests.support.dockerd import reason_missing as docker_missing
from tests.support.embedded import EmbeddedProcess


class Kind(NamedTuple):
    """A running container runtime."""

    name: str
    socket: Path
    cgroup_parent: str
    """The parent of its pods' control groups, or ""."""


def _with_runc() -> Programs:
    runc = shutil.which("runc")
    if runc is None:
        pytest.skip("runc is not installed")
    return msgspec.structs.replace(find_programs(), runtime=Path(runc))


@contextmanager
def _oci(name: str, find: Callable[[], Programs] = find_programs) -> Iterator[Kind]:
    """`embedded://oci` with its own network on a bridge of the tests; nothing is left of it."""
    if reason := reason_missing():  # the network's plug-ins
        pytest.skip(reason)
    with node_directory() as directory:
        programs = find()
        (directory / "archives" / "busybox.tar").unlink()
        clock, reserved = RealClock(), reserve_network(directory.name)
        default = DefaultNetwork(clock, [reserved.subnet], reserved.bridge, directory / "leases")
        network = PodNetwork(directory / "net.d", BINARY_DIRECTORIES, clock, default=default)
        settings = OciSettings(programs, network, directory / "certs.d", directory / "archives")
        runtime = CriServer(directory / "state", directory / "cri.sock", clock, settings)
        try:
            runtime.start()
            yield Kind(name, directory / "cri.sock", f"/{directory.name}")
        finally:
            runtime.stop()
            purge(directory / "state", clock, settings)
            default.remove()
            reserved.reservation.close()
            clock.close()


@contextmanager
def _oci_rootless() -> Iterator[Kind]:
    """`embedded://oci` of an ordinary user, in a process of its own; nothing is left of it."""
    with rootless_node() as node:
        yield Kind("oci-rootless", node.socket, "")


@contextmanager
def _docker() -> Iterator[Kind]:
    """`embedded://docker` on a dockerd of the tests, with its own network on a bridge; nothing is left of it."""
    if reason := docker_missing() or reason_missing():  # the network's plug-ins
        pytest.skip(reason)
    with PrivateDockerd() as daemon:
        clock, reserved = RealClock(), reserve_network(daemon.directory.name)
        state, leases = daemon.directory / "state", daemon.directory / "leases"
        default = DefaultNetwork(clock, [reserved.subnet], reserved.bridge, leases)
        network = PodNetwork(daemon.directory / "net.d", BINARY_DIRECTORIES, clock, default=default)
        settings = DockerSettings(network, daemon.socket)
        runtime = CriServer(state, daemon.directory / "cri.sock", clock, settings)
        try:
            runtime.start()
            yield Kind("docker", daemon.directory / "cri.sock", daemon.cgroup_parent)
        finally:
            runtime.stop()
            purge(state, clock, settings)
            default.remove()
            reserved.reservation.close()
            clock.close()


@contextmanager
def _containerd() -> Iterator[Kind]:
    """A containerd, whose ports of the machine are reached at 127.0.0.1 too."""
    if reason := reason_missing():
        pytest.skip(reason)
    daemon = PrivateContainerd(cni=True, host_ports=True)
    network = daemon.directory / "cni" / "10-edgecore.conflist"
    network.write_text(network.read_text().replace('"snat": false', '"snat": true'))
    with daemon:
        yield Kind("containerd", daemon.socket, daemon.cgroup_parent)


@contextmanager
def _processes() -> Iterator[Kind]:
    """`embedded://`: containers that are plain processes."""
    with EmbeddedProcess() as embedded:
        yield Kind("processes", embedded.socket, "")


KINDS: Final[dict[str, Callable[[], AbstractContextManager[Kind]]]] = {
    "oci": partial(_oci, "oci"),
    "oci-rootless": _oci_rootless,
    "runc": partial(_oci, "runc", _with_runc),
    "docker": _docker,
    "containerd": _containerd,
    "processes": _processes,
}
"""How each kind is started. All but the first two are slow. `runc` is `oci` without crun."""
