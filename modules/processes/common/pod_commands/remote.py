"""The commands `exec` and `attach`: connect a container's streams with this terminal.

The exit status is the command's own. With `-t` the terminal is in raw mode, so that every key goes to the container,
and its size is sent whenever it changes.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from modules.processes.common.pod_commands.channels import (
    PROTOCOLS,
    Channel,
    CommandExit,
    end_of_input,
    input_message,
    result_of,
    size_message,
)
from modules.processes.common.pod_commands.client import SECONDS, remark, report_errors
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.spdy_link import COMMAND, SpdyCommand, SpdyLink
from modules.processes.common.pod_commands.target import container_of, only_word, pod_target

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from modules.processes.common.pod_commands.client import NodeClient

    Output = Callable[[Channel, bytes], None]
    from collections.abc import Callable

_INPUT, _OUTPUT, _ERROR = 0, 1, 2

_READ_BYTES: Final = 32 * 1024
_LONGEST_MESSAGE: Final = 16 * 1024 * 1024


class ContainerTarget(NamedTuple):
    """A container of a pod."""

    namespace: str
    pod: str
    container: str


def execute(chosen: argparse.Namespace) -> int:
    """Run a command."""
    with report_errors(chosen.program):
        _check_terminal(chosen)
        pod, *command = chosen.words or [""]
        if not pod or not command:
            wanted = "a command" if pod else "a pod and a command"
            raise NodeError(f"{wanted} is wanted", hint=f"{chosen.program} exec POD -- COMMAND", usage=True)
        node: NodeClient = chosen.connect(chosen)
        target = _target(node, chosen, pod)
        words = [("command", word) for word in command]
        return _converse(node, chosen, node.stream_url("exec", *target, words + _streams(chosen)))


def attach(chosen: argparse.Namespace) -> int:
    """Attach to the container's process."""
    with report_errors(chosen.program):
        _check_terminal(chosen)
        node: NodeClient = chosen.connect(chosen)
        target = _target(node, chosen, only_word(chosen.words, "pod"))
        return _converse(node, chosen, node.stream_url("attach", *target, _streams(chosen)))


def run_command(
    node: NodeClient, target: ContainerTarget, command: Sequence[str], output: Output, source: int | None = None
) -> CommandExit:
    """Run a command in a container, to its end.

    Args:
        node: the node.
        target: the container.
        command: the command and its arguments.
        output: called with each piece of output and its channel.
        source: descriptor of the command's input, passed on with its end; None: no input.

    Raises:
        NodeError: the command cannot be run.
    """
    words = [("command", word) for word in command]
    streams = [("input", "1")] * (source is not None) + [("output", "1"), ("error", "1")]
    link = SpdyLink(node, node.stream_url("exec", *target, words + streams), COMMAND)
    try:
        return SpdyCommand(link, output, source).run()
    finally:
        link.close()


def _check_terminal(chosen: argparse.Namespace) -> None:
    """Do without a terminal if there is none, as kubectl."""
    if chosen.tty and not os.isatty(_INPUT if chosen.stdin else _OUTPUT):
        chosen.tty = False
        remark("Unable to use a TTY - input or output is not a terminal")


def _target(node: NodeClient, chosen: argparse.Namespace, word: str) -> ContainerTarget:
    target = pod_target(word, chosen.namespace)
    found = container_of(node.pod(target), chosen.container)
    if not chosen.quiet:
        remark(found.remark)
    return ContainerTarget(*target, found.name)


def _streams(chosen: argparse.Namespace) -> list[tuple[str, str]]:
    return [("input", "1")] * chosen.stdin + [("output", "1"), ("tty" if chosen.tty else "error", "1")]


def _converse(node: NodeClient, chosen: argparse.Namespace, target: str) -> int:
    result = _with_end_of_input(node, target) if chosen.stdin and not chosen.tty else None
    if result is None:
        result = _over_websocket(node, chosen, target)
    if result.problem:
        raise NodeError(result.problem)
    return result.code


def _with_end_of_input(node: NodeClient, target: str) -> CommandExit | None:
    """Pass the input on over SPDY, the way every runtime learns of its end; None if the runtime refuses."""
    try:
        link = SpdyLink(node, target, COMMAND)
    except NodeError:
        return None
    try:
        return SpdyCommand(link, _write, _INPUT).run()
    finally:
        link.close()


