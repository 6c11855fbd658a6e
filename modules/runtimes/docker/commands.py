"""Commands that run in containers (Docker's exec)."""

import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from beehive.files.descriptors import OwnedFd, open_process
from beehive.on_failure import on_failure
from modules.runtimes.docker.answers import Created, InspectedCommand
from modules.runtimes.docker.client import DockerClient, Exchange
from modules.runtimes.docker.frames import FrameError, FrameReader
from modules.runtimes.docker.model import DockerContainer
from modules.runtimes.docker.user_files import refuse_numbers_as_names
from modules.runtimes.engine.errors import BadRequestError, RunFailedError, WrongStateError
from protos.cri.v1 import api_pb2 as cri

_DECISION_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.005
_LONGEST_MESSAGE: Final = 64 * 1024


class DockerCommand:
    """A command in a container, started by `start_command`."""

    def __init__(self, docker: DockerClient, container_id: str, command_id: str, exchange: Exchange, pid: int) -> None:
        self.exchange = exchange
        """The connection with its streams."""
        self.pid = pid
        """Process id on the machine; the process may have ended."""
        self._docker = docker
        self._container_id = container_id
        self._id = command_id

    def exit_code(self) -> int:
        """Return the exit code of a command that has ended or is about to end. Raises RequestRefusedError."""
        found = _await(self._docker, self._id, lambda state: not state.running and state.exit_code is not None)
        return found.exit_code if found is not None and found.exit_code is not None else -1

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal. Raises RequestRefusedError."""
        query = {"w": str(width), "h": str(height)}
        self._docker.call("POST", f"/exec/{self._id}/resize", "resize a terminal", query)

    def kill(self) -> None:
        """Kill the command and all processes of its session, which Docker's API cannot do."""
        for pid in _session(self.pid):
            _kill(pid, self._container_id)


def start_command(
    docker: DockerClient, container: DockerContainer, command: Sequence[str], *, tty: bool = False, stdin: bool = False
) -> DockerCommand:
    """Start a command with the environment, directory, user and rights of the container's first process.

    Raises:
        BadRequestError: no command, or a NUL character in it; the user's number has become a name.
        WrongStateError: the container is not running.
        RunFailedError: the command could not be started.
        DockerUnreachableError: Docker does not answer.
    """
    attempt = f"execute a command in container {container.id}"
    if not command or any("\0" in text for text in command):
        raise BadRequestError(attempt, "the request has no command, or a NUL character in it")
    if container.state != cri.CONTAINER_RUNNING:
        raise WrongStateError(attempt, "it is not running")
    security = container.request.config.linux.security_context
    refuse_numbers_as_names(docker, container.id, security, "", attempt)  # Docker looks the user up again
    body: dict[str, Any] = {"Cmd": list(command), "Tty": tty, "AttachStdin": stdin}
    body |= {"AttachStdout": True, "AttachStderr": True}
    made = docker.post(f"/containers/{container.id}/exec", Created, attempt, body)
    exchange = docker.hijack(f"/exec/{made.id}/start", attempt, body={"Detach": False, "Tty": tty})
    with on_failure(exchange.close):
        state = _await(docker, made.id, lambda state: bool(state.pid) or state.exit_code is not None)
        if state is None or not state.pid:
            raise RunFailedError(attempt, _error_message(exchange, tty=tty) or "it does not start")
    return DockerCommand(docker, container.id, made.id, exchange, state.pid)


def _await(docker: DockerClient, command_id: str, until: Any) -> InspectedCommand | None:
    """Poll a command's state until it is as expected, because Docker offers no notification; return None if it never
    is.
    """
    pause, deadline = threading.Event(), docker.clock.monotonic() + _DECISION_SECONDS
    while docker.clock.monotonic() < deadline:
        state = docker.get(f"/exec/{command_id}/json", InspectedCommand, "look at a command")
        if until(state):
            return state
        pause.wait(_LOOK_SECONDS)
    return None


def _error_message(exchange: Exchange, *, tty: bool) -> str:
    """Return Docker's message on the stream of a command that could not be started."""
    exchange.socket.settimeout(_DECISION_SECONDS)
    data = exchange.early
    with suppress(OSError):
        while len(data) < _LONGEST_MESSAGE and (more := exchange.socket.recv(_LONGEST_MESSAGE)):
            data += more
    try:
        text = data if tty else b"".join(content for _, content in FrameReader().frames(data))
    except FrameError:
        text = data
    return text.decode(errors="replace").strip()


def _session(leader: int) -> list[int]:
    """Return the processes that are in the session of a process, itself included."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                if os.getsid(int(entry.name)) == leader:
                    found.append(int(entry.name))
    return found


def _kill(pid: int, container_id: str) -> None:
    """Kill a process if it belongs to the container; this is checked again when its pid can no longer be reused."""
    with suppress(ProcessLookupError), OwnedFd(open_process(pid)) as descriptor:
        if _belongs(pid, container_id):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)


def _belongs(pid: int, container_id: str) -> bool:
    try:
        return container_id in Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
    except OSError:
        return False
