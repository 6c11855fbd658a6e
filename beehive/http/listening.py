"""Listening sockets of the local servers: TCP, or a unix socket that only its owner can open."""

import socket
from pathlib import Path
from typing import Final

from beehive.files.advice import advice
from beehive.sockets.ports import ListenError, listen_hint
from beehive.sockets.unix_sockets import bind_unix

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
    except BaseException:
        listening.close()
        raise
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
