"""The server of the page when it cannot be made."""

import socket
from unittest.mock import Mock

import pytest

from beehive.http.listening import listen_tcp
from beehive.simulation import Simulation
from modules.page import server
from modules.page.server import PageServer


def test_a_page_that_cannot_be_made_leaves_no_port_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when its files cannot be read: whoever starts it may try again on the same port."""
    made = list[socket.socket]()

    def listen(address: str, port: int, setting: str) -> socket.socket:
        made.append(listen_tcp(address, port, setting))
        return made[-1]

    monkeypatch.setattr(server, "listen_tcp", listen)
    monkeypatch.setattr(server, "PageService", Mock(side_effect=FileNotFoundError("of this test")))
    with pytest.raises(FileNotFoundError, match="of this test"):
        PageServer(Mock(), Simulation(1).clock, "cloudcore")
    assert [each.fileno() for each in made] == [-1]
