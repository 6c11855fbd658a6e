"""What doctor finds about the network of pods, on a machine of the test's own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive.clock import RealClock
from modules.processes.edgecore.config import EdgeCoreConfig, loads
from modules.processes.edgecore.doctor import pod_network
from modules.runtimes.oci.network.namespaces import PodNamespaces
from tests.modules.runtimes.oci.network.machine import needs_plugins, network_directory
from tests.modules.runtimes.oci.network.own_machine import BRIDGE, OwnMachine, own_machine

CONFIG = """
apiVersion: edgecore.config.kubeedge.io/v1alpha2
kind: EdgeCore
modules:
  edged:
    rootDirectory: {root}
    cniConfDir: {root}/net.d
    tailoredKubeletConfig:
      containerRuntimeEndpoint: embedded://oci
"""


def node(root: Path, *plugins: dict[str, Any]) -> EdgeCoreConfig:
    """A node with a CNI configuration of these plug-ins, or none."""
    if plugins:
        (root / "net.d").mkdir()
        content = {"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}
        (root / "net.d" / "1.conflist").write_text(json.dumps(content))
    return loads(CONFIG.format(root=root)).config


def programs(directory: Path, *names: str) -> Path:
    """A directory with programs."""
    directory.mkdir()
    for name in names:
        (directory / name).touch(mode=0o755)
    return directory


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network of a node with root; ordinary users have edgecore's own only."""
    monkeypatch.setattr(pod_network, "is_rootless", lambda _: False)


def test_all_programs_of_edgecores_own_network_are_looked_for(tmp_path: Path) -> None:
    """The plug-ins', the one for their addresses, and iptables."""
    plugins = programs(tmp_path / "cni", "bridge", "portmap")
    found = pod_network.needs(node(tmp_path), (tmp_path / "none", plugins), str(tmp_path))
    assert found.missing == ("iptables", "CNI plug-ins (bandwidth, host-local)")
    assert (found.source, found.problem) == ("", "")


def test_all_programs_of_a_configuration_are_looked_for(tmp_path: Path) -> None:
    """Only those."""
    plugins, searched = programs(tmp_path / "cni", "macvlan"), programs(tmp_path / "bin", "iptables")
    config = node(tmp_path, {"type": "macvlan", "ipam": {"type": "dhcp"}}, {"type": "tuning"})
    found = pod_network.needs(config, (plugins,), str(searched))
    assert found.missing == ("CNI plug-ins (tuning, dhcp)",)
    assert found.source == str(tmp_path / "net.d" / "1.conflist")


def test_a_spoilt_configuration_is_named(tmp_path: Path) -> None:
    """With the reason."""
    config = node(tmp_path, {"type": "a/b"})
    assert "'a/b' is no type of a plug-in" in pod_network.needs(config).problem


@pytest.fixture
def machine() -> Iterator[OwnMachine]:
    """A machine of the test's own."""
    clock = RealClock()
    with network_directory() as directory:
        namespaces = PodNamespaces(directory / "ns")
        try:
            with own_machine(directory, namespaces, clock) as made:
                yield made
        finally:
            namespaces.remove()
            clock.close()


@needs_plugins
def test_packets_that_are_not_forwarded(machine: OwnMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a switch of the kernel, or by a firewall without edgecore's rules, if those can be read."""
    config = node(machine.directory)
    machine.sh("iptables -w -P FORWARD DROP")
    assert machine.do(lambda: pod_network.needs(config)).dropping == (), "no pod, no rules"
    machine.up("a1")
    found = machine.do(lambda: pod_network.needs(config))
    assert (found.missing, found.bridge, found.switched_off, found.dropping) == ((), BRIDGE, (), ())
    machine.sh("iptables -w -F FORWARD")
    machine.do(lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("0"))
    machine.sh("ip6tables -w -F FORWARD")
    machine.sh("ip6tables -w -A FORWARD -j REJECT")
    found = machine.do(lambda: pod_network.needs(config))
    assert (found.switched_off, found.dropping) == (("net.ipv4.ip_forward",), ("iptables", "ip6tables"))
    monkeypatch.setenv("PATH", str(machine.directory))
    assert machine.do(lambda: pod_network.needs(config)).dropping == ()


@needs_plugins
def test_a_configured_bridge_beside_docker(machine: OwnMachine) -> None:
    """It needs rules of the user's, unless the plug-in firewall makes them."""
    ipam = {"type": "host-local", "subnet": "10.97.0.0/24", "dataDir": str(machine.directory / "leases")}
    bridge = {"type": "bridge", "bridge": "other0", "isGateway": True, "ipam": ipam}
    config = node(machine.directory, bridge)
    machine.sh("iptables -w -P FORWARD DROP")
    machine.up("b1")
    assert machine.do(lambda: pod_network.needs(config)).dropping == ("iptables",)
    machine.sh("iptables -w -I FORWARD -i other0 -j ACCEPT")
    assert machine.do(lambda: pod_network.needs(config)).dropping == ()
