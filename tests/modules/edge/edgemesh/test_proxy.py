"""Services by the proxy of this process, on loopback addresses, without root."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator

import pytest

from beehive.clock import RealClock
from modules.edge.edgemesh.nft.addresses import HostAddresses
from modules.edge.edgemesh.proxy import affinity
from modules.edge.edgemesh.proxy.plane import ProxyPlane, listen_address
from modules.edge.edgemesh.tables import MeshTarget, PortTable
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


def test_a_dead_endpoint_is_passed_over(plane: ProxyPlane, server: socket.socket) -> None:
    """Case 23; and where all are dead, the client sees a reset, as by a kernel where nothing listens."""
    dead = ("127.0.0.1", free_port())
    given = table(server.getsockname(), dead)
    apply(plane, given)
    for _ in range(6):
        with socket.create_connection(listen_address(given), SECONDS), server.accept()[0]:
            pass
    apply(plane, given._replace(inside=MeshTarget((dead,))))
    with (
        pytest.raises((ConnectionResetError, BrokenPipeError)),
        socket.create_connection(listen_address(given), SECONDS) as client,
    ):
        client.recv(1)


def test_a_client_is_remembered_for_its_time_and_not_too_many_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity, "MOST_CLIENTS", 3)
    ends = [("192.0.2.1", number) for number in range(50)]
    choices = affinity.ClientAffinity(random.Random(1))  # noqa: S311 - endpoints are no secrets
    given = table(*ends)._replace(affinity=10)
    choices.note(given, "c", ends[7], 100.0)
    assert choices.order(given, "c", 109.0)[0] == ends[7]
    assert sorted(choices.order(given, "c", 109.0)) == ends
    assert [choices.order(given, "c", 110.0)[0] == ends[7] for _ in range(3)].count(True) < 3
    assert ends[7] not in choices.order(given._replace(inside=MeshTarget(tuple(ends[:7]))), "c", 101.0)
    for client in "def":
        choices.note(given, client, ends[7], 100.0)
    assert [choices.order(given, "c", 100.0)[0] == ends[7] for _ in range(3)].count(True) < 3
    assert choices.order(given, "d", 100.0)[0] == ends[7]


def test_ports_of_root_are_moved_and_addresses_stay() -> None:
    low = table(port=80)
    address, port = listen_address(low)
    assert (address[:7], port) == ("127.96.", 20_080)
    assert listen_address(low._replace(port=8080)) == (address, 8080)
    assert listen_address(low._replace(service="other"))[0] != address
