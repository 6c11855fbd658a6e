"""Commands in a container: `crun exec` as a child of edgecore, which lasts as long as the command.

Each command has files of one name, of which one has the process id that crun writes. Killing crun leaves the command
alive, so the command itself is killed, with all its descendants; a command of an edgecore that was killed is found by
its file.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

from beehive.files.descriptors import OwnedFd
from beehive.files.reading import list_directory
from beehive.files.removal import remove_tree
from modules.runtimes.oci.crun.conmon import conmon_pid, init_pid, read_pid
from modules.runtimes.oci.crun.launching import SECONDS, Launcher, Stream
from modules.runtimes.oci.crun.runtime_command import RuntimeCommand
from modules.runtimes.oci.members import kill_processes
from modules.runtimes.shim.procfs import all_processes, descendants, read_stat
from modules.runtimes.shim.protocol import Pid

_COMMANDS: Final = "commands"
_PID: Final = "pid"
_CONSOLE: Final = "console"
_PID_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.005

START_FAILED: Final = 255
"""Exit status of `crun exec` and `runc exec` when the command was not started; a command may end with it too."""


class Command:
    """One command in a container; leaving the context kills it if it has not ended.

    Args:
        launcher: starts the OCI runtime.
        runtime: the OCI runtime.
        container: id of the container.
        directory: of the container.
        process: the object `process` of `config.json`, with the command.
    """

    def __init__(
        self, launcher: Launcher, runtime: RuntimeCommand, container: str, directory: Path, process: dict[str, Any]
    ) -> None:
        self._launcher = launcher
        self._runtime = runtime
        self._container = container
        self._directory = directory
        self._process = process
        self._name = os.urandom(8).hex()
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._launcher.expect_move()
        self.files = self._directory / _COMMANDS
        """The directory of the files of all commands in the container."""
        self.files.mkdir(mode=0o700, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.kill()
        finally:
            for kind in (_PID, _CONSOLE):
                with contextlib.suppress(OSError):  # a file that stays is removed with the container
                    self._file(kind).unlink(missing_ok=True)

    def start(self, streams: tuple[Stream, Stream, Stream], options: Sequence[str] = ()) -> int:
        """Start the command; return a descriptor of the OCI runtime's process, to be closed. Raises OSError.

        The OCI runtime waits for `process` at a pipe, so that it has the container's OOM score before it makes the
        command, which inherits that with crun 1.8: edgecore's own is -999 as a service.
        """
        content = dict(self._process)
        score = content.pop("oomScoreAdj", None)
        process = json.dumps(content).encode()
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        with OwnedFd(writing):
            with OwnedFd(reading):
                files = ("--process", f"/proc/self/fd/{reading}", "--pid-file", str(self._file(_PID)))
                argv = self._runtime.argv("exec", *files, *options, self._container)
                self._child = self._launcher.start(argv, streams, [reading])
            if score is not None:
                with contextlib.suppress(OSError):  # it has ended, or this user may not lower it
                    Path(f"/proc/{self._child.pid}/oom_score_adj").write_text(str(score))
            with contextlib.suppress(BrokenPipeError):  # it has ended without reading all
                _write_all(writing, process)
        return os.pidfd_open(self._child.pid)

    @property
    def console(self) -> str:
        """The name of its console's socket in `files`."""
        return self._file(_CONSOLE).name

    @property
    def program(self) -> str:
        """The first word of the command."""
        return str(self._process["args"][0])

    def poll(self) -> int | None:
        """Return the exit code; None while the command runs."""
        return None if self._child is None else self._child.poll()

    def wait(self) -> int:
        """Wait for the end, and return the exit code."""
        return START_FAILED if self._child is None else self._child.wait()

    def await_start(self) -> bool:
        """Wait until the command runs; return False if it was not started."""
        if self._child is not None:
            self._await_pid(self._child)
        return self.was_started

    def terminal_resized(self) -> None:
        """Tell the OCI runtime that its terminal, which it passes on to the command, has another size."""
        if self._child is not None:
            self._child.send_signal(signal.SIGWINCH)

    def kill(self) -> None:
        """Kill the command and its child processes, if it has not ended, and wait for its end."""
        if self._child is not None and self._child.poll() is None:
            self._await_pid(self._child)
            try:
                _kill_command(self._pid(), self._container, self._directory)
            finally:
                self._reap(self._child)

    @property
    def was_started(self) -> bool:
        """Whether the command runs or has run."""
        return self._pid() is not None

    def _file(self, kind: str) -> Path:
        return self.files / f"{self._name}.{kind}"

    def _pid(self) -> int | None:
        """Return the process id; None as long as it has not been written, or cannot be read."""
        with contextlib.suppress(OSError):
            return read_pid(self._file(_PID))
        return None

    def _await_pid(self, child: subprocess.Popen[bytes]) -> None:
        """Wait until the process id is written: the command may run before that."""
        for _ in range(int(_PID_SECONDS / _LOOK_SECONDS)):
            if self.was_started:
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_LOOK_SECONDS)
                return

    def _reap(self, child: subprocess.Popen[bytes]) -> None:
        """Wait for the OCI runtime; without a command yet, it is killed."""
        try:
            child.wait(SECONDS if self.was_started else 0)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def kill_commands(directory: Path, container: str) -> None:
    """Kill the commands in a container that an earlier edgecore has left.

    Raises OSError for a shortage of the process or machine: then none is forgotten.
    """
    for file in list_directory(directory / _COMMANDS):
        is_old = file.is_dir()  # earlier versions of edgecore made a directory for each command
        _kill_command(read_pid(file / _PID if is_old else file), container, directory)
        with contextlib.suppress(OSError):  # a file that stays is removed with the container
            remove_tree(file)


def _write_all(pipe: int, content: bytes) -> None:
    """Write to a pipe, which may hold less: 64 KiB, or a page where this user has many. Raises OSError, also if nobody
    reads for `SECONDS`.
    """
    room = select.poll()
    room.register(pipe, select.POLLOUT)
    rest = memoryview(content)
    while rest:
        try:
            rest = rest[os.write(pipe, rest) :]
        except BlockingIOError:
            if not room.poll(SECONDS * 1000):
                raise TimeoutError(f"the OCI runtime has not read its `process` within {SECONDS:g} s") from None


def _kill_command(pid: int | None, container: str, directory: Path) -> None:
    """Kill a command and its descendants, as far as they are in the container."""
    processes = _processes_of(directory)
    if pid is None or not _is_in(pid, container, processes):
        return
    kill_processes(
        lambda: (pid, *(each.pid for each in descendants(Pid(pid), all_processes()))),
        lambda each: _is_in(each, container, processes),
    )


def _processes_of(directory: Path) -> str:
    """Return the process namespace of a container's living first process; empty if it shares the machine's."""
    pid, conmon = init_pid(directory), conmon_pid(directory)
    with contextlib.suppress(OSError):
        first = read_stat(pid) if pid is not None else None
        if first is not None and first.parent == conmon and (found := _namespace(first.pid)) != _namespace("self"):
            return found
    return ""


def _namespace(pid: int | str) -> str:
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


def _is_in(pid: int, container: str, processes: str) -> bool:
    """Return whether a process is in a container, by its control group or, where there are none, its namespace."""
    try:
        return container in Path(f"/proc/{pid}/cgroup").read_text(errors="replace") or _namespace(pid) == processes
    except OSError:
        return False
