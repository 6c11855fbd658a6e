"""Commands, attached containers and ports as the streaming server uses them."""

import contextlib
import fcntl
import os
import select
import socket
import struct
import subprocess
import termios
import tty as terminals
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from beehive.files.descriptors import OwnedFd
from beehive.on_failure import on_failure
from modules.runtimes.engine.errors import RunFailedError, WrongStateError
from modules.runtimes.engine.registry import Registry
from modules.runtimes.oci.crun.commands import Command
from modules.runtimes.oci.crun.conmon import BUNDLE, resize_terminal
from modules.runtimes.oci.crun.launching import Launcher
from modules.runtimes.oci.crun.runtime_command import RuntimeCommand, message_in
from modules.runtimes.oci.execution import command_of, why_not_started
from modules.runtimes.oci.model import OciContainer
from modules.runtimes.oci.network.namespaces import PodNamespaces, connect_in_namespace
from modules.runtimes.streaming import AttachedContainer, StreamProcess
from protos.cri.v1 import api_pb2 as cri

_ATTACH: Final = "attach"
_CONSOLE_MILLISECONDS: Final = 60_000
_MESSAGE_BYTES: Final = 64 * 1024


class ContainerStreams:
    """The runner of the commands and connections of the streaming server (see `StreamingBackend`)."""

    def __init__(
        self,
        launcher: Launcher,
        runtime: RuntimeCommand,
        registry: Registry[OciContainer],
        namespaces: PodNamespaces,
    ) -> None:
        self._launcher = launcher
        self._runtime = runtime
        self._registry = registry
        self._namespaces = namespaces

    def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> StreamProcess:
        """Run a command in a running container. Raises RequestRefusedError, OSError."""
        container = self._registry.container(container_id)
        attempt = f"execute a command in container {container.id}"
        process = command_of(container, list(command), attempt, tty=tty)
        made = Command(self._launcher, self._runtime, container.id, container.directory, process)
        with contextlib.ExitStack() as stack:
            stack.enter_context(made)
            if not tty:
                opened = _pipes(made, attempt, stdin=stdin, stack=stack)
            elif self._runtime.is_crun:
                opened = _terminal(made, attempt, stack)
            else:
                opened = _passed_terminal(made, attempt, stack)
            return _ExecProcess(made, opened, stack.pop_all())

    def attach(self, container_id: str, *, tty: bool, stdin: bool) -> StreamProcess:  # noqa: ARG002 - the container has one or not
        """Attach to the first process of a running container. Raises RequestRefusedError, OSError."""
        container = self._registry.container(container_id)
        if container.state != cri.CONTAINER_RUNNING:
            raise WrongStateError(f"attach to container {container.id}", "it is not running")
        connection = _connect_to_parent(container.directory)
        return AttachedContainer(
            connection, container.config, partial(resize_terminal, container.directory), stdin=stdin
        )

    def port_forward(self, sandbox_id: str, port: int) -> socket.socket:
        """Return a connection to a port of a sandbox. Raises RequestRefusedError, OSError."""
        sandbox = self._registry.sandbox(sandbox_id)
        pinned = self._namespaces.pinned(sandbox.id)
        if pinned is None or sandbox.record.stopped:
            raise WrongStateError(f"forward a port of sandbox {sandbox.id}", "it is not ready")
        return connect_in_namespace(pinned.network, port)


def _nobody() -> None:
    """Report no exit."""


class _Opened:
    """Descriptors of a command that runs; `resized` is called when its terminal has another size."""

    def __init__(
        self,
        ended: int,
        stdin: int | None,
        stdout: int,
        stderr: int | None,
        resized: Callable[[], None] = _nobody,
    ) -> None:
        self.ended, self.stdin, self.stdout, self.stderr = ended, stdin, stdout, stderr
        self.resized = resized


def _pipes(command: Command, attempt: str, *, stdin: bool, stack: contextlib.ExitStack) -> _Opened:
    """Start a command with a pipe for each stream. Raises RunFailedError."""
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as failing:
        out, err = (_pipe(stack, theirs, reads=True) for _ in range(2))
        given, ours = subprocess.DEVNULL, None
        if stdin:
            ours, given = _pipe(stack, theirs, reads=False)
            failing.callback(os.close, ours)
        stack.callback(os.close, ended := command.start((given, out[1], err[1])))
        _check_started(command, attempt, err[0])
        failing.pop_all()
    return _Opened(ended, ours, out[0], err[0])


def _check_started(command: Command, attempt: str, *errors: int) -> None:
    """Raise RunFailedError with the OCI runtime's output, if it has ended without starting the command."""
    if not command.await_start() and command.poll() is not None:
        said = next(filter(None, map(_error_message, errors)), "")
        raise RunFailedError(attempt, why_not_started(said, command.program) or "it was not started")


