"""The parent of one container: creates it, holds its streams, and records its end, as conmon(8) describes it."""

import array
import fcntl
import os
import select
import signal
import socket
import struct
import termios
import time
from contextlib import suppress
from typing import NoReturn

from modules.runtimes.oci.shim.arguments import Arguments, parse
from modules.runtimes.oci.shim.clients import Clients
from modules.runtimes.shim import kernel
from modules.runtimes.shim.log_file import LogFile
from modules.runtimes.shim.out_of_memory import ran_out_of_memory
from modules.runtimes.shim.streams import STDERR, STDOUT, Input, Output

_ATTACH, _CONTROL, _CONSOLE = "attach", "ctl", "console"
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LONGEST_MESSAGE = 64 * 1024


def main(arguments: list[str]) -> NoReturn:
    """Begin in a process of its own, as conmon does: the first process ends immediately."""
    answers = int(os.environ.pop("_OCI_SYNCPIPE"))
    os.set_inheritable(answers, False)  # noqa: FBT003 - os's own
    if os.fork():
        os._exit(0)
    os.setsid()
    try:
        ContainerShim(parse(arguments), answers).run()
    except OSError as error:
        _answer(answers, -1, str(error).encode())
    finally:
        os._exit(0)


class ContainerShim:
    """The process of one container, with one thread and one poll.

    Args:
        arguments: edgecore's request.
        answers: the pipe that gets one line: the first process, or why there is no process.
    """

    def __init__(self, arguments: Arguments, answers: int) -> None:
        self._asked = arguments
        self._answers = answers
        _write(arguments.own_pid_file, str(os.getpid()))
        kernel.adopt_orphans()
        self._woken = _watch_children()
        self._log = LogFile(arguments.log)
        self._bundle = os.open(arguments.bundle, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._clients = Clients(self._address(_ATTACH))
        control = f"{arguments.bundle}/{_CONTROL}"
        os.mkfifo(control, 0o600)
        self._control = os.open(control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._lines = b""
        self._outputs: dict[int, Output] = {}
        self._input: Input | None = None
        self._awaited = -1
        """Descriptor of the input that does not take its pending bytes."""
        self._terminal = -1
        self._init = 0
        self._groups = ""
        """The control groups of the first process."""
        self._poll = select.poll()

    def run(self) -> None:
        """Create the container, and serve it until it has ended."""
        if not self._create():
            return
        for each in (self._woken, self._control, self._clients.listener.fileno(), *self._outputs):
            self._poll.register(each, select.POLLIN)
        code = None
        while code is None:
            for descriptor, events in self._poll.poll():
                self._serve(descriptor, events)
            code = self._ended()
        self._drain()
        if ran_out_of_memory(self._groups):
            _write(f"{self._asked.persist}/oom", "")
        _write(f"{self._asked.persist}/exit", str(code))

    # creation

    def _create(self) -> bool:
        """Let crun create the container, answer, and return whether there is one."""
        listener = self._console_listener() if self._asked.terminal else None
        given, errors = self._streams()
        spawned = os.posix_spawn(
            self._asked.runtime,
            [self._asked.runtime, *self._asked.runtime_options, "create", *self._options()],
            dict(os.environ),
            file_actions=[(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(given)],
            setsigdef=(signal.SIGPIPE, *_IGNORED),
        )
        for descriptor in set(given):
            os.close(descriptor)
        _, status = os.waitpid(spawned, 0)
        self._init = int(_text(self._asked.pid_file) or 0)
        if status or not self._init:
            _answer(self._answers, -1, _read_all(errors))
            return False
        if listener is not None:
            self._receive_terminal(listener)
        self._groups = _text(f"/proc/{self._init}/cgroup")  # once answered, it may start, and end: then it has none
        _answer(self._answers, self._init)
        return True

    def _options(self) -> list[str]:
        asked = self._asked
        console = ["--console-socket", self._address(_CONSOLE)] if asked.terminal else []
        return ["--bundle", asked.bundle, "--pid-file", asked.pid_file, *console, asked.container]

    def _streams(self) -> tuple[list[int], int]:
        """Return the standard streams of crun, and so of the container, and the descriptor for crun's errors to be
        read.
        """
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        errors, error_end = os.pipe2(os.O_CLOEXEC)
        if self._asked.terminal:
            os.set_blocking(errors, False)
            return [nothing, nothing, error_end], errors
        given = nothing
        if self._asked.stdin:
            given, ours = os.pipe2(os.O_CLOEXEC)
            self._input = Input(ours)
        output, output_end = os.pipe2(os.O_CLOEXEC)
        for descriptor, kind in ((output, STDOUT), (errors, STDERR)):
            self._outputs[descriptor] = Output(descriptor, kind, self._log)
        return [given, output_end, error_end], errors

    def _console_listener(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self._address(_CONSOLE))
        listener.listen(1)
        return listener

    def _receive_terminal(self, listener: socket.socket) -> None:
        with listener, listener.accept()[0] as connection:
            descriptors = array.array("i")
            _, messages, _, _ = connection.recvmsg(4096, socket.CMSG_SPACE(descriptors.itemsize))
            descriptors.frombytes(messages[0][2][: descriptors.itemsize])
        self._terminal = descriptors[0]
        os.set_inheritable(self._terminal, False)  # noqa: FBT003 - os's own
        attributes = termios.tcgetattr(self._terminal)
        attributes[1] |= termios.OPOST | termios.ONLCR
        termios.tcsetattr(self._terminal, termios.TCSANOW, attributes)
        self._outputs[self._terminal] = Output(self._terminal, STDOUT, self._log)
        self._input = Input(os.dup(self._terminal))

    def _address(self, name: str) -> str:
        """Return the address of a socket in the bundle: a unix address holds 107 bytes only."""
        return f"/proc/{os.getpid()}/fd/{self._bundle}/{name}"

    # service

    def _serve(self, descriptor: int, events: int) -> None:
        if descriptor in self._outputs:
            self._pump(descriptor)
        elif descriptor == self._control:
            self._obey()
        elif descriptor == self._clients.listener.fileno():
            if (client := self._clients.accept()) is not None:
                self._poll.register(client, select.POLLIN)
        elif descriptor in self._clients.connected:
            self._receive_input(descriptor, has_gone=bool(events & select.POLLHUP))
        elif self._input is not None and descriptor == self._input.descriptor:
            self._input.flush()
            self._wait_for_input()

    def _pump(self, descriptor: int) -> None:
        packet = self._outputs[descriptor].pump(time.time_ns())
        if packet is None:
            self._poll.unregister(descriptor)
            self._outputs.pop(descriptor).finish(time.time_ns())
        elif packet:
            for client in self._clients.send(packet):
                self._leave(client)

    def _leave(self, client: int) -> None:
        self._poll.unregister(client)
        self._clients.close(client)

    def _receive_input(self, client: int, *, has_gone: bool) -> None:
        data = self._clients.receive(client)
        if data is None:
            if has_gone:
                self._leave(client)
            else:  # its input has ended, and it goes on reading
                self._clients.silent.add(client)
                self._poll.modify(client, 0)
            if self._input is not None and not self._asked.leave_stdin_open and not self._asked.terminal:
                self._input.end()
        elif self._input is not None:
            self._input.write(data)
        self._wait_for_input()

    def _wait_for_input(self) -> None:
        """Wait until the container takes its pending input; wait for clients' input only while none is pending."""
        if self._input is None:
            return
        is_behind = bool(self._input.pending)
        wanted = self._input.descriptor if is_behind else -1
        if wanted != self._awaited:
            if self._awaited >= 0:
                self._poll.unregister(self._awaited)
            if wanted >= 0:
                self._poll.register(wanted, select.POLLOUT)
            self._awaited = wanted
        for client in self._clients.connected.keys() - self._clients.silent:
            self._poll.modify(client, 0 if is_behind else select.POLLIN)

    def _obey(self) -> None:
        self._lines += os.read(self._control, 4096)
        *lines, self._lines = self._lines[-4096:].split(b"\n")
        for line in lines:
            with suppress(ValueError, OSError):
                kind, first, second = (int(word) for word in line.split())
                if kind == 1 and self._terminal >= 0:
                    fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", first, second, 0, 0))
                elif kind == 2:
                    self._log.reopen()

    # the end

    def _ended(self) -> int | None:
        """Reap all processes that have ended; return the exit code of the container's first."""
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)
        code = None
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                if pid == self._init:
                    found = os.waitstatus_to_exitcode(status)
                    code = found if found >= 0 else 128 - found
        return code

    def _drain(self) -> None:
        for output in self._outputs.values():
            for packet in output.rest(time.time_ns()):
                self._clients.send(packet)


def _answer(answers: int, number: int, message: bytes = b"") -> None:
    """Tell edgecore, once; it may have been killed meanwhile."""
    text = f'{{"data": {number}}}'
    if message:
        import json  # noqa: PLC0415 - a container that runs has no use for its memory

        text = json.dumps({"data": number, "message": message.decode("utf-8", "replace")})
    with suppress(OSError):
        os.write(answers, text.encode() + b"\n")
        os.close(answers)


def _watch_children() -> int:
    """Return a descriptor that is readable when a child may have ended."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    return read_end


def _write(path: str, text: str) -> None:
    """Write a file that appears whole."""
    with open(f"{path}.new", "w") as file:  # noqa: PTH123 - pathlib takes memory
        file.write(text)
    os.replace(f"{path}.new", path)  # noqa: PTH105


def _text(path: str) -> str:
    try:
        with open(path) as file:  # noqa: PTH123
            return file.read(_LONGEST_MESSAGE)
    except OSError:
        return ""


def _read_all(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _LONGEST_MESSAGE)
    except BlockingIOError:
        return b""
