"""Commands, attached containers and ports as the streaming server uses them; a container's shim has its streams."""

import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Sequence
from typing import Final

from beehive.files.descriptors import is_readable
from beehive.on_failure import on_failure
from modules.runtimes.engine.errors import RunFailedError, ShimGoneError, WrongStateError
from modules.runtimes.engine.registry import Registry
from modules.runtimes.process.execution import check_command, link_of
from modules.runtimes.process.model import ProcessContainer
from modules.runtimes.process.shim_client import Answer, ShimClient
from modules.runtimes.shim.protocol import to_memory_file
from modules.runtimes.streaming import AttachedContainer, StreamProcess, connect_to_loopback

_ANSWER_SECONDS: Final = 15.0
"""Seconds for a shim to answer, or for a killed command to end; only processes stuck in the kernel take longer."""
_KILLED: Final = 137
_LONGEST_CODE: Final = 16


class ProcessStreams:
    """The runner of the commands and connections of the streaming server (see `StreamingBackend`)."""

    def __init__(self, registry: Registry[ProcessContainer]) -> None:
        self._registry = registry

    def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> StreamProcess:
        """Run a command in a running container. Raises RequestRefusedError, OSError."""
        container = self._registry.container(container_id)
        attempt = f"execute a command in container {container.id}"
        check_command(command, attempt)
        return _Command(link_of(container, attempt), list(command), attempt, tty=tty, stdin=stdin)

    def attach(self, container_id: str, *, tty: bool, stdin: bool) -> StreamProcess:  # noqa: ARG002 - the container has one or not
        """Attach to the main process of a running container. Raises RequestRefusedError, OSError."""
        container = self._registry.container(container_id)
        attempt = f"attach to container {container.id}"
        link = link_of(container, attempt)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with on_failure(ours.close), theirs:
            _ask(link, attempt, "attach", [theirs.fileno()])

        def resize(width: int, height: int) -> None:
            with contextlib.suppress(ShimGoneError):
                link.begin("resize", width=width, height=height)

        return AttachedContainer(ours, container.config, resize, stdin=stdin)

    def port_forward(self, sandbox_id: str, port: int) -> socket.socket:
        """Return a connection to a port of a sandbox, the machine's. Raises RequestRefusedError, OSError."""
        sandbox = self._registry.sandbox(sandbox_id)
        if sandbox.record.stopped:
            raise WrongStateError(f"forward a port of sandbox {sandbox.id}", "it is not ready")
        return connect_to_loopback(port)


def _ask(
    link: ShimClient, attempt: str, operation: str, descriptors: list[int], **fields: object
) -> tuple[int, Answer]:
    """Return the number of a request and the shim's answer. Raises RequestRefusedError, OSError."""
    try:
        request, answer = link.begin(operation, descriptors, **fields)
        try:
            answered = answer.result(_ANSWER_SECONDS)
        except TimeoutError:
            link.begin("kill-exec", exec=request)
            raise
    except ShimGoneError as error:
        raise WrongStateError(attempt, "the container has just ended") from error
    except TimeoutError as error:
        raise RunFailedError(attempt, f"its shim does not answer within {_ANSWER_SECONDS:.0f} s") from error
    if len(answered) == 1:
        reason = "an older edgecore started it, and its shim has no streams"
        raise RunFailedError(attempt, reason, "let the container start again")
    if answered.get("error"):
        raise RunFailedError(attempt, answered["error"])
    return request, answered


class _Command:
    """A command that runs beside a main process (`StreamProcess`)."""

    packets = False
    ends_with_stdin = False

    def __init__(self, link: ShimClient, command: list[str], attempt: str, *, tty: bool, stdin: bool) -> None:
        self._link = link
        self._has_terminal = tty
        self.stdin: int | None = None
        self.stdout: int | None = None
        self.stderr: int | None = None
        self._input = -1
        """The pipe of the input, until it has ended."""
        with contextlib.ExitStack() as kept, contextlib.ExitStack() as handed_on:
            kept.callback(self.close_stdin)
            ended, exit_code = _pipe(kept, handed_on)
            self.ended: int | None = ended
            arguments = to_memory_file("arguments", command)
            handed_on.callback(os.close, arguments)
            streams = self._terminal(kept, handed_on) if tty else self._pipes(kept, handed_on, stdin=stdin)
            self._request, _ = _ask(link, attempt, "stream", [arguments, exit_code, *streams], terminal=tty)
            self._open = kept.pop_all()

    def close_stdin(self) -> None:
        """End the input; a terminal's stays open."""
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal."""
        if self._has_terminal and self.stdout is not None:
            fcntl.ioctl(self.stdout, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def wait(self) -> int:
        """Wait for the end, and return the exit code; that of a killed command if its shim was killed."""
        assert self.ended is not None  # noqa: S101 - see above
        if not is_readable(self.ended, _ANSWER_SECONDS * 1000):
            return _KILLED
        return int(os.read(self.ended, _LONGEST_CODE) or _KILLED)

    def kill(self) -> None:
        """Kill the command and its child processes."""
        with contextlib.suppress(ShimGoneError):
            self._link.begin("kill-exec", exec=self._request)

    def close(self) -> None:
        """Close the descriptors."""
        self._open.close()

    def _terminal(self, kept: contextlib.ExitStack, handed_on: contextlib.ExitStack) -> list[int]:
        """Open a terminal; return the command's standard streams."""
        master, slave = os.openpty()
        kept.callback(os.close, master)
        handed_on.callback(os.close, slave)
        self.stdin = self.stdout = master
        return [slave, slave, slave]

    def _pipes(self, kept: contextlib.ExitStack, handed_on: contextlib.ExitStack, *, stdin: bool) -> list[int]:
        """Open a pipe for each stream; return the command's ends."""
        self.stdout, output = _pipe(kept, handed_on)
        self.stderr, errors = _pipe(kept, handed_on)
        if stdin:
            given, self._input = os.pipe2(os.O_CLOEXEC)
            self.stdin = self._input
        else:
            given = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        handed_on.callback(os.close, given)
        return [given, output, errors]


def _pipe(kept: contextlib.ExitStack, handed_on: contextlib.ExitStack) -> tuple[int, int]:
    """Return both ends of a new pipe: the one that edgecore reads, and the one that it hands on."""
    read, write = os.pipe2(os.O_CLOEXEC)
    kept.callback(os.close, read)
    handed_on.callback(os.close, write)
    return read, write
