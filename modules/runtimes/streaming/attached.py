"""The connection to the parent of a container, through which the streams of its main process pass."""

import contextlib
import socket
from collections.abc import Callable

from protos.cri.v1 import api_pb2 as cri


class AttachedContainer:
    """A client's part in the streams of a main process (`StreamProcess`).

    Args:
        connection: to the container's parent, in packets as conmon's.
        config: of the container.
        stdin: whether the client may give input.
        resize: sets the size of the terminal, in columns and lines; may raise OSError.
    """

    packets = True
    stderr: int | None = None
    ended: int | None = None

    def __init__(
        self, connection: socket.socket, config: cri.ContainerConfig, resize: Callable[[int, int], None], *, stdin: bool
    ) -> None:
        self._connection = connection
        self._resize = resize
        self._has_terminal = config.tty
        connection.settimeout(0)
        self.stdout: int | None = connection.fileno()
        self.stdin: int | None = self.stdout if stdin else None
        self.ends_with_stdin = not (config.stdin_once or config.tty)

    def close_stdin(self) -> None:
        """Tell the parent that no more input comes; it ends the container's if the pod wants it so (stdinOnce)."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal."""
        if self._has_terminal:
            with contextlib.suppress(OSError):  # it is just ending
                self._resize(width, height)

    def wait(self) -> int:
        """Return 0: the container's exit code is in its status."""
        return 0

    def kill(self) -> None:
        """Do nothing: the container goes on."""

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
