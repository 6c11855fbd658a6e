"""The process runtime in a process that may open only a few more files. Run as a program with the name of a case.

Limits and signals are the whole process's, so they are set in one without the threads and connections of other tests.
"""

import contextlib
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from beehive.clock import RealClock
from modules.runtimes.engine.errors import RequestRefusedError, RunFailedError, ShimGoneError, TooManyError
from modules.runtimes.engine.events import Announcer
from modules.runtimes.engine.process_watcher import ProcessWatcher
from modules.runtimes.process.execution import execute
from modules.runtimes.process.model import ProcessContainer
from modules.runtimes.process.shim_manager import ShimManager
from modules.runtimes.process.shim_spawner import ShimSpawner
from modules.runtimes.shim.connections import Connection
from modules.runtimes.shim.launch import StandardStreams, launch
from modules.runtimes.shim.protocol import ContainerSpec, Pid, ProcessSpec, to_memory_file
from modules.runtimes.shim.shim import Commands
from protos.cri.v1 import api_pb2 as cri

_REQUEST: Final = cri.ExecSyncRequest(cmd=["true"], timeout=1)


def _open() -> set[int]:
    return {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}


@contextlib.contextmanager
def _descriptors_left(count: int) -> Iterator[None]:
    """This process may open so many more files and no others; it has as many open afterwards as before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        before = _open()
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(before) + 32, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        taken = []
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        for _ in range(count):
            os.close(taken.pop())
        try:
            yield
        finally:
            for descriptor in taken:
                os.close(descriptor)
    assert _open() == before


def _container(link: object) -> ProcessContainer:
    made = SimpleNamespace(id="c", link=link, state=cri.CONTAINER_RUNNING, directory=Path("/nowhere"))
    return cast("ProcessContainer", made)


def attempt() -> None:
    """A command with too few descriptors."""
    link = SimpleNamespace(begin=lambda *_, **__: (1, Future()))
    for left in range(6):
        with _descriptors_left(left), pytest.raises(TooManyError, match="Too many open files"):
            execute(_container(link), _REQUEST, lambda _: None, RealClock())


def gone() -> None:
    """A command whose container has ended, at whichever step."""

    def begin(*_: object, **__: object) -> None:
        raise ShimGoneError("ask the shim", "it is gone")

    for left in range(8):
        with _descriptors_left(left), pytest.raises(RequestRefusedError):
            execute(_container(SimpleNamespace(begin=begin)), _REQUEST, lambda _: None, RealClock())


def start() -> None:
    """A container that cannot be handed over to a shim."""
    spawner = SimpleNamespace(request=lambda *_, **__: None)
    watcher = SimpleNamespace(add=lambda link: link.close())
    shims = ShimManager(
        cast("ShimSpawner", spawner), cast("ProcessWatcher", watcher), RealClock(), cast("Announcer", None)
    )
    for left in range(7):
        with TemporaryDirectory() as directory:
            container: Any = SimpleNamespace(
                id="c", directory=Path(directory), decided=threading.Event(), run=None, exit=None, link=None
            )
            container.decided.set()
            with _descriptors_left(left), pytest.raises(RunFailedError):
                shims.start(container, cast("ContainerSpec", {}))


def child() -> None:
    """A shim without a descriptor for the report of a command's process."""
    answers: list[dict[str, Any]] = []
    like = cast("ProcessSpec", {"env": {}, "cwd": "/", "user": None, "no_new_privileges": False})
    commands = Commands("", like, None)
    asker = cast("Connection", SimpleNamespace(send=answers.append))
    descriptors = [to_memory_file("x", ["true"]), *(os.open(os.devnull, os.O_WRONLY) for _ in range(2))]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        commands.start(asker, 7, Pid(1), descriptors)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert answers == [{"id": 7, "error": "cannot start another process: Too many open files"}]


def commands() -> None:
    """Commands that end, that cannot be executed, and whose clients have gone, with and without streams."""
    like = cast("ProcessSpec", {"env": {}, "cwd": "/", "user": None, "no_new_privileges": False})
    asker = cast("Connection", SimpleNamespace(send=lambda _: None))
    for program in ("true", "no-such-program"):
        for streams in (2, 4):
            with _descriptors_left(12):
                running = Commands("", like, None)
                arguments = to_memory_file("x", [program])
                given = [arguments, *(os.open("/dev/full", os.O_RDWR) for _ in range(streams))]
                if streams == 2:
                    running.start(asker, 7, Pid(1), given)
                else:
                    running.stream(asker, 7, Pid(1), given, has_terminal=False)
                for pid in list(running._running):
                    running.reaped(pid, os.waitpid(pid, 0)[1])


_OF_LIBC: Final = 0b11 << 31
"""The signals 32 and 33, which the C library keeps for itself: make hands one on ignored, and nobody can change it."""


def inherited() -> None:
    """A process whose shim has a umask, blocked and ignored signals of its own."""
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    argv = ["grep", "-E", "^(Umask|SigBlk|SigIgn)", "/proc/self/status"]
    spec = ProcessSpec(argv=argv, env={"PATH": os.defpath}, cwd="/", user=None, no_new_privileges=False)
    ours, theirs = os.pipe()
    os.waitpid(launch(spec, StandardStreams(theirs, 2), lambda: None), 0)
    said = os.read(ours, 1000).decode().split()
    blocked, ignored = (int(said[at], 16) & ~_OF_LIBC for at in (3, 5))
    assert (said[1], blocked, ignored) == ("0022", 0, 0), said


CASES: Final[dict[str, Callable[[], None]]] = {
    each.__name__: each for each in (attempt, gone, start, child, commands, inherited)
}


if __name__ == "__main__":
    CASES[sys.argv[1]]()
