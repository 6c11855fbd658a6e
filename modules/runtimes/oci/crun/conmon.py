"""conmon, the parent of a container: it holds the log, and takes the exit code.

It outlives edgecore. It ends when its container has ended, after writing the exit code; so edgecore waits for the end
of conmon. See conmon(8).
"""

import contextlib
import errno
import os
import select
import subprocess
from pathlib import Path

import msgspec

from beehive.files.descriptors import OwnedFd, open_process, raise_shortage
from beehive.nesting import read_json
from modules.runtimes.oci.crun.launching import SECONDS, Launcher
from modules.runtimes.oci.crun.runtime_command import CommandFailedError, RuntimeCommand, message_in

BUNDLE, PERSIST = "bundle", "persist"
"""Directories in a container's directory: its OCI bundle with conmon's sockets, and conmon's record of its end."""

_PIDFILE, _CONMON_PIDFILE = "init.pid", "conmon.pid"
_LONGEST_ANSWER = 64 * 1024
_PIECE = 4 * 1024
"""Bytes of it per read; it has some twenty."""
_REOPEN_LOG = b"2 0 0\n"
_MOST_CELLS = 1000
"""Columns or lines of a terminal that conmon accepts."""


class Parent(msgspec.Struct, frozen=True):
    """A created container: `pid` of its first process, and `conmon` of its parent, with a descriptor of the latter."""

    pid: int
    conmon: int
    pidfd: int


class Ended(msgspec.Struct, frozen=True):
    """The end of a container's first process; `at_ns` in nanoseconds since the epoch."""

    code: int
    at_ns: int
    out_of_memory: bool


class Standard(msgspec.Struct, frozen=True):
    """The standard streams of a container's first process."""

    terminal: bool = False
    stdin: bool = False
    stdin_once: bool = False


NO_STREAMS = Standard()


class Conmon:
    """The creator of containers under conmon.

    Args:
        launcher: starts it.
        program: the path of conmon.
        runtime: the OCI runtime that conmon calls.
    """

    def __init__(self, launcher: Launcher, program: Path, runtime: RuntimeCommand) -> None:
        self._launcher = launcher
        self._program = program
        self._runtime = runtime

    def create(self, container: str, directory: Path, log: str, standard: Standard = NO_STREAMS) -> Parent:
        """Create the container whose bundle is in `directory`; it waits for its start. Raises CommandFailedError."""
        self._launcher.expect_move()
        bundle = directory / BUNDLE
        for name in (_PIDFILE, _CONMON_PIDFILE):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{bundle}/{name}")  # noqa: PTH108 - strings: a pod has several such paths
        answering, asked = os.pipe2(os.O_CLOEXEC)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, answering)
            try:
                argv = self._argv(container, directory, log, standard)
                process = self._launcher.start(
                    argv,
                    passed=[asked],
                    environment={"_OCI_SYNCPIPE": str(asked)},
                    directory=bundle,
                    creates=True,
                )
            except OSError as error:
                raise CommandFailedError(str(error)) from error
            finally:
                os.close(asked)
            answer = _read_line(answering)
        _wait(process)
        return _created(answer, directory)

    def _argv(self, container: str, directory: Path, log: str, standard: Standard) -> list[str]:
        bundle = f"{directory}/{BUNDLE}"
        switches = {"-t": standard.terminal, "-i": standard.stdin, "--leave-stdin-open": not standard.stdin_once}
        return [
            str(self._program),
            *("--api-version", "1", "-c", container, "-u", container, "-n", container),
            *("-r", str(self._runtime.executable), "-b", bundle),
            *(f"--runtime-arg={option}" for option in self._runtime.options),
            *("-p", f"{bundle}/{_PIDFILE}", "-P", f"{bundle}/{_CONMON_PIDFILE}"),
            *("--persist-dir", f"{directory}/{PERSIST}", "--full-attach"),
            *("-l", f"k8s-file:{log or os.devnull}", "--log-level", "warning", "--no-sync-log"),
            *(option for option, wanted in switches.items() if wanted),
        ]


