"""The streams of containers: exec, attach and port-forward, over SPDY/3.1 and WebSocket.

`StreamingServer` gives addresses for CRI's answers and serves the connections to them; the runtime is its
`StreamingBackend`.
"""

import socket
from typing import Final

from modules.runtimes.streaming.attached import AttachedContainer
from modules.runtimes.streaming.backend import StreamingBackend, StreamProcess
from modules.runtimes.streaming.server import StreamingServer

__all__ = ["AttachedContainer", "StreamProcess", "StreamingBackend", "StreamingServer", "connect_to_loopback"]

_LOOPBACK: Final = ("127.0.0.1", "::1")
_SECONDS: Final = 5.0
"""For a program that listens, but whose queue is full."""


def connect_to_loopback(port: int) -> socket.socket:
    """Return a connection to a TCP port of the calling thread's network namespace, at 127.0.0.1 or else ::1.

    Raises:
        OSError: nothing listens there.
    """
    errors = []
    for address in _LOOPBACK:
        try:
            return socket.create_connection((address, port), _SECONDS)
        except OSError as error:
            errors.append(error)
    raise errors[0]
