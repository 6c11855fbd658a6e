"""The far end of `sd_notify`: what systemd would receive."""

import socket
from pathlib import Path


class NotifySocket:
    """A datagram socket, and everything that was sent to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(0.0)

    def has(self, line: str) -> bool:
        """Return whether a line with this beginning was received."""
        return any(each.startswith(line) for each in self.received())

    def received(self) -> list[str]:
        """Return all lines so far."""
        while True:
            try:
                self.lines += self._socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return self.lines

    def close(self) -> None:
        """End it."""
        self._socket.close()
