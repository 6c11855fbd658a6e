"""The kinds of container runtime that the contract is held against, each with an instance of the tests' own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from beehive.clock import RealClock
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.docker.driver import DockerSettings
from modules.runtimes.engine.driver import RuntimeSettings
from modules.runtimes.engine.engine import purge
from modules.runtimes.oci.driver import OciSettings
from modules.runtimes.oci.network.default_network import DefaultNetwork
from modules.runtimes.oci.network.pod_network import BINARY_DIRECTORIES, PodNetwork
from modules.runtimes.oci.programs import Programs, find_programs
from modules.runtimes.process.driver import ProcessSettings
from tests.modules.runtimes.oci.node import node_directory
from tests.modules.runtimes.oci.rootless.node import rootless_node
from tests.support.containerd import PrivateContainerd, reason_missing, reserve_network
from tests.support.directories import new_directory
from tests.support.dockerd import PrivateDockerd
from tests.support.dockerd import reason_missing as docker_missing


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
def _network(directory: Path) -> Iterator[PodNetwork]:
    """The network of pods on a bridge of the tests; nothing is left of it."""
    clock, reserved = RealClock(), reserve_network(directory.name)
    default = DefaultNetwork(clock, [reserved.subnet], reserved.bridge, directory / "leases")
    try:
        yield PodNetwork(directory / "net.d", BINARY_DIRECTORIES, clock, default=default)
    finally:
        default.remove()
        reserved.reservation.close()
        clock.close()


@contextmanager
def _served(directory: Path, settings: RuntimeSettings[Any]) -> Iterator[Path]:
    """The socket of a runtime inside edgecore with its state in a directory; its pods are removed."""
    state, socket, clock = directory / "state", directory / "cri.sock", RealClock()
    runtime = CriServer(state, socket, clock, settings)
    try:
        runtime.start()
        yield socket
    finally:
        runtime.stop()
        purge(state, clock, settings)
        clock.close()


@contextmanager
def _oci(name: str, find: Callable[[], Programs] = find_programs) -> Iterator[Kind]:
    """`embedded://oci` with its own network on a bridge of the tests; nothing is left of it."""
    if reason := reason_missing():  # the network's plug-ins
        pytest.skip(reason)
    with node_directory() as directory:
        programs = find()
        (directory / "archives" / "busybox.tar").unlink()
        with _network(directory) as network:
            settings = OciSettings(programs, network, directory / "certs.d", directory / "archives")
            with _served(directory, settings) as socket:
                yield Kind(name, socket, f"/{directory.name}")


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
    with (
        PrivateDockerd() as daemon,
        _network(daemon.directory) as network,
        _served(daemon.directory, DockerSettings(network, daemon.socket)) as socket,
    ):
        yield Kind("docker", socket, daemon.cgroup_parent)


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
    directory = new_directory("em-")
    try:
        with _served(directory, ProcessSettings()) as socket:
            yield Kind("processes", socket, "")
    finally:
        shutil.rmtree(directory)


KINDS: Final[dict[str, Callable[[], AbstractContextManager[Kind]]]] = {
    "oci": partial(_oci, "oci"),
    "oci-rootless": _oci_rootless,
    "runc": partial(_oci, "runc", _with_runc),
    "docker": _docker,
    "containerd": _containerd,
    "processes": _processes,
}
"""How each kind is started. All but the first two are slow. `runc` is `oci` without crun."""
