"""Debian's CNI plug-ins in this machine's kernel: addresses that are reached, and leases that come back."""

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from beehive.clock import RealClock
from modules.runtimes.engine.records import PodAddresses
from modules.runtimes.oci.network.capabilities import EGRESS, INGRESS
from modules.runtimes.oci.network.default_network import DefaultNetwork
from modules.runtimes.oci.network.errors import PodNetworkError
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.namespaces import PodNamespaces
from modules.runtimes.oci.network.pod_network import PodNetwork
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.network.machine import PLUGINS, needs_plugins, script
from tests.support.directories import mark
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

pytestmark = needs_plugins

NONE: Final[Mapping[str, str]] = {}


class RealMachine:
    """This machine, with a bridge for each test."""

    def __init__(self, directory: Path, namespaces: PodNamespaces, clock: RealClock) -> None:
        self.directory, self.namespaces, self.clock = directory, namespaces, clock
        number = os.getpid() % 200
        self.cidrs = [f"10.{87 + number % 10}.{number}.0/24", f"fd00:87:{number:x}::/64"]
        self.default = DefaultNetwork(clock, self.cidrs, f"ect{mark()}{os.getpid()}", directory / "leases")
        self.network = PodNetwork(directory / "net.d", [PLUGINS], clock, default=self.default)

    def up(
        self,
        sandbox_id: str,
        *ports: cri.PortMapping,
        annotations: Mapping[str, str] = NONE,
        sysctls: Mapping[str, str] = NONE,
    ) -> PodAddresses:
        """Run a sandbox."""
        netns = self.namespaces.pin(sandbox_id, network=True, ipc=False, uts=False, hostname="", sysctls={}).network
        assert netns is not None
        self.home(sandbox_id).mkdir(exist_ok=True)
        config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="a", namespace="b"), port_mappings=ports)
        config.linux.sysctls.update(sysctls)
        config.annotations.update(annotations)
        return self.network.attach(sandbox_id, self.home(sandbox_id), netns, config)

    def down(self, sandbox_id: str) -> None:
        """Stop a sandbox."""
        self.network.detach(sandbox_id, self.home(sandbox_id), self.netns(sandbox_id))
        self.namespaces.unpin(sandbox_id)

    def netns(self, sandbox_id: str) -> Path | None:
        """Its network."""
        paths = self.namespaces.pinned(sandbox_id)
        return paths.network if paths else None

    def home(self, sandbox_id: str) -> Path:
        """Its directory."""
        return self.directory / sandbox_id

    def leases(self) -> set[str]:
        """The addresses in use."""
        found = (self.directory / "leases" / "edgecore").glob("*.*.*.*")
        return {path.name for path in found}

    def serve(self, sandbox_id: str, port: int) -> socket.socket:
        """Listen in the sandbox."""
        netns = self.netns(sandbox_id)
        assert netns is not None
        return in_network_namespace(netns, lambda: socket.create_server(("0.0.0.0", port)))  # noqa: S104 - in the pod


@pytest.fixture
def machine(directory: Path, namespaces: PodNamespaces, clock: RealClock) -> Iterator[RealMachine]:
    """A machine whose bridge, rule and leases are gone afterwards."""
    made = RealMachine(directory, namespaces, clock)
    try:
        yield made
    finally:
        for sandbox_id in namespaces.sandboxes():
            made.network.detach(sandbox_id, made.home(sandbox_id), made.netns(sandbox_id))
        made.default.remove()
        assert not (made.directory / "leases").exists()
        assert made.cidrs[0] not in rules()
        assert not Path(f"/sys/class/net/ect{mark()}{os.getpid()}").exists()


def rules() -> str:
    """The machine's NAT rules."""
    return subprocess.run(["iptables", "-w", "-t", "nat", "-S"], check=True, capture_output=True, text=True).stdout


def limits() -> set[str]:
    """The kernel's rate limits of interfaces."""
    said = subprocess.run(["tc", "qdisc", "show"], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"tbf .* rate (\S+)", said))


def limits_of_bridge() -> list[str]:
    """The interfaces at this test's bridge that have a limit."""
    members = Path(f"/sys/class/net/ect{mark()}{os.getpid()}/brif")
    found = []
    for each in members.iterdir():
        shown = ["tc", "qdisc", "show", "dev", each.name]
        if "tbf" in subprocess.run(shown, check=False, capture_output=True, text=True).stdout:
            found.append(each.name)
    return found


def reaches(address: str, port: int, listening: socket.socket) -> bool:
    """Whether a connection arrives."""
    with socket.create_connection((address, port), timeout=PATIENCE), listening.accept()[0]:
        return True


def test_the_machine_reaches_a_pod_and_the_pod_the_machine(machine: RealMachine) -> None:
    """By the addresses of both families that its network gives; a sysctl of the interface is set."""
    assert machine.network.status().ready
    addresses = machine.up("a1", sysctls={"net.ipv4.conf.eth0.arp_ignore": "1"})
    assert addresses.ip.startswith(machine.cidrs[0].rpartition(".")[0])
    assert addresses.additional[0].startswith("fd00:87:")
    with machine.serve("a1", 80) as listening:
        assert reaches(addresses.ip, 80, listening)
    netns = machine.netns("a1")
    assert netns is not None
    gateway = machine.cidrs[0].replace(".0/24", ".1")
    with socket.create_server((gateway, 0)) as listening:
        port = listening.getsockname()[1]
        assert in_network_namespace(netns, lambda: reaches(gateway, port, listening))
    text = in_network_namespace(netns, Path("/proc/sys/net/ipv4/conf/eth0/arp_ignore").read_text)
    assert text.strip() == "1"


