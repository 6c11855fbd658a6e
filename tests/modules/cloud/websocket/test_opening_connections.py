"""Which of the connections without a websocket makes room."""

import logging
import resource
from typing import cast

import pytest

from beehive.simulation import Simulation
from modules.cloud.websocket.connection import WebsocketConnection
from modules.cloud.websocket.opening_connections import _LEAST, _MOST, _SHARE, OpeningConnections, most_opening


class Accepted:
    """A connection as far as the bound knows it."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.has_begun = self.is_open = False


def made(address: str) -> WebsocketConnection:
    return cast("WebsocketConnection", Accepted(address))


@pytest.fixture
def opening() -> OpeningConnections:
    return OpeningConnections("--listen", Simulation().clock, 4)


def begin(opening: OpeningConnections, connection: WebsocketConnection) -> None:
    connection.has_begun = True
    opening.update(connection)


def test_a_silent_client_makes_room(opening: OpeningConnections, caplog: pytest.LogCaptureFixture) -> None:
    """However many nodes are behind one address."""
    nodes = [made("10.0.0.1") for _ in range(4)]
    for each in nodes:
        opening.add(each)
        begin(opening, each)
    assert opening.surplus() is None
    stranger = made("10.0.0.2")
    opening.add(stranger)
    with caplog.at_level(logging.WARNING):
        assert [opening.surplus(), opening.spare()] == [stranger, stranger]
    assert [record.getMessage() for record in caplog.records] == [
        "--listen: of 5 connections without a websocket one of 10.0.0.2 that has sent nothing is closed"
    ]


@pytest.mark.parametrize("have_begun", [False, True])
def test_the_address_with_the_most_makes_room(opening: OpeningConnections, *, have_begun: bool) -> None:
    present = [made(address) for address in ("10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2", "10.0.0.2", "::9")]
    present.append(made("2001:db8::3"))
    for each in present:
        opening.add(each)
        if have_begun:
            begin(opening, each)
    assert opening.spare() is present[2], "a host has all addresses of its network"


def test_an_open_websocket_does_not_count(opening: OpeningConnections) -> None:
    for _ in range(6):
        connection = made("10.0.0.1")
        opening.add(connection)
        begin(opening, connection)
        connection.is_open = True
        opening.update(connection)
        assert len(opening) == 0
        opening.remove(connection)
    assert len(opening) == 0
    assert opening.spare() is None


@pytest.mark.parametrize(
    ("descriptors", "most"),
    [(64, _LEAST), (1024 * _SHARE, 1024), (10**9, _MOST), (resource.RLIM_INFINITY, _MOST)],
)
def test_their_number_follows_the_descriptors_of_the_process(
    monkeypatch: pytest.MonkeyPatch, descriptors: int, most: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert most_opening() == most
