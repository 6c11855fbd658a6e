"""Commands, attached containers and ports as the streaming server uses them, over Docker's hijacked connections."""

import os
import select
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from modules.runtimes.docker.client import DockerClient, Exchange
from modules.runtimes.docker.commands import DockerCommand, start_command
from modules.runtimes.docker.frames import FrameError, FrameReader
from modules.runtimes.docker.model import DockerContainer
from modules.runtimes.docker.sandboxes import DockerSandboxes
from modules.runtimes.engine.errors import RequestRefusedError, WrongStateError
from modules.runtimes.engine.registry import Registry
from modules.runtimes.oci.network.namespaces import connect_in_namespace
from modules.runtimes.streaming import StreamProcess
from protos.cri.v1 import api_pb2 as cri

_READ_BYTES: Final = 32 * 1024


class DockerStreams:
    """The streaming server's operations on containers and sandboxes (see `StreamingBackend`)."""

    def __init__(self, docker: DockerClient, registry: Registry[DockerContainer], sandboxes: DockerSandboxes) -> None:
        self._docker = docker
        self._registry = registry
        self._sandboxes = sandboxes

    def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> StreamProcess:
        """Run a command in a running container. Raises RequestRefusedError, OSError."""
        container = self._registry.container(container_id)
        return _ExecProcess(start_command(self._docker, container, command, tty=tty, stdin=stdin), tty=tty, stdin=stdin)

    def attach(self, container_id: str, *, tty: bool, stdin: bool) -> StreamProcess:  # noqa: ARG002 - the container has one or not
        """Attach to the first process of a running container. Raises RequestRefusedError, OSError."""
        container = self._registry.container(container_id)
        attempt = f"attach to container {container.id}"
        if container.state != cri.CONTAINER_RUNNING:
            raise WrongStateError(attempt, "it is not running")
        has_input = stdin and container.config.stdin
        query = {"stream": "1", "stdout": "1", "stderr": "1", "stdin": "1" if has_input else "0"}
        exchange = self._docker.hijack(f"/containers/{container.id}/attach", attempt, query)
        return _AttachedContainer(self._docker, container, exchange, stdin=has_input)

    def port_forward(self, sandbox_id: str, port: int) -> socket.socket:
        """Return a connection to a port of a sandbox. Raises RequestRefusedError, OSError."""
        sandbox = self._registry.sandbox(sandbox_id)
        if sandbox.record.stopped:
            raise WrongStateError(f"forward a port of sandbox {sandbox.id}", "it is not ready")
        return connect_in_namespace(self._sandboxes.network_namespace(sandbox), port)


class _HijackedStreams:
    """Pipes that a thread fills with the bytes from a connection of Docker's, with separate output and errors."""

    packets = False
    ends_with_stdin = False  # Docker Engine ends the attachment itself
    ended: int | None = None

    def __init__(self, exchange: Exchange, *, tty: bool, stdin: bool) -> None:
        self._exchange = exchange
        self._reader = None if tty else FrameReader()
        self.stdin: int | None = exchange.socket.fileno() if stdin else None
        self.stdout: int | None = None
        self.stderr: int | None = None
        self._writes: dict[str, int] = {}
        try:
            self.stdout = self._pipe("stdout")
            if not tty:
                self.stderr = self._pipe("stderr")
            self._thread = threading.Thread(target=self._copy, name="docker-stream", daemon=True)
            self._thread.start()
        except BaseException:
            self._close_all([*self._writes.values(), self.stdout, self.stderr])
            exchange.close()
            raise

    def close_stdin(self) -> None:
        """End the input."""
        with suppress(OSError):
            self._exchange.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection and the pipes, and wait for the thread."""
        with suppress(OSError):
            self._exchange.socket.shutdown(socket.SHUT_RDWR)
        self._close_all([self.stdout, self.stderr])  # the thread may be blocked by a full pipe
        self._thread.join()
        self._exchange.close()

    def _pipe(self, stream: str) -> int:
        read, self._writes[stream] = os.pipe2(os.O_CLOEXEC)
        return read

    def _copy(self) -> None:
        connection = self._exchange.socket
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        try:
            self._put(self._exchange.early)
            while True:
                poll.poll()
                try:
                    data = connection.recv(_READ_BYTES)
                except BlockingIOError:  # the session makes the connection so, for the input
                    continue
                if not data:
                    return
                self._put(data)
        except (OSError, FrameError):
            return  # the connection broke off, or nobody reads now
        finally:
            self._close_all(list(self._writes.values()))

    def _put(self, data: bytes) -> None:
        pieces = [("stdout", data)] if self._reader is None else self._reader.frames(data)
        for stream, content in pieces:
            while content:
                content = content[os.write(self._writes[stream], content) :]  # noqa: PLW2901 - what is left

    @staticmethod
    def _close_all(descriptors: Sequence[int | None]) -> None:
        for each in descriptors:
            if each is not None:
                os.close(each)


class _ExecProcess(_HijackedStreams):
    """A command with its streams."""

    def __init__(self, command: DockerCommand, *, tty: bool, stdin: bool) -> None:
        super().__init__(command.exchange, tty=tty, stdin=stdin)
        self._command = command
        self._tty = tty

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal."""
        if self._tty:
            with suppress(RequestRefusedError):  # it is just ending
                self._command.resize(width, height)

    def wait(self) -> int:
        """Wait for the end, and return the exit code."""
        try:
            return self._command.exit_code()
        except RequestRefusedError:
            return -1

    def kill(self) -> None:
        """Kill the command and all processes that it has started."""
        self._command.kill()


class _AttachedContainer(_HijackedStreams):
    """A connection to the first process of a container."""

    def __init__(self, docker: DockerClient, container: DockerContainer, exchange: Exchange, *, stdin: bool) -> None:
        super().__init__(exchange, tty=container.config.tty, stdin=stdin)
        self._docker = docker
        self._container = container

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal."""
        if self._container.config.tty:
            query = {"w": str(width), "h": str(height)}
            with suppress(RequestRefusedError):  # it is just ending
                self._docker.call("POST", f"/containers/{self._container.id}/resize", "resize a terminal", query)

    def wait(self) -> int:
        """Return 0: the container's exit code is in its status."""
        return 0

    def kill(self) -> None:
        """Do nothing: the container goes on."""
