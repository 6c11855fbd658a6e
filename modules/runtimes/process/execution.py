"""ExecSync: runs a command beside a container's main process, collects its output and limits its time."""

import contextlib
import os
from collections.abc import Callable
from typing import Self

from beehive.clock import Clock
from modules.runtimes.engine.command_output import CommandOutput
from modules.runtimes.engine.errors import (
    BadRequestError,
    DeadlinePassedError,
    RunFailedError,
    ShimGoneError,
    TooManyError,
    WrongStateError,
)
from modules.runtimes.process.model import ProcessContainer
from modules.runtimes.process.shim_client import ShimClient
from modules.runtimes.shim.protocol import to_memory_file
from protos.cri.v1 import api_pb2 as cri


def execute(
    container: ProcessContainer,
    request: cri.ExecSyncRequest,
    on_cancel: Callable[[Callable[[], None]], object],
    clock: Clock,
) -> cri.ExecSyncResponse:
    """Run `request.cmd` like the container's main process: same environment, directory, user and mounts.

    Args:
        container: must be running.
        request: `timeout` in seconds, 0 for none.
        on_cancel: registers a callback for a client that gives up.
        clock: measures the time-out.

    Raises:
        BadRequestError: no command, or a NUL character in it.
        WrongStateError: the container is not running.
        RunFailedError: the command could not be started.
        DeadlinePassedError: it took longer than `timeout`, and was killed.
        TooManyError: this process has no more file descriptors or memory; it keeps nothing of the attempt.
    """
    attempt = f"execute a command in container {container.id}"
    if not request.cmd or any("\0" in text for text in request.cmd):
        raise BadRequestError(attempt, "the request has no command, or a NUL character in it")
    if container.link is None or container.state != cri.CONTAINER_RUNNING:
        raise WrongStateError(attempt, "it is not running")
    try:
        with _Command(container.link, list(request.cmd), clock) as command:
            on_cancel(command.output.wake)
            command.output.gather(request.timeout or None)
            answer = command.answer.result(0) if command.answer.done() else None
    except ShimGoneError as error:
        raise WrongStateError(attempt, "the container ended meanwhile") from error
    except OSError as error:
        raise TooManyError(attempt, error.strerror or str(error), "see ulimit -n and the node's memory") from error
    if answer is None:
        raise DeadlinePassedError(attempt, f"it took longer than {request.timeout} s and was killed")
    if "error" in answer:
        raise RunFailedError(attempt, answer["error"])
    return cri.ExecSyncResponse(
        stdout=bytes(command.output.stdout), stderr=bytes(command.output.stderr), exit_code=answer["exit_code"]
    )


class _Command:
    """One command from request to answer; leaving the context kills a command that has not ended.

    It needs six descriptors to begin, and closes those it has opened when it cannot get the next.
    """

    def __init__(self, link: ShimClient, argv: list[str], clock: Clock) -> None:
        self._link = link
        self._argv = argv
        self._clock = clock

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as kept_open:
            with contextlib.ExitStack() as handed_on:
                self.output = CommandOutput(kept_open, handed_on, self._clock)
                arguments = to_memory_file("arguments", self._argv)
                handed_on.callback(os.close, arguments)
                theirs = [arguments, *self.output.write_ends]
                self._request, self.answer = self._link.begin("exec", theirs)
            self._open = kept_open.pop_all()
        self.answer.add_done_callback(lambda _: self.output.wake())
        return self

    def __exit__(self, *_: object) -> None:
        if not self.answer.done():
            with contextlib.suppress(ShimGoneError):
                self._link.begin("kill-exec", exec=self._request)
        self._open.close()
