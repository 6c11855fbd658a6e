"""A runtime whose containers are this machine: commands with pipes or a terminal, a conmon's socket, its own ports."""

import fcntl
import os
import pty
import signal
import socket
import struct
import subprocess
import termios
import threading
from collections.abc import Sequence
from contextlib import suppress

from modules.runtimes.engine.errors import NoSuchObjectError, RunFailedError
from modules.runtimes.streaming import connect_to_loopback


class LocalProcess:
    """A command of this machine (`StreamProcess`)."""

    packets: bool = False
    ends_with_stdin: bool = False

    def __init__(self, command: Sequence[str], *, tty: bool, stdin: bool) -> None:
        self.stdin: int | None
        self.stdout: int | None
        self.stderr: int | None
        self._tty = tty
        theirs = self._terminal() if tty else self._pipes(stdin=stdin)
        try:
            self._process = subprocess.Popen(command, stdin=theirs[0], stdout=theirs[1], stderr=theirs[2],
                                             start_new_session=True)  # fmt: skip
        except OSError as error:
            self.ended: int | None = None
            self.close()
            raise RunFailedError(f'run "{command[0]}"', str(error)) from error
        finally:
            for descriptor in set(theirs):
                os.close(descriptor)
        self.ended = os.pidfd_open(self._process.pid)
        self.killed = threading.Event()

    def _terminal(self) -> tuple[int, int, int]:
        ours, theirs = pty.openpty()
        self.stdin, self.stdout, self.stderr = ours, ours, None
        return theirs, theirs, theirs

    def _pipes(self, *, stdin: bool) -> tuple[int, int, int]:
        self.stdout, output = os.pipe()
        self.stderr, errors = os.pipe()
        if stdin:
            given, self.stdin = os.pipe()
        else:
            given, self.stdin = os.open(os.devnull, os.O_RDONLY), None
        return given, output, errors

    def close_stdin(self) -> None:
        """See `StreamProcess`."""
        if self.stdin is not None and not self._tty:
            os.close(self.stdin)
            self.stdin = None

    def resize(self, width: int, height: int) -> None:
        """See `StreamProcess`."""
        if self._tty and self.stdout is not None:
            fcntl.ioctl(self.stdout, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def wait(self) -> int:
        """See `StreamProcess`."""
        return self._process.wait()

    def kill(self) -> None:
        """See `StreamProcess`."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.killed.set()

    def close(self) -> None:
        """See `StreamProcess`."""
        for descriptor in {self.stdin, self.stdout, self.stderr, self.ended} - {None}:
            os.close(descriptor)  # type: ignore[arg-type]


class Conmon:
    """The attach socket of a container, seen from its client (`StreamProcess`)."""

    packets: bool = True
    ends_with_stdin: bool = False

    def __init__(self) -> None:
        ours, self.container = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours = ours
        self.stdin: int | None = ours.fileno()
        self.stdout: int | None = ours.fileno()
        self.stderr: int | None = None
        self.ended: int | None = None
        self.sizes: list[tuple[int, int]] = []
        self.closed = threading.Event()

    def close_stdin(self) -> None:
        """See `StreamProcess`."""
        self._ours.shutdown(socket.SHUT_WR)

    def resize(self, width: int, height: int) -> None:
        """See `StreamProcess`."""
        self.sizes.append((width, height))

    def wait(self) -> int:
        """See `StreamProcess`."""
        return 0

    def kill(self) -> None:
        """See `StreamProcess`: the container goes on."""

    def close(self) -> None:
        """See `StreamProcess`."""
        self._ours.close()
        self.closed.set()


class LocalBackend:
    """The runtime (`StreamingBackend`)."""

    def __init__(self) -> None:
        self.processes: list[LocalProcess] = []
        self.conmon = Conmon()
        self.begun = threading.Event()
        """Set when a command runs."""
        self.asked: list[tuple[object, ...]] = []

    def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> LocalProcess:
        """See `StreamingBackend`."""
        if container_id == "gone":
            raise NoSuchObjectError(f"run a command in container {container_id}", "there is no such container")
        self.asked.append((container_id, tuple(command), tty, stdin))
        self.processes.append(LocalProcess(command, tty=tty, stdin=stdin))
        self.begun.set()
        return self.processes[-1]

    def attach(self, container_id: str, *, tty: bool, stdin: bool) -> Conmon:
        """See `StreamingBackend`."""
        self.asked.append((container_id, tty, stdin))
        return self.conmon

    def port_forward(self, sandbox_id: str, port: int) -> socket.socket:
        """See `StreamingBackend`."""
        return connect_to_loopback(port)
