"""The rules and parameters that a real pod network sets are those of the table in docs/security.md, both ways."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.network.kernel import in_network_namespace, on_own_thread
from modules.runtimes.oci.network.namespaces import PodNamespaces
from modules.runtimes.shim.kernel import NEW_NETWORK_NAMESPACE, unshare
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.network.machine import needs_plugins
from tests.modules.runtimes.oci.network.own_machine import BRIDGE, OwnMachine, own_machine
from tests.support.security_table import literals, modes, rows

PORT: Final = cri.PortMapping(container_port=80, host_port=8080)
_REPOSITORY: Final = Path(__file__).parents[5]
_PRODUCT: Final = ("beehive", "edgecore_mapper", "edged", "edgehub", "metamanager", "modules")
_SYSCTLS: Final = Path("/proc/sys/net")
_PODS_OWN: Final = "a pod's `ip_unprivileged_port_start`, `ping_group_range`"
_KERNELS: Final = (".mtu", ".nf_conntrack_count", ".accept_redirects")
"""Ends of parameters that the kernel sets itself, the last one as forwarding is switched on."""
_NOT_SET: Final = (
    "chains of Services, `bridge-nf-call-iptables`, conntrack's sizes and times",
    "`vm.overcommit_memory`, `vm.panic_on_oom`, `kernel.panic`, `kernel.panic_on_oops`, `kernel.keys.*`",
)
FACTS: Final = {
    "packets for 127.0.0.0/8 from elsewhere": r"-A INPUT -d 127\.0\.0\.0/8 ",
    "the node's address for pods": r"-A POSTROUTING -s \S+ ! -d .*-j MASQUERADE",
    "forwarding": r"-A FORWARD -[io] edgecore0|net\.ipv4\.ip_forward|net\.ipv[46]\.conf\.[a-z]+\.forwarding",
    "host ports": r"-A CNI-|.* -j CNI-",
    "`route_localnet`": r".*\.route_localnet$",
    "a pod's MAC and addresses": r"table bridge edgecore-pods$",
    "addresses of a bridge": r"net\.ipv6\.conf\.(edgecore0|veth)\.accept_(ra|dad)|no_linklocal_learn$",
}
"""By row of the table, what it is about."""
_ELSEWHERE: Final = {"packets for ::1 from elsewhere", "a flushed firewall", *_NOT_SET, _PODS_OWN}
"""Rows of what is not set, or is compared by another test of this directory or of this file."""
_WORDS: Final = {"route_localnet", "portmap", "hostPort", "firewall"}
"""Literals of the cells that are no rules or parameters."""


@pytest.fixture
def machine(directory: Path, namespaces: PodNamespaces, clock: RealClock) -> Iterator[OwnMachine]:
    """A machine that has made nothing yet."""
    with own_machine(directory, namespaces, clock) as made:
        made.sh("ip link set lo up")
        for name in ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"):
            made.do(lambda name=name: Path("/proc/sys", name).write_text("0"))  # type: ignore[misc]
        yield made


def parameters() -> dict[str, str]:
    """The parameters of this network namespace, without those of the kernel's own making."""
    found = {}
    for each in _SYSCTLS.rglob("*"):
        name = str(each.relative_to("/proc/sys")).replace("/", ".")
        if each.is_file() and ".neigh." not in name and not name.endswith(_KERNELS):
            try:
                found[name] = each.read_text().strip()
            except OSError:  # it can only be written, or is not there for this user
                continue
    return found


def default_of(name: str, known: dict[str, str]) -> str | None:
    """The value that a new interface's parameter has if nobody sets it."""
    return known.get(re.sub(r"\.conf\.[^.]+\.", ".conf.default.", name))


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """The parameters that were set. The names of veths are drawn at random."""
    found = {name for name, value in after.items() if value != before.get(name, default_of(name, after))}
    return {re.sub(r"\.veth[^.]+\.", ".veth.", name) for name in found}


def facts(machine: OwnMachine) -> set[str]:
    """Run a pod with a host port; return all that this has set on the machine."""
    before = machine.do(parameters)
    machine.up("p1", PORT)
    found = changed(before, machine.do(parameters))
    for program in ("iptables-save", "ip6tables-save"):
        found |= {line for line in machine.sh(program).splitlines() if line.startswith("-A ")}
    found |= {line for line in machine.sh("nft list tables").splitlines() if line.startswith("table bridge")}
    if "no_linklocal_learn 1" in machine.sh(f"ip -d link show {BRIDGE}"):
        found.add("no_linklocal_learn")
    return found


@needs_plugins
def test_settings_of_a_pod_network_are_in_the_table(machine: OwnMachine) -> None:
    """Each rule and parameter belongs to one row, each row has some, and its words are theirs."""
    table, found = rows(), facts(machine)
    of_rows: dict[str, set[str]] = {row: set() for row in FACTS}
    for fact in found:
        owners = [row for row, pattern in FACTS.items() if re.match(pattern, fact)]
        assert len(owners) == 1, f"{fact} is in the rows {owners}"
        of_rows[owners[0]].add(fact)
    for row, its in of_rows.items():
        assert its, f"nothing sets: {row}"
        text = "\n".join(its)
        lost = {each for each in literals(table[row]) - _WORDS if each not in text}
        assert not lost, f"the row {row} has what nobody sets: {lost}"


def test_rows_without_rules_and_parameters_are_known() -> None:
    """So a new row wants a test."""
    table = rows()
    with_modes = {row for row, text in table.items() if modes(text)}
    assert set(table) == set(FACTS) | _ELSEWHERE | with_modes


@needs_plugins
def test_a_pods_own_parameters(namespaces: PodNamespaces) -> None:
    """What is different in its namespace from a new one, and nothing else."""

    def untouched() -> dict[str, str]:
        unshare(NEW_NETWORK_NAMESPACE)
        return parameters()

    paths = namespaces.pin("p1", network=True, ipc=False, uts=False, hostname="", sysctls={})
    assert paths.network is not None
    new, own = on_own_thread(untouched), in_network_namespace(paths.network, parameters)
    found = {name: value for name, value in own.items() if value != new[name] and ".conf.lo." not in name}
    row = rows()[_PODS_OWN]
    assert set(found) == literals(row)
    assert [f"`{name}` {' to '.join(value.split())}" in row for name, value in found.items()] == [True, True]


def test_who_writes_parameters_of_the_kernel() -> None:
    """Three modules; what a fourth one sets wants a row. What is not set is named by no module that writes."""
    names = {part.removesuffix(".*").rpartition(".")[2] for row in _NOT_SET for part in literals(row)}
    assert "overcommit_memory" in names
    texts = {file: file.read_text() for top in _PRODUCT for file in (_REPOSITORY / top).rglob("*.py")}
    writers = {file.name for file, text in texts.items() if "/proc/sys" in text and ".write_text(" in text}
    assert writers == {"bridge.py", "node_network.py", "sysctls.py"}
    writing = {file for file, text in texts.items() if ".write_text(" in text or "write_bytes(" in text}
    assert not [file for file in writing if re.search("overcommit_memory|panic_on_oom", texts[file])]
