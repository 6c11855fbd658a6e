"""Connections of a host and of pods through real nftables rules, in network namespaces of the test's own."""

import select
import socket
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from beehive import Hive, Threads
from metamanager.module import MetaManager, MetaSettings
from metamanager.rows import row_of
from metamanager.store import open_store
from modules.apimachinery.types import encode
from modules.edge.edgemesh.counters import MeshCounters
from modules.edge.edgemesh.module import EdgeMesh, MeshSettings
from modules.edge.edgemesh.nft.addresses import HostAddresses
from modules.edge.edgemesh.nft.program import Nft, NftError
from modules.edge.edgemesh.nft.ruleset import deletion
from modules.edge.edgemesh.nft.watch import Loss, NftWatch
from modules.edge.edgemesh.plane import NamespacedPlane, PlaneError
from modules.edge.edgemesh.tables import Address, PortTable, target_to
from tests.end_to_end.processes import wait_until
from tests.modules.edge.edgemesh.machine import Machine, Pod, connect, needs_nft, own_machine
from tests.modules.edge.edgemesh.objects import NODE, endpoint, service, slice_of
from tests.support.patience import PATIENCE
from tests.support.stopping import stopping

pytestmark = needs_nft

WEB = "10.96.0.1"


def table(*endpoints: Address, **changes: Any) -> PortTable:
    """The port 80 of the Service `web`."""
    target = target_to(endpoints)
    made = PortTable(
        namespace="default", service="web", name="", protocol="tcp", port=80, is_ipv6=False, addresses=(WEB,),
        external=(), node_port=0, affinity=0, inside=target, outside=target, keeps_source=False,
        serving=frozenset(endpoints),
    )  # fmt: skip
    return made._replace(**changes)


def apply(plane: NamespacedPlane, *tables: PortTable, pods: tuple[Pod, ...] = ()) -> None:
    """Apply tables."""
    plane.apply({each.key: each for each in tables}, [each.address for each in pods])


@pytest.fixture
def machine() -> Iterator[Machine]:
    with own_machine() as made:
        yield made


@pytest.fixture
def plane(machine: Machine) -> NamespacedPlane:
    made = machine.plane()
    made.prepare()
    return made


def reached(
    machine: Machine | Pod, servers: dict[str, socket.socket], number: int, at: Address = (WEB, 80)
) -> Counter[str]:
    """The connections that each server gets, one after another."""
    found: Counter[str] = Counter()
    waiting = {server.fileno(): name for name, server in servers.items()}
    for _ in range(number):
        with machine.do(lambda: connect(*at)):
            found[waiting[_first(servers.values())]] += 1
    return found


def _first(servers: Iterable[socket.socket]) -> int:
    ready, _, _ = select.select(list(servers), [], [], PATIENCE)
    source_of(ready[0])
    return ready[0].fileno()


def source_of(server: socket.socket) -> str:
    """The source address of the next connection of a server, which is closed."""
    accepted, source = server.accept()
    accepted.close()
    return str(source[0])


def test_connections_are_shared_among_the_endpoints(machine: Machine, plane: NamespacedPlane) -> None:
    """Cases 1, 4, 19: from the host and from pods, a pod to itself included, on a machine without a default route."""
    pods = [machine.add_pod() for _ in range(2)]
    servers = {each.address: each.listen(8080) for each in pods}
    apply(plane, table(*((each.address, 8080) for each in pods)), pods=tuple(pods))
    clients: list[Machine | Pod] = [machine, *pods]
    for client in clients:
        shares = reached(client, servers, 40)
        assert all(4 <= shares[each.address] <= 36 for each in pods)  # 5σ


