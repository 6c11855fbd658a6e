"""Directories and namespaces that are gone after each test."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.network.namespaces import PodNamespaces
from tests.modules.runtimes.oci.network.machine import network_directory
from tests.modules.runtimes.oci.network.own_machine import OwnMachine, own_machine


@pytest.fixture
def directory() -> Iterator[Path]:
    """An empty directory."""
    with network_directory() as path:
        yield path


@pytest.fixture
def namespaces(directory: Path) -> Iterator[PodNamespaces]:
    """Namespaces in the directory's `ns`."""
    made = PodNamespaces(directory / "ns")
    try:
        yield made
    finally:
        with suppress(FileNotFoundError):  # a test has removed them itself
            made.remove()


@pytest.fixture
def clock() -> Iterator[RealClock]:
    """The machine's clock."""
    made = RealClock()
    yield made
    made.close()


@pytest.fixture
def machine(directory: Path, namespaces: PodNamespaces, clock: RealClock) -> Iterator[OwnMachine]:
    """A machine of the test's own."""
    with own_machine(directory, namespaces, clock) as made:
        made.sh("ip link set lo up")
        yield made


@pytest.fixture
def drops_packets(machine: OwnMachine) -> None:
    """Let the machine drop packets to be forwarded."""
    for program in ("iptables", "ip6tables"):
        machine.sh(f"{program} -w -P FORWARD DROP")