def _read_line(descriptor: int) -> bytes:
    """Return conmon's answer, a line of JSON; an incomplete line if conmon ends or is late."""
    answer = b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while b"\n" not in answer and len(answer) < _LONGEST_ANSWER and poll.poll(SECONDS * 1000):
        part = os.read(descriptor, _PIECE)
        if not part:
            break
        answer += part
    return answer


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Reap the process that was started; conmon itself is its grandchild."""
    try:
        process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _created(answer: bytes, directory: Path) -> Parent:
    try:
        told = read_json(answer)
        pid = int(told["data"])
    except (ValueError, KeyError, TypeError):
        raise CommandFailedError("conmon ended without an answer, or was too slow") from None
    if pid <= 0:
        message = message_in(str(told.get("message", "")).encode())
        raise CommandFailedError(message or "the OCI runtime did not say why")
    conmon = conmon_pid(directory)
    if conmon is None:
        raise CommandFailedError("conmon has not written its process id")
    try:
        return Parent(pid, conmon, open_process(conmon))
    except ProcessLookupError:
        raise CommandFailedError("conmon ended before the container was started") from None


def conmon_pid(directory: Path) -> int | None:
    """Return the process id of the conmon of a container's directory, from its file; None without one."""
    return read_pid(f"{directory}/{BUNDLE}/{_CONMON_PIDFILE}")


def init_pid(directory: Path) -> int | None:
    """Return the process id of a container's first process, from its file; None without one."""
    return read_pid(f"{directory}/{BUNDLE}/{_PIDFILE}")


def read_pid(path: Path | str) -> int | None:
    """Return the process id in a file, or None. Raises OSError for a shortage of the process or machine."""
    try:
        with open(path, "rb", 0) as file:  # noqa: PTH123 - mostly a string: a pod has several such paths
            return int(file.read(16))
    except (OSError, ValueError) as error:
        raise_shortage(error)
        return None


def find_conmon(directory: Path) -> int | None:
    """Return a descriptor of the living conmon of a container's directory; None without one.

    The process id in the file may belong to another process by now, so its command line is compared. Raises OSError for
    a shortage of the process or machine.
    """
    pid = conmon_pid(directory)
    if pid is None:
        return None
    try:
        descriptor = open_process(pid)
    except ProcessLookupError:
        return None
    with contextlib.ExitStack() as unless_it_is_conmon:
        unless_it_is_conmon.callback(os.close, descriptor)
        if os.fsencode(directory / BUNDLE) in arguments_of(pid):
            unless_it_is_conmon.pop_all()
            return descriptor
    return None


def search_conmon(directory: Path) -> int | None:
    """Return a descriptor of a conmon of a container's directory that has not written its process id; None without one.

    All processes of the machine are looked at.
    """
    bundle = os.fsencode(directory / BUNDLE)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and bundle in arguments_of(int(entry.name)):
            with contextlib.suppress(ProcessLookupError):
                return open_process(int(entry.name))
    return None


def arguments_of(pid: int) -> list[bytes]:
    """Return the command line of a process; empty if it has ended. Raises OSError for a shortage."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError as error:
        raise_shortage(error)
        return []


def ended(directory: Path) -> Ended | None:
    """Return the end of a container that conmon has recorded; None if there is no record.

    Raises OSError for a shortage of the process or machine.
    """
    place = f"{directory}/{PERSIST}"
    try:
        with open(f"{place}/exit", "rb", 0) as file:  # noqa: PTH123 - as in `read_pid`
            code, at_ns = int(file.read(16)), os.fstat(file.fileno()).st_mtime_ns
    except (OSError, ValueError) as error:
        raise_shortage(error)
        return None
    return Ended(code, at_ns, os.path.exists(f"{place}/oom"))  # noqa: PTH110 - as above


def reopen_log(directory: Path) -> None:
    """Ask conmon for a new log file after the old one was renamed; conmon does not answer.

    Raises OSError, ENXIO if conmon has ended.
    """
    _write_control(directory, _REOPEN_LOG)


def resize_terminal(directory: Path, width: int, height: int) -> None:
    """Set the size of the terminal of a container's first process. Raises OSError as `reopen_log`."""
    _write_control(directory, b"1 %d %d\n" % (min(height, _MOST_CELLS), min(width, _MOST_CELLS)))


def _write_control(directory: Path, line: bytes) -> None:
    with OwnedFd(os.open(directory / BUNDLE / "ctl", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as descriptor:
        if os.write(descriptor, line) != len(line):
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
