"""Commands executed beside a container's main process (ExecSync): start, kill, exit code."""

import contextlib
import os
import signal
from typing import NamedTuple

from modules.runtimes.shim.connections import Connection, close_all
from modules.runtimes.shim.launch import LaunchError, OutputStreams, launch
from modules.runtimes.shim.protocol import Namespacing, Pid, ProcessSpec, from_memory_file
from modules.runtimes.shim.roots import join

_DESCRIPTORS = 3
"""Descriptors that come with a command: its arguments, standard output and standard error."""


class _Asked(NamedTuple):
    by: Connection
    request: int


class Commands:
    """The running commands. A command is killed when its requester has disconnected, because nobody reads its output
    any more.
    """

    def __init__(self, namespacing: Namespacing, like: ProcessSpec) -> None:
        """Begin without commands.

        Args:
            namespacing: the mounts of the container.
            like: the main process; commands get its environment, directory and user.
        """
        self._namespacing = namespacing
        self._like = like
        self._running: dict[Pid, _Asked] = {}

    def start(self, asker: Connection, request: int, main: Pid, descriptors: list[int]) -> None:
        """Execute the argument list in the first descriptor, in the mounts of `main`, with output to the other two.

        The kernel drops descriptors that this process may not open (EMFILE): then nothing is executed.
        """
        if len(descriptors) != _DESCRIPTORS:
            close_all(descriptors)
            asker.send({"id": request, "error": "the shim may open no more files"})
            return
        arguments, stdout, stderr = descriptors
        try:
            spec = ProcessSpec(**{**self._like, "argv": from_memory_file(arguments)})
            pid = launch(spec, OutputStreams(stdout, stderr), lambda: join(main, self._namespacing))
        except (LaunchError, OSError) as error:
            asker.send({"id": request, "error": str(error)})
        else:
            self._running[pid] = _Asked(asker, request)
        finally:
            close_all([stdout, stderr])

    def kill(self, asker: Connection, request: int) -> None:
        """Kill the command that `asker` started with `request`, with its process group."""
        for pid, asked in self._running.items():
            if asked == (asker, request):
                _kill_group(pid)

    def kill_all_of(self, asker: Connection) -> None:
        """Kill every command of a requester whose connection has closed."""
        for pid, asked in self._running.items():
            if asked.by is asker:
                _kill_group(pid)

    def reaped(self, pid: Pid, exit_code: int) -> None:
        """Send the exit code of a reaped child, if it was a command."""
        if asked := self._running.pop(pid, None):
            asked.by.send({"id": asked.request, "exit_code": exit_code})


def _kill_group(pid: Pid) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
