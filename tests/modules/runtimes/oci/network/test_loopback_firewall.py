"""Pods do not reach what listens on the machine's 127.0.0.1, whatever packets they make (CVE-2020-8558)."""

import json
import socket
import struct
from contextlib import ExitStack
from itertools import count

import pytest

from beehive.clock import RealClock
from modules.processes.edgecore.loopback import LoopbackWatch
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.loopback_firewall import LoopbackFirewall
from modules.runtimes.oci.network.pod_network import PodNetwork
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.network.machine import needs_plugins, script
from tests.modules.runtimes.oci.network.own_machine import BRIDGE, OwnMachine
from tests.support.patience import PATIENCE

pytestmark = needs_plugins

PORT = cri.PortMapping(container_port=80, host_port=8080, protocol=cri.TCP)
_SERVICE = 10550
"""The port of the metaserver; a packet does not tell what listens there."""
_SYN, _SYN_ACK = 0x02, 0x12
_IPV4 = 0x0800
_PORTS = count(40000)
"""Each packet has another source port: the kernel remembers connections."""


def checksum(content: bytes) -> int:
    """The checksum of IP and TCP."""
    total: int = sum(struct.unpack(f"!{len(content) // 2}H", content))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def syn(source: str, target: str, sport: int) -> bytes:
    """The IP packet that begins a connection to the service."""
    addresses = socket.inet_aton(source) + socket.inet_aton(target)
    ports = struct.pack("!HHIIBB", sport, _SERVICE, 1000, 0, 5 << 4, _SYN)
    sum_of = checksum(addresses + struct.pack("!HH", 6, 20) + ports + struct.pack("!HHH", 64240, 0, 0))
    segment = ports + struct.pack("!HHH", 64240, sum_of, 0)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 40, sport, 0, 64, 6, 0) + addresses
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + segment


class Attacker:
    """A program with NET_RAW in a pod: it writes frames of its own to the bridge."""

    def __init__(self, machine: OwnMachine, pod: str, address: str) -> None:
        self._netns, self._address = machine.pod(pod), address
        line = machine.sh(f"ip -o link show {BRIDGE}")
        self._bridge = bytes.fromhex(line.split("link/ether ")[1].split()[0].replace(":", ""))

    def answered(self, target: str, gateway: str, source: str = "") -> bool:
        """Return whether a SYN to the target is answered before one to the gateway, which is sent after it, is."""

        def attack() -> bool:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_IPV4)) as raw:
                raw.bind(("eth0", 0))
                raw.settimeout(PATIENCE)
                own = raw.getsockname()[4]
                ports = {next(_PORTS): target, next(_PORTS): gateway}
                for sport, to in ports.items():
                    sender = source if source and to == target else self._address
                    raw.send(self._bridge + own + struct.pack("!H", _IPV4) + syn(sender, to, sport))
                while True:
                    frame = raw.recv(2048)
                    if frame[23] == 6 and frame[47] & _SYN_ACK == _SYN_ACK:
                        (answered,) = struct.unpack("!H", frame[36:38])
                        if answered in ports:
                            return ports[answered] == target

        return in_network_namespace(self._netns, attack)


def assert_kept_out(machine: OwnMachine, pod: str, address: str, gateway: str) -> None:
    """Assert that the service is reached at the bridge's address and not at 127.0.0.1, whatever the packet says."""
    with machine.do(lambda: socket.create_server(("0.0.0.0", _SERVICE))):  # noqa: S104 - in a network of the test's
        attacker = Attacker(machine, pod, address)
        for target in ("127.0.0.1", "127.86.0.1"):
            assert not attacker.answered(target, gateway)
        assert not attacker.answered("127.0.0.1", gateway, source="127.0.0.9")


def test_a_pod_does_not_reach_the_machines_loopback(machine: OwnMachine) -> None:
    """Though a host port has made the kernel take such packets; the host port itself works at 127.0.0.1."""
    addresses = machine.up("p1", PORT)
    assert machine.sh(f"sysctl -n net.ipv4.conf.{BRIDGE}.route_localnet") == "1\n"
    assert_kept_out(machine, "p1", addresses.ip, "10.86.0.1")
    (masquerade,) = (
        rule for rule in machine.sh("iptables -w -t nat -S POSTROUTING").splitlines() if "edgecore: pods of" in rule
    )
    assert masquerade.endswith("-j MASQUERADE --random-fully"), "nobody outside can guess a port"
    with (
        in_network_namespace(machine.pod("p1"), lambda: socket.create_server(("", 80))) as server,
        machine.do(lambda: socket.create_connection(("127.0.0.1", 8080), PATIENCE)) as client,
    ):
        server.accept()[0].close()
        assert client.recv(1) == b""


