"""Messages of a WebSocket on a connection.

It is loaded with the first WebSocket: the `websockets` package takes 1 MB of memory. The handshake is not that
package's, which refuses the name `SPDY/3.1+portforward.k8s.io` for its slash.
"""

from typing import Final

from websockets.frames import DATA_OPCODES, Frame, Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from modules.runtimes.streaming.link import SocketLink

LONGEST_MESSAGE: Final = 1 << 20


class WebSocketLink:
    """The server's side of a WebSocket whose handshake has been made.

    Args:
        link: the connection.
        subprotocol: the protocol of its messages.
    """

    def __init__(self, link: SocketLink, subprotocol: str) -> None:
        self.link = link
        self.subprotocol = subprotocol
        self.has_message = False
        """Whether the client has sent a part of a message."""
        self.pongs = 0
        """How many pongs the client has sent."""
        self._pieces = bytearray()
        self._protocol = ServerProtocol(state=OPEN, max_size=LONGEST_MESSAGE)

    @property
    def has_ended(self) -> bool:
        """Whether the client has closed, or sent something that is no frame; our own close does not end it."""
        return self._protocol.close_rcvd is not None or self._protocol.parser_exc is not None

    def receive(self) -> list[bytes] | None:
        """Return the messages that have come; None when the client has ended. Pings are answered."""
        data = self.link.receive()
        if data is None:
            return None
        if data:
            self._protocol.receive_data(data)
        messages = []
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode is Opcode.PONG:
                self.pongs += 1
            if isinstance(event, Frame) and event.opcode in DATA_OPCODES:
                self.has_message = True
                self._pieces += event.data
                if event.fin:
                    messages.append(bytes(self._pieces))
                    self._pieces.clear()
        self._pass_on()
        return None if self.has_ended and not messages else messages

    def queue(self, message: bytes, *, is_text: bool = False) -> None:
        """Have a message sent, unless the other side has closed."""
        if self._protocol.state is OPEN:
            if is_text:
                self._protocol.send_text(message)
            else:
                self._protocol.send_binary(message)
            self._pass_on()

    def ping(self) -> None:
        """Ask for a pong, which each client sends when it reads (RFC 6455 §5.5.2)."""
        self._protocol.send_ping(b"")
        self._pass_on()

    def close(self) -> None:
        """Close in order."""
        if self._protocol.state is OPEN:
            self._protocol.send_close(1000)
            self._pass_on()

    def _pass_on(self) -> None:
        for data in self._protocol.data_to_send():
            self.link.queue(data)
