"""Requests to slirp4netns, which takes one client at a time."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from modules.runtimes.oci.rootless.node_network import NodeNetwork
from tests.support.directories import short_directory

_AT_ONCE = 16
_EACH = 10


@pytest.fixture
def directory() -> Iterator[Path]:
    """The node's, with the socket of a server that lets one client wait."""
    with short_directory("rls-") as made, socket.socket(socket.AF_UNIX) as server:
        server.bind(str(made / "slirp.sock"))
        server.listen(0)
        answering = threading.Thread(target=_answer, args=(server,))
        answering.start()
        yield made
        server.shutdown(socket.SHUT_RDWR)
        answering.join()


def _answer(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            while connection.recv(4096):
                pass
            connection.sendall(b'{"entries": []}')


def test_pods_that_start_at_once_wait_for_each_other(directory: Path) -> None:
    """Else the server refuses a client, and slirp4netns would pass for dead."""
    network = NodeNetwork(directory)
    with ThreadPoolExecutor(_AT_ONCE) as workers:
        answers = [workers.submit(network.forwards) for _ in range(_AT_ONCE * _EACH)]
        assert [each.result() for each in answers] == [{}] * len(answers)
