"""Connections are accepted when there is room for them, and until the socket is shut down."""

import errno
import os
import socket
import threading

import pytest

from beehive.sockets.accepting import accept_connection
from tests.support.patience import PATIENCE


class Listening(socket.socket):
    """A socket whose `accept` fails at first, as it does in a process that may open no more files."""

    def __init__(self, *failures: int) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self.failures = list(failures)
        self.failed = threading.Event()
        self.bind(("127.0.0.1", 0))
        self.listen()

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        if self.failures:
            code = self.failures.pop(0)
            self.failed.set()
            raise OSError(code, os.strerror(code))
        return super().accept()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ECONNABORTED])
def test_a_failure_that_passes_does_not_end_a_server(code: int) -> None:
    with Listening(code, code) as listening, socket.create_connection(listening.getsockname()) as client:
        connection = accept_connection(listening, wait=0.001)
        assert connection is not None
        with connection:
            assert connection.getpeername() == client.getsockname()


def test_a_server_that_waits_for_room_can_be_ended() -> None:
    with Listening(errno.EMFILE) as listening:
        found: list[socket.socket | None] = []
        waiting = threading.Thread(target=lambda: found.append(accept_connection(listening, wait=3600.0)))
        waiting.start()
        assert listening.failed.wait(PATIENCE)
        listening.shutdown(socket.SHUT_RDWR)
        waiting.join(PATIENCE)
        assert found == [None]