def _pipe(stack: contextlib.ExitStack, theirs: contextlib.ExitStack, *, reads: bool) -> tuple[int, int]:
    """Return the end of a new pipe that edgecore keeps, which is not blocking, and the command's."""
    read, write = os.pipe2(os.O_CLOEXEC)
    kept, given = (read, write) if reads else (write, read)
    theirs.callback(os.close, given)
    if reads:
        stack.callback(os.close, kept)
    os.set_blocking(kept, False)
    return kept, given


def _terminal(command: Command, attempt: str, stack: contextlib.ExitStack) -> _Opened:
    """Start a command with a terminal, whose master the OCI runtime hands over. Raises RunFailedError."""
    with contextlib.ExitStack() as handed_on:
        errors, theirs = _pipe(stack, handed_on, reads=True)
        listener = handed_on.enter_context(socket.socket(socket.AF_UNIX))
        directory = os.open(command.files, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        handed_on.callback(os.close, directory)
        # a unix address holds 107 bytes only
        address = f"/proc/{os.getpid()}/fd/{directory}/{command.console}"
        listener.bind(address)
        listener.listen(1)
        options = ["--tty", "--console-socket", address]
        ended = command.start((subprocess.DEVNULL, subprocess.DEVNULL, theirs), options)
        stack.callback(os.close, ended)
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(ended, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(_CONSOLE_MILLISECONDS)]
        if listener.fileno() not in ready:
            raise RunFailedError(attempt, _error_message(errors) or "it did not come up in time")
        stack.callback(os.close, master := _receive(listener))
    os.set_blocking(master, False)
    _check_started(command, attempt, errors, master)
    _end_lines(master)
    return _Opened(ended, master, master, None)


def _passed_terminal(command: Command, attempt: str, stack: contextlib.ExitStack) -> _Opened:
    """Start a command whose terminal runc keeps, and passes on to one of edgecore's. Raises RunFailedError.

    runc hands a terminal over only if it does not wait for the command, whose exit code would be lost. It lets its own
    terminal leave out the carriage return at the end of a line, and edgecore's adds one. runc does so while the command
    starts, and a shell may undo it: then there are two.
    """
    with contextlib.ExitStack() as handed_on:
        errors, theirs = _pipe(stack, handed_on, reads=True)
        master, slave = os.openpty()
        stack.callback(os.close, master)
        handed_on.callback(os.close, slave)
        terminals.setraw(slave)  # input before runc is ready must not be echoed
        _end_lines(master)
        ended = command.start((slave, slave, theirs), ["--tty"])
    stack.callback(os.close, ended)
    if not command.await_start():
        raise RunFailedError(attempt, _error_message(errors) or "it did not come up in time")
    os.set_blocking(master, False)
    return _Opened(ended, master, master, None, resized=command.terminal_resized)


def _end_lines(terminal: int) -> None:
    """Let a terminal end lines as terminals do. Raises termios.error."""
    attributes = termios.tcgetattr(terminal)
    attributes[1] |= termios.OPOST | termios.ONLCR
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)


def _receive(listener: socket.socket) -> int:
    """Return the descriptor that the OCI runtime sends. Raises OSError."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(_CONSOLE_MILLISECONDS / 1000)
        _, descriptors, _, _ = socket.recv_fds(connection, 4096, 1)
    if not descriptors:
        raise OSError("the OCI runtime has sent no terminal")
    os.set_inheritable(descriptors[0], False)  # noqa: FBT003 - os's own
    return descriptors[0]


def _error_message(errors: int) -> str:
    try:
        return message_in(os.read(errors, _MESSAGE_BYTES))
    except OSError:  # there is nothing, or the terminal is nobody's
        return ""


class _ExecProcess:
    """A command with its descriptors."""

    packets = False
    ends_with_stdin = False

    def __init__(self, command: Command, opened: _Opened, stack: contextlib.ExitStack) -> None:
        self.stdin: int | None = opened.stdin
        self.stdout: int | None = opened.stdout
        self.stderr: int | None = opened.stderr
        self.ended: int | None = opened.ended
        self._command = command
        self._stack = stack
        self._resized = opened.resized
        self._has_terminal = opened.stderr is None
        self._input = -1 if opened.stdin is None or self._has_terminal else opened.stdin

    def close_stdin(self) -> None:
        """End the input; a terminal's stays open."""
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal."""
        if self._has_terminal and self.stdout is not None:
            fcntl.ioctl(self.stdout, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
            self._resized()

    def wait(self) -> int:
        """Wait for the end, and return the exit code."""
        return self._command.wait()

    def kill(self) -> None:
        """Kill the command and its child processes."""
        self._command.kill()

    def close(self) -> None:
        """Close the descriptors, after killing a command that still runs."""
        self.close_stdin()
        self._stack.close()


def _connect_to_parent(directory: Path) -> socket.socket:
    """Return a connection to the conmon of a container's directory. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with (
        on_failure(connection.close),
        OwnedFd(os.open(directory / BUNDLE, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor,
    ):
        connection.connect(f"/proc/self/fd/{descriptor}/{_ATTACH}")
    return connection
