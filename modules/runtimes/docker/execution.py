"""ExecSync: runs a command in a container, collects its output and limits its time."""

import os
import select
import socket
from contextlib import ExitStack, suppress
from typing import Final

from beehive.clock import Clock
from modules.runtimes.docker.client import DockerClient
from modules.runtimes.docker.commands import DockerCommand, start_command
from modules.runtimes.docker.frames import FrameError, FrameReader
from modules.runtimes.docker.model import DockerContainer
from modules.runtimes.engine.command_output import OUTPUT_LIMIT
from modules.runtimes.engine.driver import OnEnd
from modules.runtimes.engine.errors import DeadlinePassedError, RunFailedError
from protos.cri.v1 import api_pb2 as cri

_READ_BYTES: Final = 64 * 1024
_LAST_SECONDS: Final = 1.0
"""Seconds to wait for Docker's last output after the command has ended; processes that it left behind may keep the
streams open for ever."""
_LONGEST_SECONDS: Final = 2_000_000.0


def execute(
    docker: DockerClient, container: DockerContainer, request: cri.ExecSyncRequest, on_cancel: OnEnd
) -> cri.ExecSyncResponse:
    """Run `request.cmd`. Raises as `start_command`, and DeadlinePassedError after killing a slow command."""
    attempt = f"execute a command in container {container.id}"
    deadline = docker.clock.monotonic() + request.timeout if request.timeout else None
    command = start_command(docker, container, list(request.cmd))
    with ExitStack() as stack:
        stack.callback(command.exchange.close)
        on_cancel(lambda: _cut(command))
        output = _Output(command, stack, docker.clock)
        if not output.gather(deadline):
            command.kill()
            raise DeadlinePassedError(attempt, f"it took longer than {request.timeout} s and was killed")
        if output.is_broken:
            command.kill()
            raise RunFailedError(attempt, "the connection to Docker broke off, or the client gave up")
        return cri.ExecSyncResponse(
            stdout=bytes(output.kept["stdout"]), stderr=bytes(output.kept["stderr"]), exit_code=command.exit_code()
        )


class _Output:
    """The output of a command, and its end."""

    def __init__(self, command: DockerCommand, stack: ExitStack, clock: Clock) -> None:
        self.kept = {"stdout": bytearray(), "stderr": bytearray()}
        self.is_broken = False
        self._clock = clock
        self._exchange = command.exchange
        self._socket = command.exchange.socket
        self._reader = FrameReader()
        self._process = -1
        with suppress(ProcessLookupError):  # it has ended
            self._process = os.pidfd_open(command.pid)
            stack.callback(os.close, self._process)

    def gather(self, deadline: float | None) -> bool:
        """Keep the output until the command has ended; return False if it does not end in time."""
        self._keep(self._exchange.early)
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if self._process >= 0:
            poll.register(self._process, select.POLLIN)
        has_ended = False
        while True:
            left = min(max(0.0, deadline - self._clock.monotonic()), _LONGEST_SECONDS) * 1000 if deadline else None
            ready = [descriptor for descriptor, _ in poll.poll(left)]
            if not ready:
                return has_ended
            if self._socket.fileno() in ready and not self._read():
                return True
            if self._process in ready:
                poll.unregister(self._process)
                has_ended, deadline = True, self._clock.monotonic() + _LAST_SECONDS

    def _read(self) -> bool:
        try:
            data = self._socket.recv(_READ_BYTES)
            self._keep(data)
        except (OSError, FrameError):
            self.is_broken = True
            return False
        return bool(data)

    def _keep(self, data: bytes) -> None:
        for stream, content in self._reader.frames(data):
            room = OUTPUT_LIMIT - sum(map(len, self.kept.values()))
            self.kept[stream] += content[: max(0, room)]


def _cut(command: DockerCommand) -> None:
    with suppress(OSError):
        command.exchange.socket.shutdown(socket.SHUT_RDWR)
