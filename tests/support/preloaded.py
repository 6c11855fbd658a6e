"""Processes that begin with their modules imported: importing takes most of the processor time of a short process.

A server imports the modules once, and forks for each process that is asked for. The process runs the module as
`python -m` does, in a session of its own, and has the command line that it would have had.

    python -m tests.support.preloaded ROOM DESCRIPTOR MODULE…
"""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from select import POLLIN, poll
from typing import Any, Final

from tests.support.directories import AT_END

_LARGEST: Final = 128 * 1024
"""Bytes of a request, mostly of the environment."""
_ROOM: Final = 2048
"""Bytes of the server's command line, as room for its processes'."""
_INTERPRETER: Final = (sys.executable, "-X", "faulthandler", "-m")
_ENVIRONMENT: Final = dict(os.environ)
"""Of a server: without what one test has set, which would make the server a process of that test's directory."""


class Preloaded:
    """A server of processes, which ends with this process.

    Args:
        modules: what it imports.
        tree: its working directory, with the code.
    """

    def __init__(self, modules: Sequence[str], tree: Path) -> None:
        self._lock = threading.Lock()
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._server = subprocess.Popen(
                [*_INTERPRETER, __name__, "-" * _ROOM, str(other.fileno()), *modules],
                cwd=tree,
                env=_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                start_new_session=True,  # Ctrl-C is for the tests: it ends when they do
            )

    def start(
        self, module: str, arguments: Sequence[str], streams: Mapping[int, int], environment: Mapping[str, str]
    ) -> PreloadedProcess:
        """Start a process.

        Args:
            module: what is run.
            arguments: its arguments.
            streams: the descriptors that become its input (0), output (1) and errors (2); without one, input is empty.
            environment: all its variables.
        """
        request = {
            "module": module,
            "arguments": list(arguments),
            "environment": dict(environment),
            "streams": list(streams),
        }
        return PreloadedProcess(self, self._ask(request, *streams.values()))

    def status(self, pid: int) -> int:
        """Wait for a process, and return its exit status, negative if a signal has ended it."""
        return self._ask({"pid": pid})

    def close(self) -> None:
        """End the server."""
        self._socket.close()
        self._server.wait()

    def _ask(self, request: dict[str, Any], *descriptors: int) -> int:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            answer = self._socket.recv(_LARGEST)
        assert answer, "the server of preloaded processes has ended"
        return int(answer)


class PreloadedProcess:
    """A process, with those parts of `subprocess.Popen` that tests need."""

    def __init__(self, server: Preloaded, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._descriptor = os.pidfd_open(pid)
        self._status: int | None = None
        self._lock = threading.Lock()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process is known to have ended."""
        if self.poll() is None:
            os.kill(self.pid, number)  # it is a zombie until its status is asked for: no other process has its id

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Return the exit status; None while the process runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit status.

        Raises:
            TimeoutExpired: it still runs after so many seconds.
        """
        status = self._ended(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return status

    def _ended(self, timeout: float | None) -> int | None:
        if self._status is None:
            end = poll()
            end.register(self._descriptor, POLLIN)
            if end.poll(None if timeout is None else timeout * 1000):
                self._reap()
        return self._status

    def _reap(self) -> None:
        with self._lock:  # another thread may wait, too
            if self._status is None:
                self._status = self._server.status(self.pid)
                os.close(self._descriptor)


@functools.cache
def preloaded(modules: tuple[str, ...], tree: Path) -> Preloaded:
    """Return the server of these modules for all tests of this process."""
    server = Preloaded(modules, tree)
    AT_END.callback(server.close)
    return server


def _serve(connection: socket.socket) -> str:
    """Fork for each request; return in each forked process, with the name of the module that it shall run."""
    while True:
        message, descriptors, _flags, _address = socket.recv_fds(connection, _LARGEST, 3)
        if not message:
            sys.exit()
        request = json.loads(message)
        if "pid" in request:
            status = os.waitstatus_to_exitcode(os.waitpid(request["pid"], 0)[1])
            connection.send(str(status).encode())
        elif os.fork() == 0:
            os.setsid()
            for descriptor, stream in zip(descriptors, request["streams"], strict=True):
                os.dup2(descriptor, stream)
                os.close(descriptor)
            os.environ.clear()
            os.environ.update(request["environment"])
            sys.argv[1:] = request["arguments"]
            _show((*_INTERPRETER, request["module"], *request["arguments"]))
            connection.send(str(os.getpid()).encode())
            connection.close()
            return str(request["module"])
        for descriptor in descriptors:
            os.close(descriptor)


def _show(words: Sequence[str]) -> None:
    """Write the command line of this process over the server's."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    first, end = int(fields[45]), int(fields[46])  # proc(5): the fields 48 and 49, arg_start and arg_end
    shown = b"".join(os.fsencode(word) + b"\0" for word in words)
    ctypes.memmove(first, shown[: end - first - 1].ljust(end - first, b"\0"), end - first)


def _main() -> None:
    connection = socket.socket(fileno=int(sys.argv[2]))
    for name in sys.argv[3:]:
        import_module(name)
    gc.freeze()
    module = _serve(connection)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
