"""Commands executed beside a container's main process (ExecSync): started, tracked, killed, answered for."""

import contextlib
import os
import signal
from typing import NamedTuple

from edged.embedded.shepherd.connections import Connection, close_all
from edged.embedded.shepherd.launch import LaunchError, Streams, launch
from edged.embedded.shepherd.protocol import Namespacing, Pid, ProcessSpec, from_memory_file
from edged.embedded.shepherd.roots import join

_DESCRIPTORS = 3
"""Of a command: its arguments, and where its two streams go."""


class _Asked(NamedTuple):
    by: Connection
    request: int


class Commands:
    """The commands that run now. A command whose asker is gone is killed: nobody reads its output."""

    def __init__(self, namespacing: Namespacing, like: ProcessSpec) -> None:
        """`like`: the main process, whose environment, directory and user they get."""
        self._namespacing = namespacing
        self._like = like
        self._running: dict[Pid, _Asked] = {}

    def start(self, asker: Connection, request: int, main: Pid, descriptors: list[int]) -> None:
        """Execute the argument list in the first descriptor, in the mounts of `main`, on the other two.

        The kernel leaves descriptors out that this process may not have (EMFILE): then nothing is executed.
        """
        if len(descriptors) != _DESCRIPTORS:
            close_all(descriptors)
            asker.send({"id": request, "error": "the shepherd may open no more files"})
            return
        arguments, stdout, stderr = descriptors
        try:
            spec = ProcessSpec(**{**self._like, "argv": from_memory_file(arguments)})
            pid = launch(spec, Streams(stdout, stderr), lambda: join(main, self._namespacing))
        except (LaunchError, OSError) as error:
            asker.send({"id": request, "error": str(error)})
        else:
            self._running[pid] = _Asked(asker, request)
        finally:
            close_all([stdout, stderr])

    def kill(self, asker: Connection, request: int) -> None:
        """End the command that `asker` had asked for as `request`, with its process group."""
        for pid, asked in self._running.items():
            if asked == (asker, request):
                _kill_group(pid)

    def kill_all_of(self, asker: Connection) -> None:
        """End every command of an asker that went away."""
        for pid, asked in self._running.items():
            if asked.by is asker:
                _kill_group(pid)

    def reaped(self, pid: Pid, exit_code: int) -> None:
        """Answer for a child that ended, when it was a command."""
        if asked := self._running.pop(pid, None):
            asked.by.send({"id": asked.request, "exit_code": exit_code})


def _kill_group(pid: Pid) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