def test_one_rule_serves_all_pods(machine: RealMachine) -> None:
    """However many there are; a pod without host ports makes no rule."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(machine.up, [f"b{number}" for number in range(12)]))
    assert len({each.ip for each in found}) == 12
    assert rules().count(machine.cidrs[0]) == 2  # one rule names the range twice
    assert not any(f"{each.ip}/" in rules() for each in found)
    assert len(machine.leases()) == 12
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(machine.down, [f"b{number}" for number in range(12)]))
    assert machine.leases() == set()


def test_a_host_port_leads_into_the_pod(machine: RealMachine) -> None:
    """Also from the machine itself, at 127.0.0.1; DEL removes its rules."""
    port = free_port()
    addresses = machine.up("c1", cri.PortMapping(container_port=80, host_port=port))
    with machine.serve("c1", 80) as listening:
        assert reaches("127.0.0.1", port, listening)
    assert addresses.ip in rules()
    machine.down("c1")
    assert addresses.ip not in rules()


@pytest.mark.skipif(shutil.which("tc") is None, reason="there is no tc on this machine (apt-get install iproute2)")
def test_bandwidth_is_limited(machine: RealMachine) -> None:
    """By the annotations, in the kernel; DEL removes the limits."""
    machine.up("h1", annotations={INGRESS: "10M", EGRESS: "5M"})
    assert limits() >= {"10Mbit", "5Mbit"}
    assert len(limits_of_bridge()) == 1
    machine.down("h1")
    assert limits_of_bridge() == []


def test_leases_come_back_after_a_crash_and_a_restart(machine: RealMachine) -> None:
    """What was kept frees the address, with and without the namespace."""
    machine.up("d1")
    machine.up("d2")
    later = PodNetwork(machine.directory / "net.d", [PLUGINS], machine.clock, default=machine.default)
    later.detach("d1", machine.home("d1"), machine.netns("d1"))
    machine.namespaces.unpin("d2")
    later.detach("d2", machine.home("d2"), machine.netns("d2"))
    assert machine.leases() == set()


def test_addresses_of_lost_sandboxes_are_freed(machine: RealMachine) -> None:
    """In edgecore's own network all unknown ones'; in another network only those from before the last start."""
    addresses = machine.up("e1")
    machine.up("e2")
    (machine.home("e2") / "network.json").unlink()
    machine.network.collect({"e1"})
    assert machine.leases() == {addresses.ip}
    foreign = machine.directory / "net.d"
    foreign.mkdir()
    configuration = {"cniVersion": "1.0.0", "name": "edgecore", "plugins": machine.default.configuration.plugins}
    (foreign / "10-x.conflist").write_text(json.dumps(configuration))
    machine.network.collect(set())
    assert machine.leases() == {addresses.ip}
    os.utime(machine.directory / "leases" / "edgecore" / addresses.ip, (1, 1))
    machine.network.collect({"e1"})
    assert machine.leases() == {addresses.ip}
    machine.network.collect(set())
    assert machine.leases() == set()


def test_two_agents_on_one_machine_keep_their_addresses(machine: RealMachine) -> None:
    """They share the bridge. The start of one frees its own lost addresses and none of the other's."""
    one, two = (
        PodNetwork(machine.directory / "net.d", [PLUGINS], machine.clock, default=machine.default, owner=owner)
        for owner in ("1a", "2b")
    )
    machine.network = one
    kept = machine.up("g1")
    machine.network = two
    lost = machine.up("g2")
    (machine.home("g2") / "network.json").unlink()
    one.collect({"g1"})
    assert machine.leases() == {kept.ip, lost.ip}
    two.collect(set())
    assert machine.leases() == {kept.ip}
    assert machine.default.is_used()
    one.detach("g1", machine.home("g1"), machine.netns("g1"))
    assert not machine.default.is_used()


def test_the_plugins_own_error_is_reported(machine: RealMachine) -> None:
    """A range that is used up, as host-local says it; nothing is left of the attempt."""
    (machine.directory / "net.d").mkdir()
    small = {
        "type": "bridge", "bridge": f"ect{mark()}{os.getpid()}",
        "ipam": {"type": "host-local", "dataDir": str(machine.directory / "leases"), "subnet": "10.99.250.0/30"},
    }  # fmt: skip
    content = {"cniVersion": "0.3.1", "name": "edgecore", **small}
    (machine.directory / "net.d" / "1.conf").write_text(json.dumps(content))
    machine.up("f1")
    with pytest.raises(Exception, match=r"f2|no IP addresses available|failed to allocate"):
        machine.up("f2")
    assert len(machine.leases()) == 1
    assert not (machine.home("f2") / "network.json").exists()


def test_without_iptables_an_attachment_names_the_package(
    machine: RealMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pod without the rule that leads to other networks; nor with a rule that iptables refuses."""
    with monkeypatch.context() as patch, pytest.raises(PodNetworkError, match="apt-get install iptables"):
        patch.setenv("PATH", str(tmp_path))
        machine.up("i1")
    script(tmp_path, "iptables-save", "echo no table >&2; exit 4")
    with monkeypatch.context() as patch, pytest.raises(PodNetworkError, match="no table"):
        patch.setenv("PATH", f"{tmp_path}:/bin")
        machine.default.prepare()
