"""The streams of a container: its output goes to the log and the attached clients, their input to the container."""

import os
import socket
import struct
from contextlib import suppress

from modules.runtimes.shim.log_file import LogFile
from modules.runtimes.shim.log_lines import LineFramer, format_entries

STDOUT, STDERR = b"\2", b"\3"
"""The first byte of a packet to an attached client."""
_NAMES = {STDOUT: b"stdout", STDERR: b"stderr"}
_READ = 8192
_LONGEST_INPUT = 32 * 1024
_SEND_TIMEOUT = struct.pack("ll", 5, 0)
"""After which a client that takes nothing is left: it must not stop the container's output."""


class Output:
    """One output stream."""

    def __init__(self, descriptor: int, kind: bytes, log: LogFile) -> None:
        self.descriptor = descriptor
        self._kind = kind
        self._log = log
        self._framer = LineFramer()
        os.set_blocking(descriptor, False)

    def pump(self, now_ns: int) -> bytes | None:
        """Move one piece into the log; return the packet for attached clients, b"" for nothing, None at the end."""
        try:
            piece = os.read(self.descriptor, _READ)
        except BlockingIOError:
            return b""
        except OSError:  # EIO: nobody has the terminal open now
            return None
        if not piece:
            return None
        self._log.write(format_entries(self._framer.feed(piece), _NAMES[self._kind], now_ns))
        return self._kind + piece

    def finish(self, now_ns: int) -> None:
        """End the stream in the log."""
        self._log.write(format_entries(self._framer.finish(), _NAMES[self._kind], now_ns))


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


class Input:
    """The standard input of a container, or its terminal. Input that the container does not take yet is kept."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.pending = b""
        self._ends = False
        os.set_blocking(descriptor, False)

    def write(self, data: bytes) -> None:
        """Take more for the container."""
        self.pending += data
        self.flush()

    def flush(self) -> None:
        """Write as much pending input as the container takes."""
        with suppress(BlockingIOError):
            try:
                while self.pending:
                    self.pending = self.pending[os.write(self.descriptor, self.pending) :]
            except BrokenPipeError:
                self.pending, self._ends = b"", True
        if self._ends and not self.pending and self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def end(self) -> None:
        """End the input after the pending bytes."""
        self._ends = True
        if self.descriptor >= 0:
            self.flush()
