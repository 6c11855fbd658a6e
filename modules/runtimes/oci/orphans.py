"""Programs that go on after the edgecore, or the conmon, that started them was killed.

Such a program must not act after the next edgecore has cleaned up: a container that is created after its deletion, or
an address that is assigned after it was freed, would belong to no pod. So the next edgecore waits for these programs.
"""

import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from beehive.files.descriptors import OwnedFd, is_readable, open_process
from beehive.files.reading import read_to_end

_log = logging.getLogger(__name__)

_PROC: Final = "/proc"
_SECONDS: Final = 60.0
"""After which a program is killed: as long as each of them may take for the edgecore that starts it."""
_LOOK_MILLISECONDS: Final = 5
_SHOWN: Final = 1000
"""Characters of a command line in the log: paths and ids, nothing of a pod's."""
_KILLED_MILLISECONDS: Final = 10_000
_LONGEST: Final = 16 * 1024 * 1024
"""Bytes read of a command line or an environment. The kernel bounds both by the stack's limit, mostly 2 MB."""


class Orphan(msgspec.Struct, frozen=True):
    """A process. `done` returns whether its critical work is finished; None if only its end shows that."""

    pid: int
    arguments: tuple[bytes, ...]
    done: Callable[[], bool] | None = None


def commands_with(root: str, container: str = "") -> list[Orphan]:
    """Return the running commands of crun or runc with an option for a directory of states.

    A command that makes a container, or executes a program in it, is done when it has written the process id. Its
    command line is the new process's, too, until the container is started, or as long as crun runs.

    Args:
        root: the option.
        container: only this one's.
    """
    wanted = {os.fsencode(root), *([os.fsencode(container)] if container else [])}
    found = ((pid, _words(text)) for pid, text in _command_lines() if all(each in text for each in wanted))
    return [Orphan(pid, arguments, _pid_written(arguments)) for pid, arguments in found if wanted <= set(arguments)]


def processes_with(variable: str, beginning: str) -> Iterator[Orphan]:
    """Yield the processes that have an environment variable with a value that begins like this."""
    prefix = b"\0" + os.fsencode(f"{variable}={beginning}")
    for pid in _processes():
        if prefix in b"\0" + _read(pid, "environ") and (text := _read(pid, "cmdline")):
            yield Orphan(pid, _words(text))


def await_orphans(orphans: Iterable[Orphan], seconds: float = _SECONDS) -> None:
    """Wait until processes have ended, or have finished their critical work; kill processes that take longer."""
    for each in orphans:
        with contextlib.suppress(ProcessLookupError), OwnedFd(open_process(each.pid)) as process:
            if _arguments(each.pid) == each.arguments and not _is_done(each, process, seconds):
                said = os.fsdecode(b" ".join(each.arguments))[:_SHOWN]
                _log.warning("process %d, for which nothing waits now, does not end; it is killed: %s", each.pid, said)
                signal.pidfd_send_signal(process, signal.SIGKILL)
                is_readable(process, _KILLED_MILLISECONDS)


def _is_done(orphan: Orphan, process: int, seconds: float) -> bool:
    if orphan.done is None:
        return is_readable(process, int(seconds * 1000))
    rounds = range(int(seconds * 1000) // _LOOK_MILLISECONDS)
    return any(orphan.done() or is_readable(process, _LOOK_MILLISECONDS) for _ in rounds)


def _pid_written(arguments: tuple[bytes, ...]) -> Callable[[], bool] | None:
    if b"--pid-file" not in arguments[:-1]:
        return None
    path = Path(os.fsdecode(arguments[arguments.index(b"--pid-file") + 1]))
    return lambda: path.exists() and path.stat().st_size > 0


def _command_lines() -> Iterator[tuple[int, bytes]]:
    """Yield the processes that have a command line, with it. Kernel threads have none."""
    return ((pid, text) for pid in _processes() if (text := _read(pid, "cmdline")))


def _processes() -> Iterator[int]:
    """Yield the ids of all processes. A node's start looks at each, so it makes no `Path` for them."""
    with os.scandir(_PROC) as entries:
        yield from (int(entry.name) for entry in entries if entry.name.isdecimal())


def _arguments(pid: int) -> tuple[bytes, ...]:
    return _words(_read(pid, "cmdline"))


def _words(text: bytes) -> tuple[bytes, ...]:
    return tuple(text.split(b"\0")[:-1])


def _read(pid: int, file: str) -> bytes:
    """Return a file of a process; empty if it has ended, or is another user's."""
    try:
        with OwnedFd(os.open(f"{_PROC}/{pid}/{file}", os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
            return read_to_end(descriptor, _LONGEST)
    except OSError:
        return b""