class StreamSession:
    """A WebSocket that carries the streams of a process, served on one thread.

    It waits in `poll` for the socket, for input, and for a change of the terminal's size. Input is read only after
    former input has been sent, so that nothing piles up on either side.

    Args:
        server: has the containers.
        target: path and query of the request.
        output: called with a channel and its data.
        source: descriptor of the input; None for no input.
    """

    def __init__(
        self, server: NodeClient, target: str, output: Callable[[Channel, bytes], None], source: int | None = None
    ) -> None:
        self._output = output
        self._source = source
        self._server = server
        self._socket = server.dial()
        self._protocol = ClientProtocol(
            parse_uri(f"ws://localhost{target}"),
            subprotocols=[Subprotocol(each) for each in PROTOCOLS],
            max_size=_LONGEST_MESSAGE,
        )
        self._unsent = b""
        self._pieces: list[bytes] = []
        self._answer: Response | None = None
        self._result: CommandExit | None = None

    def open(self) -> None:
        """Make the handshake. Raises NodeError if the node refuses."""
        self._protocol.send_request(self._protocol.connect())
        for data in self._protocol.data_to_send():
            self._socket.sendall(data)
        while self._answer is None:
            if not self._receive():
                break
        answer = self._answer
        if answer is None or self._protocol.handshake_exc is not None:
            if answer is not None and answer.body:
                raise self._server.refusal(answer.status_code, bytes(answer.body))
            status = answer.status_code if answer else 0
            why = f"{self._server.program} does not agree: {self._protocol.handshake_exc}"
            raise NodeError(why, status=status)
        self._socket.settimeout(0)

    def run(self, resized: int | None = None, size: Callable[[], tuple[int, int]] | None = None) -> CommandExit:
        """Serve until the command ends.

        What is typed at a terminal that has another size comes after the size: a signal that is on its way does not
        wake `poll` before the keys do.

        Args:
            resized: descriptor that becomes readable when the terminal's size has changed.
            size: returns columns and lines of the terminal.
        """
        sent = self._send_size(size, None)
        while self._result is None:
            ready = self._wait(resized)
            if resized is not None and resized in ready:
                os.read(resized, _READ_BYTES)
                sent = self._send_size(size, sent)
            if self._source is not None and self._source in ready:
                sent = self._send_size(size, sent)
                self._pass_on(os.read(self._source, _READ_BYTES))
            if self._socket.fileno() in ready and not self._receive():
                break
        return self._result or CommandExit(1, "the connection ended before the command did")

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _wait(self, resized: int | None) -> set[int]:
        self._send()
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        if resized is not None:
            poll.register(resized, select.POLLIN)
        if self._source is not None and not self._unsent:
            poll.register(self._source, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll()}

    def _pass_on(self, data: bytes) -> None:
        if data:
            self._send_binary(input_message(data))
            return
        self._source = None
        if self._protocol.subprotocol == PROTOCOLS[0]:
            self._send_binary(end_of_input())
        else:
            self._server.print_remark(
                "the input has ended, but this container runtime cannot be told so; Ctrl-C ends the wait"
            )

    def _send_size(
        self, size: Callable[[], tuple[int, int]] | None, sent: tuple[int, int] | None
    ) -> tuple[int, int] | None:
        """Send the terminal's size if it is another one than the last; return the size. A terminal that is gone has
        none: its input ends.
        """
        try:
            now = size() if size is not None else None
        except OSError:
            return sent
        if now is not None and now != sent:
            self._send_binary(size_message(*now))
        return now

    def _send_binary(self, message: bytes) -> None:
        self._protocol.send_binary(message)

    def _send(self) -> None:
        self._unsent += b"".join(self._protocol.data_to_send())
        if self._unsent:
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except BlockingIOError:
                return
            except ConnectionError:
                self._unsent = b""

    def _receive(self) -> bool:
        """Receive data; return False at the end."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        except TimeoutError:
            raise NodeError(f"{self._server.program} does not answer", "", f"within {SECONDS:g} s") from None
        if not data:
            return False
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                self._answer = event
            elif isinstance(event, Frame):
                self._handle_frame(event)
        return True

    def _handle_frame(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
            self._pieces.append(bytes(frame.data))
            if frame.fin:
                message, self._pieces = b"".join(self._pieces), []
                self._handle_message(message)

    def _handle_message(self, message: bytes) -> None:
        if len(message) < 2:
            return
        channel, content = message[0], message[1:]
        if channel == Channel.RESULT:
            self._result = result_of(content)
        elif channel in (Channel.STDOUT, Channel.STDERR):
            self._output(Channel(channel), content)


def _over_websocket(node: NodeClient, chosen: argparse.Namespace, target: str) -> CommandExit:
    with ExitStack() as stack:
        talk = StreamSession(node, target, _write, _INPUT if chosen.stdin else None)
        stack.callback(talk.close)
        talk.open()
        if chosen.tty:
            stack.enter_context(_raw())
            return talk.run(stack.enter_context(_size_changes()), _size)
        return talk.run()


def _write(channel: Channel, data: bytes) -> None:
    descriptor = _OUTPUT if channel is Channel.STDOUT else _ERROR
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _size() -> tuple[int, int]:
    size = os.get_terminal_size(_INPUT if os.isatty(_INPUT) else _OUTPUT)
    return size.columns, size.lines


@contextmanager
def _raw() -> Iterator[None]:
    """Put the terminal into raw mode, and restore it afterwards."""
    if not os.isatty(_INPUT):
        yield
        return
    before = termios.tcgetattr(_INPUT)
    try:
        tty.setraw(_INPUT, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(_INPUT, termios.TCSADRAIN, before)
        sys.stderr.flush()


@contextmanager
def _size_changes() -> Iterator[int]:
    """Yield a descriptor that becomes readable when the terminal's size has changed."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.signal(signal.SIGWINCH, lambda *_: None)
    descriptor = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(descriptor)
        signal.signal(signal.SIGWINCH, before)
        os.close(reading)
        os.close(writing)
