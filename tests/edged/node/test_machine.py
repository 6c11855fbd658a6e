"""What the kernel's files say about the machine, in Kubernetes' terms."""

import os
import platform
import socket
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beehive.simulation import Simulation
from edged.eviction_api.usage import PodUsage
from edged.node.machine import MachineError, MachineInfo, default_addresses, read_huge_pages, read_machine, read_usage
from modules.lab.doubles.container_runtime import FakeRuntime

FILES = {
    "/proc/meminfo": "MemTotal:  4096 kB\nMemFree:  100 kB\nInactive(file):  20 kB\nHugePages_Total:  0\n",
    "/proc/loadavg": "0.1 0.2 0.3 2/400 777\n",
    "/proc/sys/kernel/pid_max": "4194304\n",
    "/proc/sys/kernel/threads-max": "31000\n",
    "/proc/sys/kernel/random/boot_id": "boot\n",
    "/etc/machine-id": "machine\n",
    "/sys/class/dmi/id/product_uuid": "product\n",
    "/etc/os-release": 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\n',
}


class Machine:
    """The files, the processor and the network of a machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files = dict(FILES)
        self.routes: Mapping[socket.AddressFamily, str] = {socket.AF_INET: "192.0.2.2"}
        machine = self

        def read_text(path: Path, *_: object) -> str:
            if str(path) not in machine.files:
                raise FileNotFoundError(str(path))
            return machine.files[str(path)]

        class Probe:
            """A datagram socket that has the source address of its route once it is connected."""

            def __init__(self, family: socket.AddressFamily, kind: socket.SocketKind) -> None:
                assert kind == socket.SOCK_DGRAM, "nothing is sent"
                self._family, self._address = family, "unbound"

            def __enter__(self) -> "Probe":
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def connect(self, _target: Any) -> None:
                if self._family not in machine.routes:
                    raise OSError("Network is unreachable")
                self._address = machine.routes[self._family]

            def getsockname(self) -> tuple[str, int]:
                return self._address, 40_000

        monkeypatch.setattr(Path, "read_text", read_text)
        monkeypatch.setattr(socket, "socket", Probe)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_the_facts_of_a_machine(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(platform, "uname", lambda: SimpleNamespace(release="6.1.0", machine="x86_64"))
    facts = read_machine(tmp_path)
    assert (facts.machine_id, facts.system_uuid, facts.boot_id) == ("machine", "product", "boot")
    assert (facts.kernel, facts.os_image, facts.architecture) == ("6.1.0", "Debian GNU/Linux 12 (bookworm)", "amd64")
    assert (facts.cpus, facts.memory, facts.addresses) == (6, 4096 * 1024, ("192.0.2.2",))


@pytest.mark.parametrize(("enabled", "has_it"), [("Y\n", True), ("N\n", False), (None, False)])
def test_whether_the_kernel_has_apparmor(machine: Machine, tmp_path: Path, enabled: str | None, has_it: bool) -> None:
    if enabled is not None:
        machine.files["/sys/module/apparmor/parameters/enabled"] = enabled
    assert read_machine(tmp_path).has_apparmor is has_it


def test_huge_pages_are_read_by_their_size(tmp_path: Path) -> None:
    """A size without any is left out, and so is what cannot be read."""
    for name, number in (("hugepages-2048kB", "512"), ("hugepages-1048576kB", "0"), ("hugepages-64kB", "?")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "nr_hugepages").write_text(f"{number}\n")
    (tmp_path / "hugepages-32768kB").mkdir()
    assert read_huge_pages(tmp_path) == {"hugepages-2Mi": 1 << 30}
    assert read_huge_pages(tmp_path / "none") == {}


def test_the_facts_of_a_machine_that_tells_little(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A board without DMI has no UUID of its own."""
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    machine.files["/etc/os-release"] = "ID=buildroot\n"
    del machine.files["/sys/class/dmi/id/product_uuid"]
    facts = read_machine(tmp_path)
    assert (facts.system_uuid, facts.os_image, facts.cpus) == ("machine", "Linux", 1)