def test_pods_of_one_bridge_reach_each_other_without_the_kernels_bridge_filter(machine: Machine) -> None:
    """An answer would go from pod to pod with the pod's own address; so the other pod sees the node's."""
    plane = machine.plane(sees_bridges=False)
    plane.prepare()
    client, end = machine.add_pod(), machine.add_pod()
    server = end.listen(8080)
    apply(plane, table((end.address, 8080)), pods=(client, end))
    with client.do(lambda: connect(WEB, 80)):
        assert source_of(server) == "10.86.0.1"


@pytest.mark.parametrize("affinity", [0, 50])
def test_services_of_ipv6_are_reached_as_those_of_ipv4(machine: Machine, affinity: int) -> None:
    """By the host, and by a pod that may reach itself; at the ClusterIP, an external address and a node port."""
    pod = machine.add_pod()
    machine.sh("ip address add fd00:86::1/64 dev edgecore0 nodad")
    machine.do(lambda: Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1"))
    machine.sh("ip -6 route add 2001:db8::/64 dev edgecore0")
    pod.sh("ip address add fd00:86::2/64 dev eth0 nodad")
    pod.sh("ip -6 route add default via fd00:86::1")
    plane = machine.plane("fd00:96::/112")
    plane.prepare()
    ends = [("fd00:86::2", 8080), ("fd00:86::2", 8081)]
    servers = {each: pod.do(partial(socket.create_server, each, family=socket.AF_INET6)) for each in ends}
    pod.servers.extend(servers.values())
    v6: dict[str, Any] = {"is_ipv6": True, "affinity": affinity}
    web = table(*ends, addresses=("fd00:96::1",), node_port=30080, external=("2001:db8::9",), **v6)
    empty = table(service="db", addresses=("fd00:96::2",), external=("2001:db8::8",), **v6)
    plane.apply({each.key: each for each in (web, empty)}, ["fd00:86::2"])
    clients: list[Machine | Pod] = [machine, pod]
    for client in clients:
        found = set()
        for _ in range(16):
            with client.do(lambda: connect("fd00:96::1", 80)):
                found.add(_first(servers.values()))
        assert len(found) == (1 if affinity else 2)
    for address, port in (("2001:db8::9", 80), ("fd00:86::1", 30080)):
        with pod.do(partial(connect, address, port)):
            _first(servers.values())
    for client in clients:
        for address in ("fd00:96::2", "2001:db8::8"):
            with pytest.raises(OSError, match=r"refused|unreachable"):  # a route to lo is none for a forwarded packet
                client.do(partial(connect, address, 80))


def test_no_endpoint_is_a_refusal_and_the_policy_local_drops(machine: Machine, plane: NamespacedPlane) -> None:
    """Cases 6, 7, 22."""
    pod = machine.add_pod()
    pod.listen(8080)
    apply(plane, table(), table((pod.address, 8080), service="db", addresses=("10.96.0.2",)), pods=(pod,))
    for client in (machine, pod):
        for ip, port in ((WEB, 80), ("10.96.0.2", 81)):
            with pytest.raises(ConnectionRefusedError):
                client.do(partial(connect, ip, port))
        client.do(lambda: connect("10.96.0.2", 80)).close()
    udp = socket.SOCK_DGRAM
    sender = machine.do(lambda: socket.socket(socket.AF_INET, udp))
    sender.settimeout(PATIENCE)
    sender.connect((WEB, 80))
    with sender, pytest.raises((ConnectionRefusedError, PermissionError)):
        sender.send(b"x")
        sender.recv(1)
    apply(plane, table(inside=target_to((), drops=True)))
    with pytest.raises(TimeoutError):
        machine.do(lambda: connect(WEB, 80, 0.3))
    with pytest.raises(ConnectionRefusedError):
        machine.do(lambda: connect(WEB, 81))


def test_node_ports_are_on_each_address_but_loopback(machine: Machine, plane: NamespacedPlane) -> None:
    """Case 8: and with the policy Local the source stays."""
    pod, client = machine.add_pod(), machine.add_pod()
    server = pod.listen(8080)
    given = table((pod.address, 8080), node_port=30080, external=("198.51.100.1",))
    apply(plane, given, pods=(pod, client))
    with client.do(lambda: connect("10.86.0.1", 30080)):
        assert source_of(server) == "10.86.0.1"
    with client.do(lambda: connect("198.51.100.1", 80)):
        source_of(server)
    with pytest.raises(ConnectionRefusedError):
        machine.do(lambda: connect("127.0.0.1", 30080))
    apply(plane, given._replace(keeps_source=True), pods=(pod, client))
    with client.do(lambda: connect("10.86.0.1", 30080)):
        assert source_of(server) == client.address


def test_an_external_address_without_endpoints_refuses_the_services_port_only(
    machine: Machine, plane: NamespacedPlane
) -> None:
    """As with kube-proxy: the connection must not leave for whoever else has the address."""
    client, other = machine.add_pod(), machine.add_pod()
    machine.sh("ip route add 198.51.100.0/24 dev edgecore0")
    other.sh("ip address add 198.51.100.1/32 dev eth0")
    servers = {port: other.listen(port) for port in (80, 81)}
    given = table(external=("198.51.100.1",))
    apply(plane, given, table(external=("198.51.100.1",), protocol="udp", port=81), pods=(client, other))
    for each in (machine, client):
        with pytest.raises(ConnectionRefusedError):
            each.do(partial(connect, "198.51.100.1", 80))
        with each.do(partial(connect, "198.51.100.1", 81)):
            source_of(servers[81])
    apply(plane, table((client.address, 8080), external=("198.51.100.1",)), pods=(client, other))
    server = client.listen(8080)
    with machine.do(partial(connect, "198.51.100.1", 80)):
        source_of(server)


@pytest.mark.parametrize("is_here", [False, True])
def test_the_policy_local_from_outside_is_not_for_pods_and_programs_of_the_node(
    machine: Machine, plane: NamespacedPlane, *, is_here: bool
) -> None:
    """As with kube-proxy, an ingress at its public address is reached from inside on each node."""
    far, near, client, stranger = (machine.add_pod() for _ in range(4))
    servers = {each.address: each.listen(8080) for each in (far, near)}
    machine.sh("ip route add 198.51.100.0/24 dev edgecore0")
    outside = target_to(((near.address, 8080),)) if is_here else target_to((), drops=True)
    given = table((far.address, 8080), node_port=30080, external=("198.51.100.1",), outside=outside, keeps_source=True)
    apply(plane, given, pods=(far, near, client))
    for address, port in (("198.51.100.1", 80), ("10.86.0.1", 30080)):
        for each in (machine, client):
            with each.do(partial(connect, address, port)):
                source_of(servers[far.address])
        if not is_here:
            with pytest.raises(TimeoutError):
                stranger.do(partial(connect, address, port, 0.3))
            continue
        with stranger.do(partial(connect, address, port)):
            assert source_of(servers[near.address]) == stranger.address


def test_a_client_keeps_its_endpoint_while_it_is_there(machine: Machine, plane: NamespacedPlane) -> None:
    """Cases 5, 17: also over the whole table being made again, as by a restarted agent."""
    pods = [machine.add_pod() for _ in range(3)]
    servers = {each.address: each.listen(8080) for each in pods}
    ends = [(each.address, 8080) for each in pods]
    apply(plane, table(*ends, affinity=3600))
    shares = reached(machine, servers, 10)
    assert len(shares) == 1
    again = machine.plane()
    again.prepare()
    apply(again, table(*ends, affinity=3600))
    assert reached(machine, servers, 10).keys() == shares.keys()
    apply(again, table(*(each for each in ends if each[0] not in shares), affinity=3600))
    moved = reached(machine, servers, 10)
    assert len(moved) == 1
    assert moved.keys() != shares.keys()


@pytest.mark.parametrize("at", [(WEB, 80), ("10.86.0.1", 30080)], ids=["ClusterIP", "NodePort"])
def test_affinity_is_switched_on_and_off(machine: Machine, plane: NamespacedPlane, at: Address) -> None:
    pods, client = [machine.add_pod() for _ in range(2)], machine.add_pod()
    servers = {each.address: each.listen(8080) for each in pods}
    given = table(*((each.address, 8080) for each in pods), node_port=30080)
    for affinity, number in ((3600, 1), (0, 2), (3600, 1)):
        apply(plane, given._replace(affinity=affinity), pods=(*pods, client))
        assert len(reached(client, servers, 20, at)) == number  # one of two by chance: once in 500,000


def test_a_client_reaches_the_service_also_when_no_more_clients_can_be_remembered(
    machine: Machine, plane: NamespacedPlane
) -> None:
    """An attacker may send from any number of addresses."""
    pod, nft = machine.add_pod(), Nft(machine.prefix)
    pod.listen(8080)
    apply(plane, table((pod.address, 8080), affinity=3600))
    (clients,) = (each for each in nft.names("ip") if each.startswith("aff-"))
    others = ", ".join(f"198.18.{number >> 8}.{number & 255}" for number in range(65_535))
    nft.apply(f"add element ip edgecore {clients} {{ {others} }}\n")
    machine.do(lambda: connect(WEB, 80)).close()


def test_connections_live_through_changes_restarts_and_the_end_of_the_agent(
    machine: Machine, plane: NamespacedPlane
) -> None:
    """Cases 13, 16, 17: bytes come back after each of many changes, and their endpoint may be out of use."""
    pods = [machine.add_pod() for _ in range(2)]
    server = pods[0].listen(8080)
    apply(plane, table((pods[0].address, 8080)))
    with machine.do(lambda: connect(WEB, 80)) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.settimeout(PATIENCE)
            for number in range(30):
                apply(plane, table((pods[number % 2].address, 8080), node_port=30000 + number))
                if number % 10 == 9:
                    plane = machine.plane()  # an agent that was killed, and starts again
                    plane.prepare()
                    apply(plane, table())
                    plane.clean()
                client.sendall(b"a")
                assert accepted.recv(1) == b"a"
                accepted.sendall(b"b")
                assert client.recv(1) == b"b"


def test_a_reloaded_firewall_is_noticed(machine: Machine, plane: NamespacedPlane) -> None:
    """Case 15: the kernel itself says so, and what an agent does is no alarm."""
    apply(plane, table())
    watch = machine.do(NftWatch)
    alarms: list[Loss] = []
    heard = threading.Event()

    def lost(loss: Loss) -> None:
        alarms.append(loss)
        heard.set()

    thread = threading.Thread(target=watch.run, args=(lost,))
    thread.start()
    try:
        pod = machine.add_pod()
        apply(plane, table((pod.address, 8080), affinity=5))
        apply(plane, table())
        plane.clean()
        assert alarms == []
        machine.sh("nft flush ruleset")
        assert heard.wait(PATIENCE)
        assert not plane.is_whole()
        plane.restore()
        apply(plane, table((pod.address, 8080)))
        assert plane.is_whole()
        pod.listen(8080)
        machine.do(lambda: connect(WEB, 80)).close()
    finally:
        watch.close()
        thread.join(PATIENCE)
    assert alarms == [Loss.CERTAIN]


def test_the_module_repairs_each_deletion_once(machine: Machine, tmp_path: Path) -> None:
    """Case 15, the whole way: the kernel's reports, the module, and the rules."""
    pod, nft, counters = machine.add_pod(), Nft(machine.prefix), MeshCounters()
    pod.listen(8080)
    store = open_store(str(tmp_path / "edgecore.db"))
    store.put(row_of("default/service/web", encode(service()), 0))
    store.put(row_of("default/endpointslice/web-x", encode(slice_of(endpoint(pod.address))), 0))
    store.commit()
    store.close()
    with closing(Threads()) as threads, stopping(Hive(threads, outside=lambda *_: True)) as hive:
        hive.add(MetaManager, MetaSettings(str(tmp_path / "edgecore.db")))
        hive.add(EdgeMesh, MeshSettings(NODE), None, [machine.plane()], counters)
        hive.start()
        for number in range(4):
            wait_until(lambda: any(each.startswith("svc-") for each in nft.names("ip")), "there are rules")
            machine.do(lambda: connect(WEB, 80)).close()
            assert counters.restored == number
            machine.sh("nft flush ruleset")


def test_a_refused_transaction_changes_nothing(machine: Machine, plane: NamespacedPlane) -> None:
    """Case 21."""
    pod = machine.add_pod()
    pod.listen(8080)
    good = table((pod.address, 8080))
    apply(plane, good)
    with pytest.raises(PlaneError, match="the kernel refuses the rules"):
        apply(plane, good._replace(node_port=30000, port=70000))
    machine.do(lambda: connect(WEB, 80)).close()
    apply(plane, good._replace(node_port=30001))
    machine.do(lambda: connect(WEB, 80)).close()


def test_unused_rules_are_deleted_also_an_earlier_processs(machine: Machine, plane: NamespacedPlane) -> None:
    sticky = table(("10.86.0.2", 1), ("10.86.0.3", 1), affinity=10)
    apply(plane, sticky, table(("10.86.0.2", 1), service="db", addresses=("10.96.0.2",), node_port=30000))
    nft = Nft(machine.prefix)
    assert any(each.startswith("aff-") for each in nft.names("ip"))
    again = machine.plane()
    again.prepare()
    apply(again, table())
    again.clean()
    again.clean()
    assert not any(each.startswith(("aff-", "svc-", "ext-", "ep-")) for each in nft.names("ip"))
    nft.apply(deletion())
    nft.apply(deletion())
    assert nft.names("ip") == nft.names("ip6") == []


def test_the_route_goes_from_an_address_of_its_ip_version_and_no_others_are_removed(machine: Machine) -> None:
    machine.sh("ip address add fd00:86::1/64 dev edgecore0 nodad")
    addresses = HostAddresses(machine.prefix)
    ranges = {"10.96.0.0/16": "10.86.0.1", "fd00:96::/112": "fd00:86::1"}
    for cidr, source in ranges.items():
        version = "-6" if ":" in cidr else "-4"
        machine.sh(f"ip {version} route add {cidr} dev lo metric 7")
        addresses.add_route(cidr)
        assert f"src {source} metric 4000" in machine.sh(f"ip {version} route show {cidr}")
        addresses.remove_route(cidr)
        assert "metric 4000" not in machine.sh(f"ip {version} route show {cidr}")
        assert "metric 7" in machine.sh(f"ip {version} route show {cidr}")
    machine.sh("ip address add 169.254.20.10/32 dev edgecore0")
    addresses.add_address("169.254.20.10")
    addresses.remove_address("169.254.20.10")
    assert machine.sh("ip address").count("169.254.20.10") == 1


def test_without_the_program_the_reason_names_the_package() -> None:
    with pytest.raises(NftError, match="apt-get install nftables"):
        Nft(["/nowhere/program"]).apply("")


def test_a_client_that_is_idle_for_its_time_is_free(machine: Machine, plane: NamespacedPlane) -> None:
    """Case 5: the kernel forgets it, and no other one."""
    with machine.do(lambda: socket.create_server(("127.0.0.1", 0))) as server:
        short = table(server.getsockname(), affinity=1)
        long = short._replace(service="db", addresses=("10.96.0.2",), affinity=3600)
        apply(plane, short, long)
        for address in (WEB, "10.96.0.2"):
            machine.do(lambda address=address: connect(address, 80)).close()  # type: ignore[misc]

        def remembered() -> int:
            return machine.sh("nft list table ip edgecore").count("expires")

        wait_until(lambda: remembered() == 1, "one is forgotten")
