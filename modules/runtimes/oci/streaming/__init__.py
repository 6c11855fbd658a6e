"""The streams of containers: exec, attach and port-forward, over SPDY/3.1 and WebSocket.

`StreamingServer` gives addresses for CRI's answers and serves the connections to them; the runtime is its
`StreamingBackend`.
"""

import socket
from pathlib import Path
from typing import Final

from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.streaming.backend import StreamingBackend, StreamProcess
from modules.runtimes.oci.streaming.server import StreamingServer

_LOOPBACK: Final = ("127.0.0.1", "::1")
_SECONDS: Final = 5.0
"""For a program that listens, but whose queue is full."""


def connect_in_namespace(netns: Path | None, port: int) -> socket.socket:
    """Return a connection to a port of a sandbox, at 127.0.0.1 or else ::1.

    Args:
        netns: network namespace of the sandbox; None for the machine's.
        port: TCP port.

    Raises:
        OSError: nothing listens there, or the namespace no longer exists.
    """
    if netns is None:
        return _connect(port)
    return in_network_namespace(netns, lambda: _connect(port))


def _connect(port: int) -> socket.socket:
    errors = []
    for address in _LOOPBACK:
        try:
            return socket.create_connection((address, port), _SECONDS)
        except OSError as error:
            errors.append(error)
    raise errors[0]
