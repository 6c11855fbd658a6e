"""A TCP address in front of a unix socket, for programs that know only TCP, as kubectl."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

from tests.support.serving import ServedInThread

_BYTES = 65536


@contextmanager
def tcp_address_of(path: Path) -> Iterator[int]:
    """A port of 127.0.0.1 whose connections go to the unix socket."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as behind:
                behind.connect(str(path))
                back = Thread(target=_copy, args=(behind, self.request))
                back.start()
                _copy(self.request, behind)
                back.join()

    server = ThreadingTCPServer(("127.0.0.1", 0), Handler)
    with ServedInThread(server):
        yield server.server_address[1]


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_BYTES):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
