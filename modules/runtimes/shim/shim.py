"""The parent process of one container, from its start to the end of its last process."""

import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import termios
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from beehive.files.durable import make_durable, replace_file, replace_soon
from modules.runtimes.shim import kernel, roots
from modules.runtimes.shim.attached import AttachedClients
from modules.runtimes.shim.connections import Connection, Connections, Poller, close_all
from modules.runtimes.shim.launch import LaunchError, StandardStreams, launch
from modules.runtimes.shim.log_file import LogFile
from modules.runtimes.shim.procfs import all_processes, children_of_this_process, descendants
from modules.runtimes.shim.protocol import (
    EXIT_RECORD,
    RUN_RECORD,
    START_ERROR_EXIT_CODE,
    TERM,
    ContainerSpec,
    ExitRecord,
    Namespacing,
    Pid,
    ProcessSpec,
    RunRecord,
    from_memory_file,
)
from modules.runtimes.shim.roots import join
from modules.runtimes.shim.streams import STDERR, STDOUT, Input, Output

_KILL_SECONDS = 10.0
"""Seconds that processes which survive SIGKILL (stuck in the kernel) delay the exit record."""

_LOOK_SECONDS = 30.0
"""Longest time in seconds between two checks that the container's directory still exists."""

_DESCRIPTORS = 3
"""Descriptors that come with a command: its arguments, standard output and standard error."""

_STREAMED_DESCRIPTORS = 5
"""Of a streamed command: its arguments, the pipe for its exit code, its standard input, output and error."""

_NO_FILES = "the shim may open no more files"


def write_json(path: Path, content: Any) -> None:
    """Replace the file at `path`, durably; readable by its owner only, because environments hold secrets."""
    replace_file(path, json.dumps(content).encode())


def write_json_soon(path: Path, content: Any) -> None:
    """Replace the file at `path` for all readers; it is durable after `make_durable`."""
    replace_soon(path, json.dumps(content).encode())


