"""Unix sockets by their path, which may be longer than a socket's name (107 bytes)."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from beehive.files.descriptors import OwnedFd
from beehive.on_failure import on_failure

_BACKLOG: Final = 1024
"""Connections that wait to be accepted; further clients wait, or try again."""


def bind_unix(path: Path, mode: int = 0o600, group: int | None = None) -> socket.socket:
    """Return a listening unix socket; replaces a killed process's socket.

    It is created under another name and renamed once its mode and group are set: so others can never open it, and the
    process's umask, which all threads share, does not change.

    Args:
        path: path of the socket.
        mode: its mode.
        group: number of its group; None for the process's.

    Raises:
        OSError: the socket cannot be created.
    """
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    making = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        making.unlink(missing_ok=True)
        with short_name(making) as name:
            listening.bind(name)
        if group is not None:
            os.chown(making, -1, group)
        making.chmod(mode)
        listening.listen(_BACKLOG)
        making.rename(path)
    except BaseException:
        listening.close()
        with suppress(OSError):
            making.unlink(missing_ok=True)
        raise
    return listening


def connect_unix(path: Path, seconds: float | None = None) -> socket.socket:
    """Return a connection to a unix socket.

    Args:
        path: path of the socket.
        seconds: time limit of the connection and of each later operation; None: no limit, 0: they do not block.

    Raises:
        OSError: nobody listens there, or this user may not connect.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with on_failure(connection.close):
        connection.settimeout(seconds)
        with short_name(path) as name:
            connection.connect(name)
    return connection


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """Yield a name of the path that is short enough for a socket's address: through the descriptor of its directory."""
    with OwnedFd(os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
        yield f"/proc/self/fd/{directory}/{path.name}"
