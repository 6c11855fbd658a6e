"""The attached clients of a container, at a unix socket of packets."""

import socket
import struct

_LONGEST_INPUT = 32 * 1024
_SEND_TIMEOUT = struct.pack("ll", 5, 0)
"""After which a client that takes nothing is left: it must not stop the container's output."""


class Clients:
    """The attached clients, at a unix socket of packets."""

    def __init__(self, address: str) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(address)
        self.listener.listen(16)
        self.listener.settimeout(0)
        self.connected: dict[int, socket.socket] = {}
        self.silent: set[int] = set()
        """Clients whose input has ended."""

    def accept(self) -> int | None:
        """Accept a client; return its descriptor."""
        try:
            client, _ = self.listener.accept()
        except OSError:
            return None
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_TIMEOUT)
        self.connected[client.fileno()] = client
        return client.fileno()

    def send(self, packet: bytes) -> list[int]:
        """Send a packet to all clients; return the descriptors of clients that take nothing, to be dropped."""
        left = []
        for descriptor, client in list(self.connected.items()):
            try:
                client.send(packet)
            except OSError:
                left.append(descriptor)
        return left

    def receive(self, descriptor: int) -> bytes | None:
        """Return the input of a client; None at its end."""
        try:
            return self.connected[descriptor].recv(_LONGEST_INPUT) or None
        except BlockingIOError:
            return b""
        except OSError:
            return None

    def close(self, descriptor: int) -> None:
        """Leave a client."""
        self.silent.discard(descriptor)
        self.connected.pop(descriptor).close()
