"""A connection for a library that connects by itself, as gRPC does, to an address that this process may not reach."""

import select
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_PIECE: Final = 16 * 1024


@contextmanager
def relayed(connection: socket.socket) -> Iterator[str]:
    """Yield the address, in gRPC's form, of a socket of this user's that leads to a connection, which is closed at the
    end. Raises OSError.
    """
    with connection, tempfile.TemporaryDirectory(prefix="edgecore-probe-") as directory:
        path = Path(directory) / "socket"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(1)
            thread = threading.Thread(target=_relay, args=(listener, connection), name="probe-relay", daemon=True)
            thread.start()
            try:
                yield f"unix:{path}"
            finally:
                for each in (listener, connection):
                    with suppress(OSError):  # its other end has closed it
                        each.shutdown(socket.SHUT_RDWR)
                thread.join()


def _relay(listener: socket.socket, connection: socket.socket) -> None:
    """Pass bytes both ways, until an end closes."""
    with suppress(OSError):  # ended by `relayed`
        accepted, _ = listener.accept()
        with accepted:
            ways = {accepted.fileno(): (accepted, connection), connection.fileno(): (connection, accepted)}
            poll = select.poll()  # select(2) knows no descriptors from 1024 on, which a node of many pods has
            for descriptor in ways:
                poll.register(descriptor, select.POLLIN)
            while True:
                for descriptor, _ in poll.poll():
                    source, other = ways[descriptor]
                    data = source.recv(_PIECE)
                    if not data:
                        return
                    other.sendall(data)
