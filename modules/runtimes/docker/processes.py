"""The processes of containers as Docker reports them: their starts and ends, and the states of an earlier edgecore's
containers.

Docker's state is authoritative and never copied to the disk: Docker keeps the exit code as long as it keeps the
container.
"""

import logging
import os
import select
import socket
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final

from beehive.clock import Clock
from modules.runtimes.docker.answers import InspectedContainer, State, nanoseconds
from modules.runtimes.docker.client import DockerClient
from modules.runtimes.docker.commands import DockerCommand, start_command
from modules.runtimes.docker.creation import remove_container
from modules.runtimes.docker.errors import DockerUnreachableError
from modules.runtimes.docker.frames import FrameError, FrameReader
from modules.runtimes.docker.log_stream import LogFollower, catch_up, open_log_stream
from modules.runtimes.docker.model import DockerContainer
from modules.runtimes.engine.command_output import CommandRoom
from modules.runtimes.engine.driver import OnEnd, call_at_end
from modules.runtimes.engine.errors import DeadlinePassedError, NoSuchObjectError, RequestRefusedError, RunFailedError
from modules.runtimes.engine.events import Announcer
from modules.runtimes.engine.process_watcher import ProcessWatcher
from modules.runtimes.engine.records import Exit, Run, lost
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

START_ERROR_EXIT_CODE: Final = 128
"""Exit code of a container that could not be started, as containerd reports it."""
_KILLED: Final = 137
_WRITABLE_LAYER: Final = "UpperDir"

_READ_BYTES: Final = 64 * 1024
_LAST_SECONDS: Final = 1.0
"""Seconds to wait for Docker's last output after the command has ended; processes that it left behind may keep the
streams open for ever."""
_LONGEST_SECONDS: Final = 2_000_000.0


class DockerProcesses:
    """The processes of all containers.

    Starts and ends are announced on the thread that notices them.
    """

    def __init__(self, docker: DockerClient, watcher: ProcessWatcher, clock: Clock, announcer: Announcer) -> None:
        self._docker = docker
        self._watcher = watcher
        self._clock = clock
        self._announcer = announcer

    def start(self, container: DockerContainer) -> None:
        """Start a created container and return when its command runs.

        Raises:
            RunFailedError: Docker cannot start it; it has ended.
            DockerUnreachableError: whether the container runs is unknown until `refresh`.
        """
        attempt = f"start container {container.id}"
        try:
            self._docker.call("POST", f"/containers/{container.id}/start", attempt)
        except DockerUnreachableError:
            raise
        except RequestRefusedError as error:
            self._end(container, self._start_error(error.reason))
            raise RunFailedError(attempt, error.reason) from error
        self.refresh(container)

    def end_unknown(self, directory: Path) -> bool:
        """Remove a container without readable records; return whether it no longer exists."""
        try:
            remove_container(self._docker, directory.name)
        except RequestRefusedError as error:
            _log.error("a container cannot be removed: %s", error)
            return False
        return True

    def refresh(self, container: DockerContainer) -> None:
        """Take over Docker's state of a container, and follow the log of a running one.

        Raises RequestRefusedError if Docker does not report it.
        """
        if container.exit is not None:
            return
        found = self._inspect(container)
        if found is None:
            self._end(container, lost(self._clock.now_ns(), "somebody has removed it from Docker"))
            return
        state, at = found.state, nanoseconds(found.state.finished_at)
        container.writable_layer = (found.graph_driver.data or {}).get(_WRITABLE_LAYER, "")
        container.further_files = tuple(Path(each) for each in (found.hostname_path, found.resolv_conf_path) if each)
        if state.running or at:
            self._record_start(container, Run(state.pid, nanoseconds(state.started_at)))
        if state.running:
            self._follow(container)
        elif at:
            self._end(container, _exit_of(state, at))
        elif state.exit_code:
            self._end(container, self._start_error(state.error))

    def _record_start(self, container: DockerContainer, run: Run) -> None:
        with container.ending_lock:
            if container.run is not None:
                return
            container.started(run)
        self._announcer.started(container)

    def _inspect(self, container: DockerContainer) -> InspectedContainer | None:
        attempt = f"look at container {container.id}"
        try:
            return self._docker.get(f"/containers/{container.id}/json", InspectedContainer, attempt)
        except NoSuchObjectError:
            return None

    def _follow(self, container: DockerContainer) -> None:
        """Write the container's log from now on, unless that has begun already."""
        if not container.log_path or container.follower is not None:
            return
        stream, since = container.log.resume()
        exchange = open_log_stream(self._docker, container.id, since, follow=True)
        try:
            follower = LogFollower(exchange, stream, container.log, partial(self._log_ended, container))
            is_open = follower.read()  # bytes that came with the head; the watcher waits for later ones
            container.follower = follower if is_open else None
            if is_open:
                self._watcher.add(follower)
        except BaseException:
            container.follower = None  # the next look at the container follows it
            exchange.close()
            raise
        if not is_open:
            follower.close()

    def _log_ended(self, container: DockerContainer, has_received: bool) -> None:
        """Handle the end of a log's stream, which ends with its container, with Docker, or for a reason of Docker's
        own.
        """
        container.follower = None
        if container.exit is not None or not has_received:
            return  # the event of its end, or Docker's return, leads to `refresh`
        try:
            self.refresh(container)
        except RequestRefusedError as error:
            _log.info("the log of container %s is not followed now: %s", container.id, error)

    def _end(self, container: DockerContainer, exit_: Exit) -> None:
        """Record the end of a container after writing its whole log."""
        with container.ending_lock:
            if container.exit is not None:
                return
            try:
                if container.log_path and container.run is not None:
                    catch_up(self._docker, container.id, container.log)
            except RequestRefusedError as error:
                _log.warning("the end of a log is missing: %s", error)
            container.log.close()
            if container.follower is not None:
                container.follower.stop()
            container.finished(exit_)
        self._announcer.stopped(container)

    def _start_error(self, reason: str) -> Exit:
        return Exit(START_ERROR_EXIT_CODE, self._clock.now_ns(), "StartError", reason)


def _exit_of(state: State, at: int) -> Exit:
    is_oom = state.out_of_memory and state.exit_code == _KILLED
    reason = "OOMKilled" if is_oom else "Error" if state.exit_code else "Completed"
    return Exit(state.exit_code, at, reason, state.error)


def execute(
    docker: DockerClient, container: DockerContainer, request: cri.ExecSyncRequest, on_cancel: OnEnd
) -> cri.ExecSyncResponse:
    """Run `request.cmd`. Raises as `start_command`, and DeadlinePassedError after killing a slow command."""
    attempt = f"execute a command in container {container.id}"
    deadline = docker.clock.monotonic() + request.timeout if request.timeout else None
    command = start_command(docker, container, list(request.cmd))
    with ExitStack() as stack:
        stack.callback(command.exchange.close)
        call_at_end(on_cancel, lambda: _cut(command))
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
        self._room = CommandRoom()
        stack.callback(self._room.close)
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
            self.kept[stream] += content[: self._room.grant(len(content))]


def _cut(command: DockerCommand) -> None:
    with suppress(OSError):
        command.exchange.socket.shutdown(socket.SHUT_RDWR)