class Shim:
    """The parent of one container: one thread with one `poll`; `run` returns when the container is over.

    It moves the container's output into its log, answers edgecore (which may die and come back on the control socket),
    executes commands beside the main process, and reaps. When the main process ends, all other processes are killed, as
    at the end of a pid namespace. The exit record is written only after that, so that its readers can rely on it. The
    main process stays a zombie until then: no other process can get its pid and process group while signals may still
    be sent there. When the container's directory is gone (`rm -rf` of edgecore's), nobody can end the container any
    more, so the shim does.

    The process is small and without the bus, so its time is the machine's own.
    """

    def __init__(self, spec: ContainerSpec, control: socket.socket, listener: socket.socket) -> None:
        self._spec = spec
        self._directory = Path(spec["directory"])
        self._poller = Poller()
        self._commands = Commands(spec["namespacing"], spec["process"], spec["oom_score_adj"])
        self._connections = Connections(listener, self._poller, self._handle, self._commands.kill_all_of)
        self._connections.add(control)
        self._log: LogFile | None = None
        self._outputs: dict[int, Output] = {}
        self._clients = AttachedClients(ends_input=spec["stdin_once"] and not spec["terminal"])
        self._poller.add(self._clients.events.fileno(), self._serve_clients)
        self._holds_output = False
        """Whether no output is read, because an attached client is behind."""
        self._terminal = -1
        self._main = Pid(0)
        self._failure = ""
        """Why the started command must end immediately."""
        self._exit_code: int | None = None
        self._give_up_at = 0.0
        self._done = False

    def run(self) -> None:
        """Start the container, serve it, and write its exit record."""
        kernel.adopt_orphans()
        self._watch_children()
        try:
            run = self._start()
        except (LaunchError, OSError) as error:
            self._end(START_ERROR_EXIT_CODE, "StartError", str(error))
            return
        if not self._failure:
            self._announce_start(run)
        while not self._done:
            self._poller.wait(self._seconds_left())
            if self._holds_output:
                self._serve_clients()
            if self._exit_code is not None:
                self._finish(self._exit_code)
            elif self._is_forgotten():
                self._signal_group(signal.SIGKILL)

    # starting

    def _announce_start(self, run: RunRecord) -> None:
        self._connections.announce({"event": "running", **run})
        with contextlib.suppress(OSError):  # sent first: edgecore does not wait for the disk
            make_durable(self._directory / RUN_RECORD)

    def _watch_children(self) -> None:
        read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._poller.add(read_end, lambda: self._children_changed(read_end))

    def _start(self) -> RunRecord:
        streams = self._open_streams()
        self._main = launch(self._spec["process"], streams, self._prepare)
        started_at = time.time_ns()
        close_all([each for each in {streams.stdin, streams.stdout, streams.stderr} if each is not None])
        run = RunRecord(pid=self._main, started_at=started_at)
        try:
            write_json_soon(self._directory / RUN_RECORD, run)
        except OSError as error:  # a later edgecore could not find it, and it may have filled the disk itself
            self._failure = str(error)
            self._signal_group(signal.SIGKILL)
        return run

    def _open_streams(self) -> StandardStreams:
        self._log = LogFile(self._spec["log"] or os.devnull)
        if self._spec["terminal"]:
            self._terminal, slave = os.openpty()
            self._outputs[self._terminal] = Output(self._terminal, STDOUT, self._log)
            self._clients.input = Input(os.dup(self._terminal))
            streams = StandardStreams(slave, slave, slave, are_terminal=True)
        else:
            stdin = None
            if self._spec["stdin"]:
                stdin, ours = os.pipe2(os.O_CLOEXEC)
                self._clients.input = Input(ours)
            streams = StandardStreams(self._output(STDOUT), self._output(STDERR), stdin)
        for descriptor in self._outputs:
            self._poller.add(descriptor, partial(self._pump, descriptor))
        return streams

    def _output(self, kind: bytes) -> int:
        """Return the end of a new pipe that the container writes to."""
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        assert self._log is not None  # noqa: S101 - opened just before
        self._outputs[ours] = Output(ours, kind, self._log)
        return theirs

    def _prepare(self) -> None:
        """Build the private root; runs in the container's process, before exec."""
        _set_score(self._spec["oom_score_adj"])
        if not self._spec["namespacing"]:
            return
        try:
            roots.leave_host_mounts(self._spec["namespacing"])
            roots.build(self._spec["steps"])
        except OSError as error:
            raise LaunchError(f'cannot mount at "{error.filename}": {error.strerror}') from error

    # keeping

    def _pump(self, descriptor: int) -> None:
        packet = self._outputs[descriptor].pump(time.time_ns())
        if packet is None:
            self._poller.remove(descriptor)
            self._outputs.pop(descriptor).finish(time.time_ns())
        elif packet:
            self._clients.send(packet)
            self._hold_output()

    def _serve_clients(self) -> None:
        self._clients.serve()
        self._hold_output()

    def _hold_output(self) -> None:
        """Stop reading output while an attached client is behind, and go on when none is."""
        if self._clients.is_behind == self._holds_output:
            return
        self._holds_output = not self._holds_output
        for descriptor in self._outputs:
            if self._holds_output:
                self._poller.remove(descriptor)
            else:
                self._poller.add(descriptor, partial(self._pump, descriptor))

    def _handle(self, asker: Connection, message: dict[str, Any], descriptors: list[int]) -> None:
        request: int = message["id"]
        match message["op"]:
            case "exec" | "stream" | "attach" if self._exit_code is not None:
                close_all(descriptors)
                asker.send({"id": request, "error": "the container has just ended"})
                return
            case "exec":
                self._commands.start(asker, request, self._main, descriptors)
                return
            case "stream":
                self._commands.stream(asker, request, self._main, descriptors, has_terminal=message["terminal"])
                return
            case "attach":
                asker.send({"id": request, "error": self._attach(descriptors)})
                return
            case "resize":
                self._resize(message["width"], message["height"])
            case "kill-exec":
                self._commands.kill(asker, message["exec"])
            case "signal":
                self._signal_group(message["number"])
            case "reopen-log":
                asker.send({"id": request, "error": self._reopen_log()})
                return
        asker.send({"id": request})

    def _attach(self, descriptors: list[int]) -> str:
        """Attach the client at the other end of a socket; return why that is not possible, or an empty text."""
        if not descriptors:
            return _NO_FILES
        try:
            self._clients.add(socket.socket(fileno=descriptors[0]))
        except OSError as error:
            return str(error)
        return ""

    def _resize(self, width: int, height: int) -> None:
        if self._terminal >= 0:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def _reopen_log(self) -> str:
        try:
            if self._log is not None:
                self._log.reopen()
        except OSError as error:
            return f"{error.strerror}: {error.filename}"
        return ""

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._main, number)

    # ending

    def _children_changed(self, wakeup: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(wakeup, 4096)
        while self._exit_code is None:
            info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if info is None:
                return
            if info.si_pid == self._main:
                self._begin_ending(info)
            else:
                self._reap(Pid(info.si_pid))

    def _begin_ending(self, info: os.waitid_result) -> None:
        by_itself = info.si_code == os.CLD_EXITED
        self._exit_code = info.si_status if by_itself else 128 + info.si_status
        self._give_up_at = time.monotonic() + _KILL_SECONDS
        self._signal_group(signal.SIGKILL)

    def _seconds_left(self) -> float:
        if self._exit_code is not None:
            return max(0.0, self._give_up_at - time.monotonic())
        return self._clients.seconds_left() if self._holds_output else _LOOK_SECONDS

    def _is_forgotten(self) -> bool:
        try:
            self._directory.stat()
        except FileNotFoundError:
            return True
        except OSError:
            return False  # a failing disk
        return False

    def _finish(self, exit_code: int) -> None:
        """Kill the remaining processes; once all are gone, or survive SIGKILL for too long, write the exit record."""
        # again after each reaped process: no signal announces the children that this process inherits from it
        while left := [pid for pid in children_of_this_process() if pid != self._main]:
            alive = [pid for pid in left if not self._reap(pid)]
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
            if alive and time.monotonic() < self._give_up_at:
                return
            if alive:
                break
        if self._failure:
            self._end(START_ERROR_EXIT_CODE, "StartError", self._failure)
        else:
            self._end(exit_code, "Completed" if exit_code == 0 else "Error", "")
        os.waitpid(self._main, 0)

    def _reap(self, pid: Pid) -> bool:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            return False
        code = os.waitstatus_to_exitcode(status)
        self._commands.reaped(pid, code if code >= 0 else 128 - code)
        return True

    def _end(self, exit_code: int, reason: str, message: str) -> None:
        now = time.time_ns()
        self._clients.finish(packet for output in self._outputs.values() for packet in output.rest(now))
        record = ExitRecord(exit_code=exit_code, finished_at=time.time_ns(), reason=reason, message=message)
        with contextlib.suppress(OSError):  # a full disk; edgecore still gets the event
            write_json(self._directory / EXIT_RECORD, record)
        self._connections.broadcast({"event": "exited", **record})
        self._done = True


class _Asked(NamedTuple):
    by: Connection
    request: int
    exit_code: int = -1
    """Of a streamed command, the pipe for its exit code."""


class Commands:
    """The running commands. A command is killed when its requester has disconnected, because nobody reads its output
    any more.
    """

    def __init__(self, namespacing: Namespacing, like: ProcessSpec, oom_score_adj: int | None) -> None:
        """Begin without commands.

        Args:
            namespacing: the mounts of the container.
            like: the main process; commands get its environment, directory and user.
            oom_score_adj: of the main process and of commands; None for the shim's own.
        """
        self._namespacing = namespacing
        self._like = like
        self._oom_score_adj = oom_score_adj
        self._running: dict[Pid, _Asked] = {}

    def start(self, asker: Connection, request: int, main: Pid, descriptors: list[int]) -> None:
        """Execute the argument list in the first descriptor, in the mounts of `main`, with output to the other two.

        The kernel drops descriptors that this process may not open (EMFILE): then nothing is executed.
        """
        if len(descriptors) != _DESCRIPTORS:
            close_all(descriptors)
            asker.send({"id": request, "error": _NO_FILES})
            return
        arguments, stdout, stderr = descriptors
        try:
            pid = self._launch(main, arguments, StandardStreams(stdout, stderr))
        except (LaunchError, OSError) as error:
            asker.send({"id": request, "error": str(error)})
        else:
            self._running[pid] = _Asked(asker, request)
        close_all([stdout, stderr])

    def stream(self, asker: Connection, request: int, main: Pid, descriptors: list[int], *, has_terminal: bool) -> None:
        """Execute the argument list in the first descriptor, with the last three as standard streams; answer when it
        runs. Its exit code goes to the second descriptor.
        """
        if len(descriptors) != _STREAMED_DESCRIPTORS:
            close_all(descriptors)
            asker.send({"id": request, "error": _NO_FILES})
            return
        arguments, exit_code, stdin, stdout, stderr = descriptors
        streams = StandardStreams(stdout, stderr, stdin, are_terminal=has_terminal)
        try:
            pid = self._launch(main, arguments, streams)
        except (LaunchError, OSError) as error:
            os.close(exit_code)
            asker.send({"id": request, "error": str(error)})
        else:
            self._running[pid] = _Asked(asker, request, exit_code)
            asker.send({"id": request, "pid": pid})
        close_all([stdin, stdout, stderr])

    def _launch(self, main: Pid, arguments: int, streams: StandardStreams) -> Pid:
        """Start a command in the mounts of `main`. Raises LaunchError, OSError."""
        spec = ProcessSpec(**{**self._like, "argv": from_memory_file(arguments)})
        if streams.are_terminal:
            spec["env"] = {"TERM": TERM, **spec["env"]}
        return launch(spec, streams, lambda: self._prepare(main))

    def _prepare(self, main: Pid) -> None:
        """Enter the container; runs in the command's process, before exec."""
        _set_score(self._oom_score_adj)
        join(main, self._namespacing)

    def kill(self, asker: Connection, request: int) -> None:
        """Kill the command that `asker` started with `request`, with its process group."""
        for pid, asked in self._running.items():
            if asked[:2] == (asker, request):
                _kill(pid, asked)

    def kill_all_of(self, asker: Connection) -> None:
        """Kill every command of a requester whose connection has closed."""
        for pid, asked in self._running.items():
            if asked.by is asker:
                _kill(pid, asked)

    def reaped(self, pid: Pid, exit_code: int) -> None:
        """Send the exit code of a reaped child, if it was a command."""
        if (asked := self._running.pop(pid, None)) is None:
            return
        if asked.exit_code < 0:
            asked.by.send({"id": asked.request, "exit_code": exit_code})
            return
        with contextlib.suppress(OSError):  # nobody waits for it any more
            os.write(asked.exit_code, str(exit_code).encode())
        os.close(asked.exit_code)


def _set_score(score: int | None) -> None:
    """Set the OOM score of the calling process."""
    if score is not None:
        with contextlib.suppress(PermissionError):  # lowering it takes CAP_SYS_RESOURCE
            Path("/proc/self/oom_score_adj").write_text(str(score))


def _kill(pid: Pid, asked: _Asked) -> None:
    """Kill a command with its process group. Of a streamed one, which may be a shell whose jobs are groups of their
    own, all descendants are killed.
    """
    below = descendants(pid, all_processes()) if asked.exit_code >= 0 else []
    _kill_group(pid)
    for each in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)


def _kill_group(pid: Pid) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
