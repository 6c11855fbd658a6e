"""ExecSync: a command beside a container's main process, its output gathered, its time limited.

The time is the machine's own and not a `Clock`'s: it is waited for by poll(2), together with pipes of real processes
(see `edged.embedded.watcher`, also for the threads).
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from typing import Self

from edged.embedded.errors import (
    DeadlinePassedError,
    InvalidRequestError,
    RunFailedError,
    ShepherdGoneError,
    TooManyError,
    WrongStateError,
)
from edged.embedded.link import ShepherdLink
from edged.embedded.model import Container
from edged.embedded.shepherd.protocol import to_memory_file
from protos.cri.v1 import api_pb2 as cri

OUTPUT_LIMIT = 16 * 1024 * 1024 - 64 * 1024
"""Bytes of both streams together that are kept: CRI's 16 MiB, less room for the message around them."""

_CHUNK = 64 * 1024
_LARGEST_PIPE = 1024 * 1024
"""Bytes that a pipe can be made to hold (fs.pipe-max-size): what comes after them was written later."""
_LONGEST_SECONDS = 2_000_000.0
"""poll(2) counts milliseconds in 31 bits."""


def execute(
    container: Container, request: cri.ExecSyncRequest, on_cancel: Callable[[Callable[[], None]], object]
) -> cri.ExecSyncResponse:
    """Run `request.cmd` as the container's main process runs: environment, directory, user, mounts.

    Args:
        container: must be running.
        request: `timeout` in seconds, 0 for none.
        on_cancel: registers what to do when the client gives up.

    Raises:
        InvalidRequestError, WrongStateError: nothing to execute, or nowhere.
        RunFailedError: the command could not be started.
        DeadlinePassedError: it took longer than `timeout`, and was killed.
        TooManyError: this process may have no more files, or has no more memory; it holds nothing of the attempt.
    """
    attempt = f"execute a command in container {container.id}"
    if not request.cmd or any("\0" in text for text in request.cmd):
        raise InvalidRequestError(attempt, "the request has no command, or a NUL character in it")
    if container.link is None or container.state != cri.CONTAINER_RUNNING:
        raise WrongStateError(attempt, "it is not running")
    try:
        with _Command(container.link, list(request.cmd)) as command:
            on_cancel(command.wake)
            finished = command.gather(request.timeout or None)
            answer = command.answer.result(0) if finished else None
    except ShepherdGoneError as error:
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
    """One pipe and what came through it. `kept_open` and `handed_on` close its ends."""

    def __init__(self, kept_open: contextlib.ExitStack, handed_on: contextlib.ExitStack) -> None:
        self.kept = bytearray()
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        kept_open.callback(os.close, self.read_end)
        handed_on.callback(os.close, self.write_end)
        os.set_blocking(self.read_end, False)

    def pump(self, room: int) -> bool:
        """Take one chunk and keep `room` bytes of it at most; False when nothing is there now."""
        try:
            chunk = os.read(self.read_end, _CHUNK)
        except BlockingIOError:
            return False
        self.kept += chunk[: max(0, room)]
        return bool(chunk)


class _Command:
    """One command from request to answer; leaving it kills a command that has not ended.

    It needs six descriptors while it begins: what it has got is closed when it cannot have the next.
    """

    def __init__(self, link: ShepherdLink, argv: list[str]) -> None:
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
            with contextlib.suppress(ShepherdGoneError):
                self._link.begin("kill-exec", exec=self._request)
        self._open.close()

    def wake(self) -> None:
        """The command has ended, or nobody waits for it any more."""
        self._wakeup.ring()

    def gather(self, seconds: float | None) -> bool:
        """Keep the output until the command ends; False when it did not end in time or nobody waits for it any more.

        Only what is in the pipes when it ends counts: a process that it left behind may hold them open for ever.
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
    """An event descriptor that may be rung by others at any time, even after it was closed."""

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
