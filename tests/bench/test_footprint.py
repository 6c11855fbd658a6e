"""The running agent stays within its memory limits and does not import unused libraries.

An accidental import is the most common loss of ten megabytes. The lists name frameworks of other programs, and modules
of this project that belong to other processes.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.subject import resident_megabytes
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, phase, pod
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import ContainerdUnderTest, EmbeddedUnderTest, RuntimeUnderTest
from tests.support.containerd import PrivateContainerd, reason_missing

PODS = 20
LIMITS = {"embedded": (46.0, 51.0), "containerd": (58.0, 63.0)}
"""Resident memory in megabytes, idle and with the pods: a node with containerd has gRPC's library."""

FOREIGN = (
    "_bz2", "_lzma", "_ssl", "aiohttp", "anyio", "ast", "asyncio", "calendar", "cryptography", "dis",
    "distutils", "email", "encodings.idna", "fastapi", "greenlet", "grpc.aio", "gzip", "h11", "hmac", "html",
    "http.server", "hypothesis", "inspect", "jeepney", "kubernetes", "lightkube", "msgpack", "multiprocessing",
    "numpy", "pickle", "pip", "pkg_resources", "prometheus_client", "psutil", "pydantic", "pydoc", "pytest",
    "requests", "rich", "setuptools", "socketserver", "sqlalchemy", "tomllib", "tornado", "twisted", "unicodedata",
    "unittest", "urllib3", "uvloop", "websockets", "wsgiref", "xmlrpc",
)  # fmt: skip
OWN = (
    "beehive.simulation", "beehive.testing", "beehive.trace.reader", "beehive.trace.writer", "modules.cloud",
    "modules.edge.dmi.registered_mappers", "modules.kubectl.cli", "modules.lab", "modules.processes.cloudcore",
    "modules.processes.demo", "modules.processes.edgecore.config_commands",
    "modules.processes.edgecore.other_commands", "modules.processes.edgecore.trace", "protos.csi",
    "protos.deviceplugin", "protos.dmi", "protos.podresources", "tests",
)  # fmt: skip
NOT_EMBEDDED = ("grpc",)
"""Modules that a node with the process runtime does not import before somebody calls it on its socket."""
ONLY_EMBEDDED = ("modules.runtimes",)
"""Modules that a node with a CRI runtime does not import, but for `FIREWALL`."""
FIREWALL = {
    "modules.runtimes", "modules.runtimes.engine", "modules.runtimes.engine.errors", "modules.runtimes.oci",
    "modules.runtimes.oci.network", "modules.runtimes.oci.network.errors", "modules.runtimes.oci.network.firewall",
    "modules.runtimes.oci.network.loopback_firewall",
}  # fmt: skip
"""Modules that it imports all the same on a machine where an interface has `route_localnet`: it makes a rule."""


@pytest.fixture(params=["embedded", pytest.param("containerd", marks=[pytest.mark.containerd, pytest.mark.slow])])
def runtime(request: pytest.FixtureRequest) -> Iterator[RuntimeUnderTest]:
    """Each of the two runtimes."""
    if request.param == "embedded":
        yield EmbeddedUnderTest()
        return
    missing = reason_missing()
    if missing:
        pytest.skip(missing)
    with PrivateContainerd(cni=True) as daemon:
        yield ContainerdUnderTest(daemon)


@pytest.fixture
def machine(runtime: RuntimeUnderTest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine whose edgecore prints its imports to standard error."""
    machine = Machine(runtime)
    try:
        machine.cloud.start()
        monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
        machine.edge.imports_itself = True
        machine.start_edge()
        machine.cloud.mirror("Node").wait("edge-1", lambda node: bool(node.get("status", {}).get("conditions")))
        yield machine
    finally:
        machine.close()


def imported(machine: Machine) -> set[str]:
    """Return the names of all modules that the running edgecore has imported."""
    return set(re.findall(r"^import time: +\d+ \| +\d+ \| +([\w.]+)$", machine.edge.process.text(), re.MULTILINE))


def below(names: set[str], roots: tuple[str, ...]) -> list[str]:
    """Return the names that are one of the roots or below one."""
    return sorted(name for name in names for root in roots if name == root or name.startswith(f"{root}."))


def test_a_node_with_20_pods_stays_within_its_memory_and_loads_nothing_that_it_does_not_need(machine: Machine) -> None:
    pid = machine.edge.process.pid
    idle, with_pods = LIMITS[machine.runtime.name]
    wait_until(lambda: resident_megabytes(pid) <= idle, f"at most {idle} MB idle")
    names = [f"pod-{number}" for number in range(PODS)]
    machine.cloud.apply(*(pod(name, container("exec sleep 3600"), hostNetwork=True) for name in names))
    for name in names:
        machine.cloud.pods.wait(name, lambda obj: phase(obj) == "Running")
    wait_until(lambda: resident_megabytes(pid) <= with_pods, f"at most {with_pods} MB with pods")
    loaded = imported(machine)
    assert "edged.module" in loaded
    assert below(loaded, FOREIGN + OWN) == []
    assert "_hashlib" not in Path(f"/proc/{pid}/maps").read_text(), "OpenSSL is loaded"
    if machine.runtime.name == ContainerdUnderTest.name:
        assert set(below(loaded, ONLY_EMBEDDED)) in (set(), FIREWALL)
    else:
        assert below(loaded, NOT_EMBEDDED) == []
