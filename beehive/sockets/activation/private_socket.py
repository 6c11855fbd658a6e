"""A listening socket without a name, for connections from this process only."""

import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from beehive.files.descriptors import OwnedFd
from beehive.on_failure import on_failure


class PrivateSocket:
    """The address of a server in this process.

    The server binds a socket in a directory of this user's own, and its name is removed immediately: so no other
    process can connect, and no file is left however this process ends. The descriptor of the file is enough to connect.
    """

    def __init__(self, bind: Callable[[str], object]) -> None:
        """Let a server bind a unix socket and listen. Raises what `bind` raises, and OSError.

        Args:
            bind: takes the path of the socket, which is short.
        """
        with (
            tempfile.TemporaryDirectory(prefix="edgecore-") as made,
            OwnedFd(os.open(made, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as directory,
        ):
            # gRPC removes this path at its end, when the number may be another directory's: so the name is unique
            path = Path(f"/proc/self/fd/{directory}") / f"{Path(made).name}.sock"
            bind(str(path))
            self._file = os.open(path, os.O_PATH | os.O_CLOEXEC)

    def connect(self) -> socket.socket:
        """Return a new connection, which does not block. Raises OSError; BlockingIOError when too many wait."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        with on_failure(connection.close):
            connection.connect(f"/proc/self/fd/{self._file}")
        return connection

    def close(self) -> None:
        """Make no more connections; the server closes its socket itself."""
        os.close(self._file)
