"""Somebody flushes the firewall of a machine whose pods run."""

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from beehive.clock import RealClock, Timer
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.rule_watch import AttachedSandbox
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.network.machine import needs_plugins, script
from tests.modules.runtimes.oci.network.own_machine import BESIDE, BOTH, HERE, OwnMachine
from tests.modules.runtimes.process.node import eventually
from tests.support.slow import one_in

pytestmark = [needs_plugins, pytest.mark.usefixtures("drops_packets")]

PORT = cri.PortMapping(container_port=80, host_port=8080)


class TurnedClock(RealClock):
    """The machine's clock, whose repeated timers fire when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.repeated: dict[Timer, Callable[[], None]] = {}

    def every(self, seconds: float, function: Callable[[], None], *, jitter: float = 0.0) -> Timer:
        """Keep the function; the test calls it."""
        timer = super().every(3600.0 * seconds, function, jitter=jitter)
        self.repeated[timer] = function
        return timer

    def due(self) -> list[Callable[[], None]]:
        """The functions of timers that are not cancelled."""
        return [function for timer, function in self.repeated.items() if timer.active]


@pytest.fixture
def clock() -> Iterator[TurnedClock]:
    """A clock for all parts."""
    made = TurnedClock()
    yield made
    made.close()


def flush(machine: OwnMachine) -> None:
    """What reloading a firewall does."""
    for program in ("iptables", "ip6tables"):
        for table in ("filter", "nat"):
            machine.sh(f"{program} -w -t {table} -F")
            machine.sh(f"{program} -w -t {table} -X")


def rules(machine: OwnMachine) -> list[str]:
    """All rules in order, without counters and dates."""
    lines = (machine.sh("iptables-save") + machine.sh("ip6tables-save")).splitlines()
    return sorted(line for line in lines if line.startswith("-A "))


def assert_served(machine: OwnMachine, address: str, *, pod: str = "p1", there: str = "") -> None:
    """Assert that a connection of the other network to the host port arrives in the pod."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = in_network_namespace(machine.pod(pod), lambda: socket.create_server(("", 80), family=family))
    server.settimeout(60)
    with server:
        client = in_network_namespace(machine.beside, lambda: socket.create_connection((address, 8080), 60))
        with client, server.accept()[0] as accepted:
            assert accepted.getpeername()[0] == there


def assert_refused(machine: OwnMachine, address: str) -> None:
    """Assert that the host port leads nowhere."""
    with pytest.raises(ConnectionRefusedError):
        in_network_namespace(machine.beside, lambda: socket.create_connection((address, 8080), 60))


def test_pods_are_reached_again_after_the_next_look(machine: OwnMachine) -> None:
    """With the same rules as before, for both families; a look that finds all changes nothing."""
    machine.up("p1", PORT)
    before = rules(machine)
    machine.do(machine.network.check_rules)
    assert rules(machine) == before
    for _ in range(2):
        flush(machine)
        for address in HERE:
            assert_refused(machine, address)
        machine.do(machine.network.check_rules)
        for address, there in zip(HERE, BESIDE, strict=True):
            assert_served(machine, address, there=there)
        assert rules(machine) == before
    machine.down("p1")
    assert "CNI-DN" not in "".join(rules(machine))


@pytest.mark.parametrize("lost", one_in(3, ["-F CNI-HOSTPORT-DNAT", "-F PREROUTING", "-F OUTPUT"]))
def test_parts_of_the_rules_come_back(machine: OwnMachine, lost: str) -> None:
    """Any missing ones; other pods' rules stay as they are."""
    machine.up("p1", PORT)
    machine.up("p2", cri.PortMapping(container_port=80, host_port=8081))
    before = rules(machine)
    machine.sh(f"iptables -w -t nat {lost}")
    assert rules(machine) != before
    machine.do(machine.network.check_rules)
    assert rules(machine) == before
    assert_served(machine, HERE[0], there=BESIDE[0])


def test_the_chain_of_one_pod_comes_back(machine: OwnMachine) -> None:
    """Its jump leads into an empty chain."""
    machine.up("p1", PORT)
    before = rules(machine)
    chain = next(line.rpartition(" ")[2] for line in before if "multiport" in line)
    machine.sh(f"iptables -w -t nat -F {chain}")
    machine.do(machine.network.check_rules)
    assert rules(machine) == before


def test_pods_of_an_earlier_start_are_looked_after(machine: OwnMachine) -> None:
    """Immediately, from their stored attachments."""
    machine.up("p1", PORT)
    before = rules(machine)
    machine.network.close()
    flush(machine)
    with closing(machine.pods_on(machine.network_of(BOTH))) as later:
        netns = machine.pod("p1")
        machine.do(lambda: later.watch({"p1": AttachedSandbox(machine.home("p1"), lambda: netns)}))
        eventually(lambda: rules(machine) == before)
    assert_served(machine, HERE[0], there=BESIDE[0])


def test_there_are_looks_while_pods_exist(machine: OwnMachine, clock: TurnedClock) -> None:
    """From the first on, until the last has gone."""
    assert clock.due() == []
    machine.up("p1")
    machine.up("p2", PORT)
    (look,) = clock.due()
    before = rules(machine)
    flush(machine)
    machine.do(look)
    eventually(lambda: rules(machine) == before)
    machine.down("p1")
    assert clock.due() == [look]
    machine.down("p2")
    assert clock.due() == []


def test_a_look_is_one_process(machine: OwnMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each IP version, however many pods there are."""
    network = machine.pods_on(machine.network_of(("10.86.0.0/16",)))
    for number in range(3):
        port = cri.PortMapping(container_port=80, host_port=8080 + number)
        machine.up(f"q{number}", port, network=network)
    log = tmp_path / "log"
    for program in ("iptables", "iptables-save", "iptables-restore", "ip6tables-save"):
        script(tmp_path / "bin", program, f'echo {program} >> {log}; exec {shutil.which(program)} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    machine.do(network.check_rules)
    network.close()
    assert log.read_text().split() == ["iptables-save"]


def test_rules_that_are_not_seen_are_made_again_once(
    machine: OwnMachine, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a portmap that uses nftables; nor does a failure fill the log."""
    machine.up("p1", PORT)
    with monkeypatch.context() as patch:
        script(tmp_path, "iptables-save", "exit 0")
        script(tmp_path, "ip6tables-save", "exit 0")
        patch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        for _ in range(3):
            machine.do(machine.network.check_rules)
        assert caplog.text.count("are not iptables' own") == 1
        script(tmp_path, "iptables-save", "echo no table >&2; exit 4")
        for _ in range(3):
            machine.do(machine.network.check_rules)
    assert caplog.text.count("no table") == 1