def test_the_rule_is_there_before_the_plugins_and_first(machine: OwnMachine) -> None:
    """Another firewall's rule that accepts all packets of pods does not let these pass."""
    machine.sh(f"iptables -w -A INPUT -i {BRIDGE} -j ACCEPT")
    script(machine.directory / "bin", "bridge", "iptables-save >&2; exit 1")
    network = PodNetwork(machine.directory / "net.d", [machine.directory / "bin"], RealClock(), default=machine.default)
    with pytest.raises(Exception, match="bridge"):
        machine.up("p1", network=network)
    rules = machine.sh("iptables -w -S INPUT").splitlines()
    assert rules[1].startswith("-A INPUT -d 127.0.0.0/8 ! -i lo ")
    assert rules[1].endswith("-j DROP")


def test_it_comes_back_after_a_reload(machine: OwnMachine) -> None:
    """With the look for rules that happens once a minute; there is one rule, however many pods and starts."""
    addresses = machine.up("p1", PORT)
    before = machine.sh("iptables -w -S INPUT")
    machine.sh("iptables -w -F INPUT")
    machine.do(machine.network.check_rules)
    machine.up("p2", network=machine.pods_on(machine.default))
    assert machine.sh("iptables -w -S INPUT") == before
    assert_kept_out(machine, "p1", addresses.ip, "10.86.0.1")
    machine.do(LoopbackFirewall(RealClock()).remove)
    assert machine.sh("iptables -w -S INPUT") == "-P INPUT ACCEPT\n"


def test_a_configured_network_has_the_rule_as_well(machine: OwnMachine) -> None:
    """It is there before the pod, and comes back, also for a pod without host ports."""
    ipam = {"type": "host-local", "subnet": "10.99.0.0/24", "dataDir": str(machine.directory / "others")}
    plugins = [
        {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "ipam": ipam},
        {"type": "portmap", "snat": True, "capabilities": {"portMappings": True}},
    ]
    (machine.directory / "net.d").mkdir()
    content = {"cniVersion": "1.0.0", "name": "mine", "plugins": plugins}
    (machine.directory / "net.d" / "1.conflist").write_text(json.dumps(content))
    addresses = machine.up("p1", PORT)
    other = machine.up("p2")
    machine.down("p1")
    assert_kept_out(machine, "p2", other.ip, "10.99.0.1")
    machine.sh("iptables -w -F INPUT")
    machine.do(machine.network.check_rules)
    assert_kept_out(machine, "p2", other.ip, "10.99.0.1")
    assert addresses.ip != other.ip


def test_a_configured_network_may_do_without_iptables(
    machine: OwnMachine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its pods start, and the log says once what they may reach."""
    (machine.directory / "net.d").mkdir()
    content = {"cniVersion": "1.0.0", "name": "mine", "type": "loopback"}
    (machine.directory / "net.d" / "1.conf").write_text(json.dumps(content))
    script(
        machine.directory / "bin", "loopback", 'echo \'{"cniVersion": "1.0.0", "ips": [{"address": "10.9.0.2/24"}]}\''
    )
    network = PodNetwork(machine.directory / "net.d", [machine.directory / "bin"], RealClock())
    with ExitStack() as stack, monkeypatch.context() as patch:
        stack.callback(network.close)
        script(machine.directory / "none", "nothing", "")
        patch.setenv("PATH", str(machine.directory / "none"))
        machine.up("p1", network=network)
        machine.up("p2", network=network)
    assert caplog.text.count("may reach what listens on 127.0.0.1") == 1


def test_beside_another_runtime_the_rule_comes_when_it_is_needed(machine: OwnMachine) -> None:
    """With containerd, whose plug-ins edgecore does not call: before, no rule is made."""
    watch = LoopbackWatch(RealClock())
    machine.do(watch.reconcile)
    assert machine.sh("iptables -w -S INPUT") == "-P INPUT ACCEPT\n"
    machine.sh("sysctl -q net.ipv4.conf.outside.route_localnet=1")
    for _ in range(2):
        machine.do(watch.reconcile)
        (rule,) = machine.sh("iptables -w -S INPUT").splitlines()[1:]
        assert rule.startswith("-A INPUT -d 127.0.0.0/8 ! -i lo ")