@pytest.mark.parametrize(
    ("kernels", "go"), [("x86_64", "amd64"), ("aarch64", "arm64"), ("armv7l", "arm"), ("riscv64", "riscv64")]
)
@pytest.mark.usefixtures("machine")
def test_the_architecture_is_named_as_images_name_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kernels: str, go: str
) -> None:
    """Selectors of pods name Go's architectures in `kubernetes.io/arch`."""
    monkeypatch.setattr(platform, "uname", lambda: SimpleNamespace(release="6.1.0", machine=kernels))
    assert read_machine(tmp_path).architecture == go


@pytest.mark.parametrize(("meminfo", "available"), [("", 120), ("MemTotal: 4096 kB\nMemFree: 100 kB\n", 100)])
def test_free_memory_and_inactive_pages_of_files_are_available(
    machine: Machine, tmp_path: Path, meminfo: str, available: int
) -> None:
    """A kubelet's capacity less the working set; a kernel may not count inactive pages."""
    machine.files["/proc/meminfo"] = meminfo or machine.files["/proc/meminfo"]
    usage = read_usage(tmp_path)
    assert (usage.memory_available, usage.memory) == (available * 1024, 4096 * 1024)


@pytest.mark.parametrize(
    ("most", "threads", "pids"), [("4194304", "31000", 31_000), ("32768", "63000", 32_768), ("32768", None, 32_768)]
)
def test_the_lower_limit_of_processes_and_threads_counts(
    machine: Machine, tmp_path: Path, most: str, threads: str | None, pids: int
) -> None:
    """Threads that exist are counted, not the last process id."""
    machine.files["/proc/sys/kernel/pid_max"] = most
    if threads is None:
        del machine.files["/proc/sys/kernel/threads-max"]
    else:
        machine.files["/proc/sys/kernel/threads-max"] = threads
    usage = read_usage(tmp_path)
    assert (usage.pids, usage.pids_free) == (pids, pids - 400)


@pytest.mark.parametrize("file", ["/proc/meminfo", "/proc/loadavg", "/proc/sys/kernel/pid_max"])
def test_usage_is_unknown_without_the_kernels_files(machine: Machine, tmp_path: Path, file: str) -> None:
    del machine.files[file]
    with pytest.raises(MachineError):
        read_usage(tmp_path)


@pytest.mark.parametrize(
    ("routes", "addresses"),
    [
        ({socket.AF_INET: "192.0.2.2"}, ("192.0.2.2",)),
        ({socket.AF_INET6: "2001:db8::2"}, ("2001:db8::2",)),
        ({socket.AF_INET6: "2001:db8::2", socket.AF_INET: "192.0.2.2"}, ("192.0.2.2", "2001:db8::2")),
        ({}, ("127.0.0.1",)),
    ],
)
def test_the_default_routes_choose_the_addresses(
    machine: Machine, routes: Mapping[socket.AddressFamily, str], addresses: tuple[str, ...]
) -> None:
    machine.routes = routes
    assert default_addresses() == addresses


def test_usage_of_pods_is_measured_where_it_can_be(tmp_path: Path) -> None:
    """The runtime and whether files are counted now are passed on."""
    runtime, asked = FakeRuntime(Simulation(1)), list[object]()

    def consumption(of: object, anew: bool) -> tuple[PodUsage, ...]:
        asked.append((of, anew))
        return (PodUsage("u"),)

    measured = MachineInfo(consumption)
    assert measured.pods(runtime) == measured.pods(runtime, anew=True) == (PodUsage("u"),)
    assert asked == [(runtime, False), (runtime, True)]
    assert MachineInfo().pods(runtime) == ()
    assert measured.usage(tmp_path).memory == measured.machine(tmp_path).memory > 0
