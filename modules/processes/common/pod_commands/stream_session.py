"""The client side of exec and attach."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING, Final

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
from modules.processes.common.pod_commands.client import SECONDS
from modules.processes.common.pod_commands.errors import NodeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from modules.processes.common.pod_commands.client import NodeClient

_READ_BYTES: Final = 32 * 1024
_LONGEST_MESSAGE: Final = 16 * 1024 * 1024


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

        Args:
            resized: descriptor that becomes readable when the terminal's size has changed.
            size: returns columns and lines of the terminal.
        """
        if size is not None:
            self._say(size_message(*size()))
        while self._result is None:
            ready = self._wait(resized)
            if resized is not None and resized in ready and size is not None:
                os.read(resized, _READ_BYTES)
                self._say(size_message(*size()))
            if self._source is not None and self._source in ready:
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
            self._say(input_message(data))
            return
        self._source = None
        if self._protocol.subprotocol == PROTOCOLS[0]:
            self._say(end_of_input())
        else:
            self._server.say("the input has ended, but this container runtime cannot be told so; Ctrl-C ends the wait")

    def _say(self, message: bytes) -> None:
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
                self._take(event)
        return True

    def _take(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
            self._pieces.append(bytes(frame.data))
            if frame.fin:
                message, self._pieces = b"".join(self._pieces), []
                self._take_message(message)

    def _take_message(self, message: bytes) -> None:
        if len(message) < 2:
            return
        channel, content = message[0], message[1:]
        if channel == Channel.RESULT:
            self._result = result_of(content)
        elif channel in (Channel.STDOUT, Channel.STDERR):
            self._output(Channel(channel), content)
