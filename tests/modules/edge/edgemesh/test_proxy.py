"""Services by the proxy of this process, on loopback addresses, without root."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from beehive.clock import RealClock
from modules.edge.edgemesh.nft.addresses import HostAddresses
from modules.edge.edgemesh.proxy.plane import ProxyPlane, listen_address
from modules.edge.edgemesh.tables import MeshTarget, PortTable
from tests.modules.edge.edgemesh.machine import connect, needs_nft, own_machine
from tests.modules.edge.edgemesh.objects import port_table as table
from tests.support.ports import free_port

SECONDS = 60.0


@pytest.fixture
def plane() -> Iterator[ProxyPlane]:
    clock = RealClock()
    made = ProxyPlane(clock, HostAddresses(["/nowhere/program"]), ["10.96.0.0/16"])
    made.prepare()
    yield made
    made.close()
    clock.close()


def apply(plane: ProxyPlane, *tables: PortTable) -> None:
    plane.apply({each.key: each for each in tables}, ())


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(SECONDS)
        yield made


def test_each_side_of_a_connection_ends_by_itself(plane: ProxyPlane, server: socket.socket) -> None:
    """Case 23: a half-closed connection, with more bytes than any buffer holds, both ways."""
    given = table(server.getsockname())
    apply(plane, given)
    sent = bytes(range(256)) * 40_000
    with socket.create_connection(listen_address(given), SECONDS) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.settimeout(SECONDS)

            def send(channel: socket.socket) -> None:
                channel.sendall(sent)
                channel.shutdown(socket.SHUT_WR)

            thread = threading.Thread(target=send, args=(client,))
            thread.start()
            assert everything(accepted) == sent
            thread.join(SECONDS)
            thread = threading.Thread(target=send, args=(accepted,))
            thread.start()
            assert everything(client) == sent
            thread.join(SECONDS)


def everything(channel: socket.socket) -> bytes:
    """All bytes until the end."""
    parts = []
    while part := channel.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)


def test_a_dead_endpoint_is_passed_over_and_connections_live_through_changes(
    plane: ProxyPlane, server: socket.socket
) -> None:
    """Case 23, and 13: who has a connection keeps it although its endpoint is in use no more."""
    dead = ("127.0.0.1", free_port())
    given = table(server.getsockname(), dead)
    apply(plane, given)
    for _ in range(6):
        with socket.create_connection(listen_address(given), SECONDS) as client:
            accepted, _ = server.accept()
            apply(plane, given._replace(inside=MeshTarget((dead,))))
            with accepted:
                client.sendall(b"x")
                assert accepted.recv(1) == b"x"
            assert client.recv(1) == b""
            apply(plane, given)


def test_without_an_endpoint_and_without_the_service_there_is_no_connection(
    plane: ProxyPlane, server: socket.socket
) -> None:
    given = table(server.getsockname())
    apply(plane, given._replace(inside=MeshTarget()))
    with socket.create_connection(listen_address(given), SECONDS) as client:
        assert everything(client) == b""
    apply(plane, given._replace(inside=MeshTarget((("127.0.0.1", free_port()),))))
    with socket.create_connection(listen_address(given), SECONDS) as client:
        assert everything(client) == b""
    apply(plane)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(listen_address(given), SECONDS)


def test_udp_goes_to_an_endpoint_that_serves(plane: ProxyPlane) -> None:
    """Case 23, and 18: a client that goes on sending reaches the new one."""
    servers = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    given = table(protocol="udp")
    for each in (*servers, client):
        each.bind(("127.0.0.1", 0))
        each.settimeout(SECONDS)
    try:
        big = b"x" * 60_000
        for each in (*servers, servers[0]):
            end = each.getsockname()
            apply(plane, given._replace(inside=MeshTarget((end,)), serving=frozenset({end})))
            client.sendto(big, listen_address(given))
            data, source = each.recvfrom(65535)
            assert data == big
            each.sendto(b"back", source)
            assert client.recvfrom(99) == (b"back", listen_address(given))
    finally:
        for each in (*servers, client):
            each.close()


def test_ports_of_root_are_moved_and_addresses_stay() -> None:
    low = table(port=80)
    address, port = listen_address(low)
    assert (address[:7], port) == ("127.96.", 20_080)
    assert listen_address(low._replace(port=8080)) == (address, 8080)
    assert listen_address(low._replace(service="other"))[0] != address


@needs_nft
def test_with_root_pods_reach_the_clusters_addresses() -> None:
    """On a machine without nft."""
    clock = RealClock()
    with own_machine() as machine:
        plane = ProxyPlane(clock, HostAddresses(machine.prefix), ["10.96.0.0/16"])
        client, end = machine.add_pod(), machine.add_pod()
        server = end.listen(8080)
        machine.do(plane.prepare)
        try:
            apply(plane, table((end.address, 8080), port=80))
            for each in (client.do, end.do, machine.do):
                with each(lambda: connect("10.96.0.1", 80)):
                    server.accept()[0].close()
        finally:
            plane.close()
            clock.close()
