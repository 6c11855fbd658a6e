"""A SPDY connection to the node, and a command's streams over it."""

import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from beehive.http.client import ClientExchange
from beehive.http.errors import HttpError
from beehive.http.spdy import (
    ConnectionEnd,
    SpdyConnection,
    SpdyError,
    SpdyEvent,
    StreamData,
    StreamEnd,
)
from beehive.on_failure import on_failure
from modules.processes.common.pod_commands.channels import Channel, CommandExit, result_of
from modules.processes.common.pod_commands.client import SECONDS, NodeClient
from modules.processes.common.pod_commands.errors import NodeError

COMMAND: Final = "v4.channel.k8s.io"
"""Protocol of exec and attach."""
PORT_FORWARD: Final = "portforward.k8s.io"
"""Protocol of port-forward."""

_SWITCHING: Final = 101
_READ_BYTES: Final = 64 * 1024
_MOST_OF_AN_ANSWER: Final = 64 * 1024


class SpdyLink:
    """A connection to the node that has been upgraded to SPDY. Its socket does not block.

    Args:
        server: has the containers.
        target: path and query of the request.
        protocol: the protocol of the streams.

    Raises:
        NodeError: the node refuses, or does not answer.
    """

    def __init__(self, server: NodeClient, target: str, protocol: str) -> None:
        self._server = server
        self.streams = SpdyConnection()
        self._first = b""
        self._socket = server.dial()
        with on_failure(self.close):
            self._upgrade(target, protocol)
        self._socket.settimeout(0)

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def send(self) -> None:
        """Send as much as the socket takes; nothing to a closed peer, whose last words may still be received."""
        unsent = self.streams.unsent
        while unsent:
            try:
                del unsent[: self._socket.send(memoryview(unsent)[:_READ_BYTES].tobytes())]
            except BlockingIOError:
                return
            except ConnectionError:
                unsent.clear()

    def receive(self) -> list[SpdyEvent] | None:
        """Return the received events; None at the end of the connection.

        Raises:
            NodeError: it is not SPDY.
        """
        data, self._first = self._first, b""
        try:
            data = data or self._socket.recv(_READ_BYTES)
            return list(self.streams.receive(data)) if data else None
        except BlockingIOError:
            return []
        except ConnectionError:
            return None
        except SpdyError as error:
            raise NodeError("the container runtime's streams cannot be read", "", str(error)) from error

    @property
    def has_received(self) -> bool:
        """Whether bytes came with the answer to the upgrade, which `poll` does not report."""
        return bool(self._first)

    def _upgrade(self, target: str, protocol: str) -> None:
        upgrade = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol)]
        exchange = ClientExchange(_MOST_OF_AN_ANSWER)
        try:
            request = exchange.request("POST", target, [("Host", "localhost"), *upgrade, ("Content-Length", "0")])
            self._socket.sendall(request)
            head = exchange.read_head(self._read)
            if head.status != _SWITCHING:
                raise self._server.refusal(head.status, exchange.read_body(self._read, _MOST_OF_AN_ANSWER))
        except TimeoutError:
            raise NodeError(f"{self._server.program} does not answer", "", f"within {SECONDS:g} s") from None
        except (OSError, HttpError) as error:
            raise NodeError(f"{self._server.program} broke off", "", str(error)) from error
        self._first = exchange.rest

    def _read(self) -> bytes:
        return self._socket.recv(_READ_BYTES)


class SizedTerminal(NamedTuple):
    """The terminal of this side."""

    resized: int
    """A descriptor that becomes readable when the size has changed."""
    size: Callable[[], tuple[int, int]]
    """Returns columns and lines; raises OSError when the terminal is gone."""


class SpdyCommand:
    """The streams of a command over SPDY, where every runtime learns of the end of its input.

    Args:
        link: connection to exec or attach.
        output: called with a channel and its data.
        source: descriptor of the input; None for no input.
        terminal: for a command that was given one; its errors come with its output.
    """

    def __init__(
        self,
        link: SpdyLink,
        output: Callable[[Channel, bytes], None],
        source: int | None = None,
        terminal: SizedTerminal | None = None,
    ) -> None:
        self._link = link
        self._output = output
        self._source = source
        self._terminal = terminal
        self._sent_size: tuple[int, int] | None = None
        streams = link.streams
        self._error = streams.open_stream({"streamtype": "error"})
        self._input = streams.open_stream({"streamtype": "stdin"}) if source is not None else 0
        self._outputs = {streams.open_stream({"streamtype": "stdout"}): Channel.STDOUT}
        if terminal is None:
            self._outputs[streams.open_stream({"streamtype": "stderr"})] = Channel.STDERR
        else:
            self._resize = streams.open_stream({"streamtype": "resize"})
        self._open = {self._error, *self._outputs}
        self._status = b""

    def run(self) -> CommandExit:
        """Serve until the command ends, on this thread. Input is read only after former input has been sent.

        Raises:
            NodeError: the node's bytes are not SPDY.
        """
        self._send_size()
        while self._open:
            self._link.send()
            ready = self._wait()
            if self._terminal is not None and self._terminal.resized in ready:
                os.read(self._terminal.resized, _READ_BYTES)
                self._send_size()
            if self._source is not None and self._source in ready:
                self._send_size()  # the kernel may report keys before the signal of a change
                self._pass_on(os.read(self._source, _READ_BYTES))
            if self._link.fileno() in ready or self._link.has_received:
                self._handle(self._link.receive())
        ended = CommandExit(1, "the connection ended before the command did")
        return result_of(self._status) if self._status else ended

    def _wait(self) -> set[int]:
        poll = select.poll()
        unsent = bool(self._link.streams.unsent)
        poll.register(self._link, select.POLLIN | (select.POLLOUT if unsent else 0))
        if self._source is not None and not unsent:
            poll.register(self._source, select.POLLIN)
        if self._terminal is not None:
            poll.register(self._terminal.resized, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll(0 if self._link.has_received else None)}

    def _send_size(self) -> None:
        """Send the terminal's size if it is another one than the last. A terminal that is gone has none."""
        if self._terminal is None:
            return
        with suppress(OSError):
            columns, lines = size = self._terminal.size()
            if size != self._sent_size:
                self._link.streams.send(self._resize, msgspec.json.encode({"Width": columns, "Height": lines}))
                self._sent_size = size

    def _pass_on(self, data: bytes) -> None:
        self._link.streams.send(self._input, data, last=not data)
        if not data:
            self._source = None

    def _handle(self, events: list[SpdyEvent] | None) -> None:
        for event in events if events is not None else [ConnectionEnd()]:
            match event:
                case StreamData(self._error, data):
                    self._status = (self._status + data)[:_MOST_OF_AN_ANSWER]
                case StreamData(stream, data) if stream in self._outputs:
                    self._output(self._outputs[stream], data)
                case StreamEnd(stream, reset):
                    self._open.discard(stream)
                    if reset and stream == self._input:
                        self._source = None
                case ConnectionEnd():
                    self._open.clear()
