"""Starts a command: fork, prepare, exec; a failure is reported to the parent through a pipe."""

import errno
import fcntl
import os
import signal
import termios
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn

from beehive.files.programs import is_not_found
from modules.runtimes.shim import kernel
from modules.runtimes.shim.protocol import START_ERROR_EXIT_CODE, TEXT_LIMIT, Pid, ProcessSpec, UserSpec

_UMASK = 0o022


class LaunchError(Exception):
    """The command was not started; the text names the stage and the reason, in words for the pod's author."""


class StandardStreams(NamedTuple):
    """Descriptors for the standard streams of a process."""

    stdout: int
    stderr: int
    stdin: int | None = None
    """None for /dev/null."""
    are_terminal: bool = False
    """Whether all three are one terminal, which the process is to control."""


def launch(spec: ProcessSpec, streams: StandardStreams, prepare: Callable[[], None]) -> Pid:
    """Start `spec` in a session of its own and return its pid once exec has succeeded.

    `prepare` runs in the new process first: it builds or joins the container's mounts. Raises LaunchError.
    """
    parent = os.getpid()
    try:
        report_read, report_write = os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        raise LaunchError(f"cannot start another process: {error.strerror}") from error
    try:
        pid = os.fork()
    except OSError as error:
        os.close(report_read)
        os.close(report_write)
        raise LaunchError(f"cannot start another process: {error.strerror}") from error
    if pid == 0:
        _become(spec, streams, prepare, parent, report_write)
    os.close(report_write)
    with os.fdopen(report_read, "rb") as report:
        failure = report.read(TEXT_LIMIT).decode(errors="replace")
    if failure:
        os.waitpid(pid, 0)
        raise LaunchError(failure)
    return Pid(pid)


def _become(
    spec: ProcessSpec, streams: StandardStreams, prepare: Callable[[], None], parent: int, report: int
) -> NoReturn:
    """Turn this fresh fork into the command. Success closes `report` by exec; failure writes the reason to it."""
    try:
        _detach(streams, parent)
        prepare()
        _change_directory(spec["cwd"])
        _drop_privileges(spec, owns_terminal=streams.are_terminal)
        _execute(spec)
    except LaunchError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 (the parent reports every failure)
        reason = f"cannot prepare the container's process: {type(error).__name__}: {error}"
    os.write(report, reason.encode(errors="replace")[:TEXT_LIMIT])
    os._exit(START_ERROR_EXIT_CODE)


def _detach(streams: StandardStreams, parent: int) -> None:
    _reset_signals()
    os.umask(_UMASK)
    os.setsid()
    _die_with(parent)
    stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) if streams.stdin is None else streams.stdin
    for target, source in enumerate((stdin, streams.stdout, streams.stderr)):
        os.dup2(source, target)
    if streams.are_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _reset_signals() -> None:
    """Restore default handlers and the mask, so that the command inherits neither (Python ignores SIGPIPE)."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _die_with(parent: int) -> None:
    """Let the kernel kill this process with its shim: nobody else would write its log or take its exit code."""
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(START_ERROR_EXIT_CODE)


def _change_directory(path: str) -> None:
    try:
        os.chdir(path)
    except OSError as error:
        raise LaunchError(f'cannot enter the working directory "{path}": {error.strerror}') from error


def _drop_privileges(spec: ProcessSpec, *, owns_terminal: bool) -> None:
    if spec["user"] is not None:
        if owns_terminal:
            os.fchown(0, spec["user"]["uid"], -1)
        _become_user(spec["user"])
    if spec["no_new_privileges"]:
        kernel.forbid_new_privileges()


def _become_user(user: UserSpec) -> None:
    try:
        os.setgroups(user["groups"])
        os.setgid(user["gid"])
        os.setuid(user["uid"])
    except OSError as error:
        raise LaunchError(f"cannot run as user {user['uid']}, group {user['gid']}: {error.strerror}") from error
    kernel.die_with_parent(signal.SIGKILL)  # the kernel forgets it when credentials change


def _execute(spec: ProcessSpec) -> NoReturn:
    command = spec["argv"][0]
    try:
        os.execvpe(command, spec["argv"], spec["env"])  # noqa: S606 (an argument list, no shell)
    except OSError as error:
        raise LaunchError(describe_exec_error(error, command, spec["env"])) from error


def describe_exec_error(error: OSError, command: str, environment: Mapping[str, str]) -> str:
    """Return why `command` could not be executed; commands come from the machine, not from an image."""
    if is_not_found(error, command, os.get_exec_path(environment)):
        return f'command "{command}" was not found on this machine in PATH={environment.get("PATH", "")}'
    hint = {
        errno.ENOENT: "no such file on this machine, or the interpreter that its first line names is missing",
        errno.EACCES: "it is not executable for the container's user",
        errno.ENOEXEC: "it is neither a program for this machine nor a script with an interpreter line",
    }.get(error.errno or 0, error.strerror or "unknown error")
    return f'cannot execute "{command}": {hint}'
