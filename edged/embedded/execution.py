"""ExecSync: runs a command beside a container's main process, collects its output and limits its time.

Time is the machine's own, not a `Clock`'s: poll(2) waits for it together with the pipes of real processes (see
`edged.embedded.shim_watcher`, also for the threads).
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from typing import Self

from edged.embedded.errors import (
    BadRequestError,
    DeadlinePassedError,
    RunFailedError,
    ShimGoneError,
    TooManyError,
    WrongStateError,
)
from edged.embedded.model import EmbeddedContainer
from edged.embedded.shim.protocol import to_memory_file
from edged.embedded.shim_client import ShimClient
from protos.cri.v1 import api_pb2 as cri

OUTPUT_LIMIT = 16 * 1024 * 1024 - 64 * 1024
"""Bytes kept of both streams together: CRI's 16 MiB, less room for the rest of the message."""

_CHUNK = 64 * 1024
_LARGEST_PIPE = 1024 * 1024
"""Bytes that a pipe can hold at most (fs.pipe-max-size): more output was written after the command's end."""
_LONGEST_SECONDS = 2_000_000.0
"""poll(2) counts milliseconds in 31 bits."""


def execute(
    container: EmbeddedContainer, request: cri.ExecSyncRequest, on_cancel: Callable[[Callable[[], None]], object]
) -> cri.ExecSyncResponse:
    """Run `request.cmd` like the container's main process: same environment, directory, user and mounts.

    Args:
        container: must be running.
        request: `timeout` in seconds, 0 for none.
        on_cancel: registers a callback for a client that gives up.

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
        with _Command(container.link, list(request.cmd)) as command:
            on_cancel(command.wake)
            finished = command.gather(request.timeout or None)
            answer = command.answer.result(0) if finished else None
    except ShimGoneError as error:
        raise WrongStateError(attempt, "the container ended meanwhile") from error
    except OSError as error:
        raise TooManyError(attempt, error.strerror or str(error), "see ulimit -n and the node's memory") from error
    if answer is None:
        raise DeadlinePassedError(attempt, f"it took longer than {request.timeout} s and was killed")
    if "error" in answer:
        raise RunFailedError(attempt, answer["error"])
    return cri.ExecSyncResponse(
        stdout=bytes(command.stdout.kept), stderr=bytes(command.stderr.kept), exit_code=answer["exit_code"]
    )


class _Stream:
    """One pipe and its output so far. `kept_open` and `handed_on` close its ends."""

    def __init__(self, kept_open: contextlib.ExitStack, handed_on: contextlib.ExitStack) -> None:
        self.kept = bytearray()
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        kept_open.callback(os.close, self.read_end)
        handed_on.callback(os.close, self.write_end)
        os.set_blocking(self.read_end, False)

    def pump(self, room: int) -> bool:
        """Read one chunk and keep `room` bytes of it at most; return False when the pipe is empty or closed."""
        try:
            chunk = os.read(self.read_end, _CHUNK)
        except BlockingIOError:
            return False
        self.kept += chunk[: max(0, room)]
        return bool(chunk)


class _Command:
    """One command from request to answer; leaving the context kills a command that has not ended.

    It needs six descriptors to begin, and closes those it has opened when it cannot get the next.
    """

    def __init__(self, link: ShimClient, argv: list[str]) -> None:
        self._link = link
        self._argv = argv

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as kept_open:
            with contextlib.ExitStack() as handed_on:
                self.stdout, self.stderr = (_Stream(kept_open, handed_on) for _ in range(2))
                self._wakeup = _Wakeup()
                kept_open.callback(self._wakeup.close)
                arguments = to_memory_file("arguments", self._argv)
                handed_on.callback(os.close, arguments)
                theirs = [arguments, self.stdout.write_end, self.stderr.write_end]
                self._request, self.answer = self._link.begin("exec", theirs)
            self._open = kept_open.pop_all()
        self.answer.add_done_callback(lambda _: self.wake())
        return self

    def __exit__(self, *_: object) -> None:
        if not self.answer.done():
            with contextlib.suppress(ShimGoneError):
                self._link.begin("kill-exec", exec=self._request)
        self._open.close()

    def wake(self) -> None:
        """End `gather`: the command has ended, or the client has given up."""
        self._wakeup.ring()

    def gather(self, seconds: float | None) -> bool:
        """Keep the output until the command ends; return False when the time-out passed or the client gave up.

        Only output that is in the pipes when the command ends counts: a process left behind may hold them open for
        ever.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        poll = select.poll()
        streams = {self.stdout.read_end: self.stdout, self.stderr.read_end: self.stderr}
        for descriptor in (*streams, self._wakeup.descriptor):
            poll.register(descriptor, select.POLLIN)
        while True:
            left = None if deadline is None else min(max(0.0, deadline - time.monotonic()), _LONGEST_SECONDS) * 1000
            ready = [descriptor for descriptor, _ in poll.poll(left)]
            if self._wakeup.descriptor in ready or not ready:
                break
            for descriptor in ready:
                if not streams[descriptor].pump(self._room()):
                    poll.unregister(descriptor)
        for stream in streams.values():
            for _ in range(_LARGEST_PIPE // _CHUNK):
                if not stream.pump(self._room()):
                    break
        return self.answer.done()

    def _room(self) -> int:
        return OUTPUT_LIMIT - len(self.stdout.kept) - len(self.stderr.kept)


class _Wakeup:
    """An event descriptor that any thread may ring at any time, even after it was closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = True
        self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def ring(self) -> None:
        with self._lock:
            if self._open:
                os.eventfd_write(self.descriptor, 1)

    def close(self) -> None:
        with self._lock:
            self._open = False
            os.close(self.descriptor)
