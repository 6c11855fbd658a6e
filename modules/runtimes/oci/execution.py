"""ExecSync: runs a command in a container, collects its output and limits its time."""

import contextlib
import os
import subprocess
from typing import Final

from beehive.clock import Clock
from modules.runtimes.engine.command_output import CommandOutput
from modules.runtimes.engine.driver import OnEnd, call_at_end
from modules.runtimes.engine.errors import (
    BadRequestError,
    DeadlinePassedError,
    RunFailedError,
    TooManyError,
    WrongStateError,
)
from modules.runtimes.oci.bundles import read_config
from modules.runtimes.oci.crun.commands import START_FAILED, Command
from modules.runtimes.oci.crun.launching import Launcher
from modules.runtimes.oci.crun.runtime_command import RuntimeCommand, message_in
from modules.runtimes.oci.model import OciContainer
from modules.runtimes.oci.spec import Json, exec_process
from protos.cri.v1 import api_pb2 as cri

_NO_FILE: Final = "executable file `"
_REASONS: Final = {
    _NO_FILE: "executable file not found in $PATH",
    "open executable: Permission denied": "permission denied",
    "open executable: Operation not permitted": "permission denied",
}
"""Reasons of runc by the beginnings of crun's messages."""
_ATTEMPTS: Final = 2
"""crun before 1.8.6 may fail to enter a container that has just been started."""


class Executor:
    """The runner of commands in containers.

    Args:
        launcher: starts the OCI runtime.
        runtime: the OCI runtime.
        clock: measures time-outs.
    """

    def __init__(self, launcher: Launcher, runtime: RuntimeCommand, clock: Clock) -> None:
        self._launcher = launcher
        self._runtime = runtime
        self._clock = clock

    def execute(self, container: OciContainer, request: cri.ExecSyncRequest, on_cancel: OnEnd) -> cri.ExecSyncResponse:
        """Run `request.cmd` like the container's first process: same environment, directory, user and rights.

        Args:
            container: must be running.
            request: `timeout` in seconds, 0: no limit.
            on_cancel: registers a callback for a client that gives up.

        Raises:
            BadRequestError: no command, or a NUL character in it.
            WrongStateError: the container is not running.
            RunFailedError: the command could not be started.
            DeadlinePassedError: it took longer than `timeout`, and was killed.
            TooManyError: this process has no more descriptors or memory; it keeps nothing of the attempt.
        """
        attempt = f"execute a command in container {container.id}"
        process = command_of(container, list(request.cmd), attempt, tty=False)
        deadline = self._clock.monotonic() + request.timeout if request.timeout else None
        for number in range(_ATTEMPTS):
            try:
                answer = self._once(container, process, deadline, on_cancel)
            except OSError as error:
                reason = error.strerror or str(error)
                raise TooManyError(attempt, reason, "see ulimit -n and the node's memory") from error
            if answer is None:
                raise DeadlinePassedError(attempt, f"it took longer than {request.timeout} s and was killed")
            if isinstance(answer, cri.ExecSyncResponse):
                return answer
            if number + 1 == _ATTEMPTS or container.state != cri.CONTAINER_RUNNING:
                raise RunFailedError(attempt, answer)
        raise AssertionError("unreachable")

    def _once(
        self, container: OciContainer, process: Json, deadline: float | None, on_cancel: OnEnd
    ) -> cri.ExecSyncResponse | str | None:
        """Return the command's answer, the reason why it was not started, or None if it did not end in time."""
        with contextlib.ExitStack() as kept_open:
            with contextlib.ExitStack() as handed_on:
                output = CommandOutput(kept_open, handed_on, self._clock)
                command = kept_open.enter_context(
                    Command(self._launcher, self._runtime, container.id, container.directory, process)
                )
                stdout, stderr = output.write_ends
                ended = command.start((subprocess.DEVNULL, stdout, stderr))
                kept_open.callback(os.close, ended)
            call_at_end(on_cancel, output.wake)
            output.gather(None if deadline is None else max(0.0, deadline - self._clock.monotonic()), [ended])
            code = command.poll()
            if code is None:
                return None
            if code in (1, START_FAILED) and not command.was_started:
                said = message_in(bytes(output.stderr)) or f"{self._runtime.program.name} ended with {code}"
                return why_not_started(said, process["args"][0])
        return cri.ExecSyncResponse(stdout=bytes(output.stdout), stderr=bytes(output.stderr), exit_code=code)


def why_not_started(message: str, program: str) -> str:
    """Return a message of crun about a program that cannot be executed in the words of runc, which clients know.

    Args:
        message: of crun, or runc.
        program: the first word of the command.
    """
    begins = next((each for each in _REASONS if message.startswith(each)), None)
    if begins is None:
        return message
    reason = _REASONS[begins]
    if begins == _NO_FILE and "/" in program:
        reason = f"stat {program}: no such file or directory"
    return f'exec failed: unable to start container process: exec: "{program}": {reason}'


def command_of(container: OciContainer, command: list[str], attempt: str, *, tty: bool) -> Json:
    """Return the process.json of a command. Raises BadRequestError, WrongStateError."""
    if not command or any("\0" in text for text in command):
        raise BadRequestError(attempt, "the request has no command, or a NUL character in it")
    if container.state != cri.CONTAINER_RUNNING:
        raise WrongStateError(attempt, "it is not running")
    try:
        config = read_config(container.directory)
    except OSError as error:
        raise WrongStateError(attempt, "the container was removed meanwhile") from error
    return exec_process(config, command, tty=tty)
