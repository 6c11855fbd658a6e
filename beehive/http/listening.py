"""Listening sockets of the local servers: TCP, or a unix socket that only its owner can open.

A path longer than a socket's name may be (107 bytes) is opened through the file descriptor of its directory.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from beehive.files.advice import advice
from beehive.ports import ListenError, listen_hint

READ_ONLY_PORT: Final = "modules.edged.tailoredKubeletConfig.readOnlyPort"
"""Key of the configuration file that chooses the port of the kubelet's read-only server."""

_BACKLOG: Final = 1024
"""Connections that wait to be accepted; the kernel drops further ones, which try again after a second."""


def listen_tcp(address: str, port: int, setting: str = READ_ONLY_PORT) -> socket.socket:
    """Return a socket that listens on an IP address.

    Args:
        address: IPv4 or IPv6 address.
        port: 0 takes a free one.
        setting: setting that the error names.

    Raises:
        ListenError: the address cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise ListenError("cannot serve on", f"{address}:{port}", listen_hint(error, port, setting)) from error
    return listening


def listen_unix(path: Path, setting: str = "rootDirectory") -> socket.socket:
    """Return a listening unix socket as `bind_unix`, for its owner only.

    Args:
        path: path of the socket.
        setting: setting that the error names.

    Raises:
        ListenError: the socket cannot be created.
    """
    try:
        return bind_unix(path)
    except OSError as error:
        raise ListenError("cannot serve on the socket", str(path), f"{advice(error)}; see {setting}") from error


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


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """Yield a name of the path that is short enough for a socket's address."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
