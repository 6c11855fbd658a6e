"""The methods of the runtime that the streaming server uses: commands with their streams, and ports of sandboxes."""

import socket
from collections.abc import Sequence
from typing import Protocol


class StreamProcess(Protocol):
    """A command in a container, or a container's main process that a client is attached to.

    Its descriptors are read and written without blocking by the session, and closed by `close` alone.
    """

    stdin: int | None
    """Descriptor of its input, or None."""
    stdout: int | None
    """Descriptor of its output; with a terminal the same as `stdin`, and EIO is its end."""
    stderr: int | None
    """Descriptor of its errors; None with a terminal, or with `packets`."""
    packets: bool
    """Whether `stdout` is a conmon's attach socket: packets whose first byte is 2 for output, 3 for errors."""
    ends_with_stdin: bool
    """Whether its client is left when the client's input ends: an attached container whose input stays open."""
    ended: int | None
    """Descriptor that can be read once the command has ended (a pidfd); None if the end of its output tells that."""

    def close_stdin(self) -> None:
        """End the input, if it can be ended. Called at most once, and not after `close`."""

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal; 1 to 65535 each. Nothing without one."""

    def wait(self) -> int:
        """Wait for the end and return the exit code; of an attached container 0 when its output has ended."""

    def kill(self) -> None:
        """End a command whose client has disconnected; an attached container goes on. `wait` follows."""

    def close(self) -> None:
        """Close the descriptors."""


class StreamingBackend(Protocol):
    """A runtime. Each call may raise RequestRefusedError or OSError, which goes to the client."""

    def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> StreamProcess:
        """Run a command in a running container."""

    def attach(self, container_id: str, *, tty: bool, stdin: bool) -> StreamProcess:
        """Attach to the main process of a running container; earlier output is not repeated."""

    def port_forward(self, sandbox_id: str, port: int) -> socket.socket:
        """Return a connection to a port of a sandbox, as `connect_to_loopback` makes it."""
