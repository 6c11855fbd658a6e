"""paho's client, with its own way for the packets of messages.

paho makes three system calls to read a message and one to write an acknowledgement. Each releases the interpreter's
lock, and the other threads of the node then compete for it; and it makes a message, a condition and a dictionary for
each. At a thousand messages a second that costs more than all else. So bytes are read and written in large pieces, and
messages of QoS 0 and 1 and their acknowledgements are handled here (`packets`); paho has the rest: connecting, TLS,
subscriptions, the keep-alive and QoS 2. The methods that are replaced here are paho's own, so the version of paho is
fixed in constraints.txt, and tests run against a real broker.
"""

import socket
import struct
from pathlib import Path
from typing import Any, Final, NamedTuple

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import MQTTErrorCode

from beehive.sockets.unix_sockets import connect_unix
from modules.edge.eventbus.packets import (
    KIND,
    PUBACK,
    PUBLISH,
    QOS_2,
    MalformedPacketError,
    Received,
    body_of,
    is_too_large,
    puback,
    publish,
    read_publish,
    shortened,
)

PIECE: Final = 64 * 1024
"""Bytes that are read at a time."""

_WELL: Final = MQTTErrorCode.MQTT_ERR_SUCCESS


class Arrived(NamedTuple):
    """The messages and acknowledgements that a broker has sent."""

    messages: list[Received]
    published: list[int]
    """Numbers of publications that it has acknowledged."""
    code: MQTTErrorCode
    """Whether the connection goes on."""


class BufferedClient(Client):
    """A client whose owner calls `read` and `handle` when there is something to read, and `flush` at the end."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._for_paho = b""
        self._to_skip = 0
        """Bytes still to come of the payload of a message that is too large; the buffer ends with its beginning."""
        self._left_out = 0
        """Bytes of the payload that the next message in the buffer had; 0 if it is whole."""
        self._left_out_by_number: dict[int, int] = {}
        """The same of messages of QoS 2 that paho has, by their numbers."""
        self._messages: list[Received] = []
        self._published: list[int] = []
        self._is_direct = False
        self.is_behind = False
        """Whether messages were read that are not handled, because there was no room."""
        self.on_message = self._handle_message
        self.on_publish = self._handle_published

    @property
    def has_output(self) -> bool:
        """Whether bytes wait until the socket takes them."""
        return bool(self._outgoing) or self.want_write()

    def read(self) -> None:
        """Read the received bytes. Raises OSError, also if the broker has ended the connection."""
        try:
            piece = super()._sock_recv(PIECE)
        except BlockingIOError:
            return
        if not piece:
            raise ConnectionResetError("the broker has ended the connection")
        skipped = min(self._to_skip, len(piece))
        self._to_skip -= skipped
        self._incoming += piece[skipped:] if skipped else piece

    def handle(self, room: int) -> Arrived:
        """Handle the received packets, `room` messages at most.

        A message that is too large is never kept: its payload is skipped while it comes. The rest of it takes its place
        among the other messages, and is refused and acknowledged in its turn.

        Raises:
            MalformedPacketError: the broker does not speak MQTT.
        """
        data, at, code = self._incoming, 0, _WELL
        messages: list[Received] = []
        published: list[int] = []
        self._messages, self._published = messages, published
        self.is_behind = False
        while code is _WELL and (body := body_of(data, at)) is not None:
            begin, end = body
            first = data[at]
            if is_too_large(first, begin, end):
                if not self._leave_out_payload(at, begin, end):
                    break
                continue
            if end > len(data) or self._to_skip:
                break
            if first & KIND == PUBLISH and not first & QOS_2:
                if len(messages) >= room:
                    self.is_behind = True
                    break
                message = read_publish(data, first, begin, end)
                messages.append(message if not self._left_out else message._replace(left_out=self._drain_left_out()))
            elif first == PUBACK:
                published.append(int.from_bytes(data[begin : begin + 2], "big"))
            else:
                if self._left_out:
                    number = int.from_bytes(data[end - 2 : end], "big")
                    self._left_out_by_number[number] = self._drain_left_out()
                code = self._let_paho_handle(bytes(data[at:end]))
            at = end
        del data[:at]
        return Arrived(messages, published, code)

    def _leave_out_payload(self, at: int, begin: int, end: int) -> bool:
        """Shorten the message at `at` to its topic and number; return False while those have not come."""
        data = self._incoming
        short = shortened(data, at, begin, end)
        if short is None:
            return False
        self._to_skip, self._left_out = max(0, end - len(data)), short.left_out
        data[at:end] = short.packet
        return True

    def _drain_left_out(self) -> int:
        left_out, self._left_out = self._left_out, 0
        return left_out

    def send(self, topic: str, payload: bytes, *, qos: int, retain: bool) -> int:
        """Publish, and return the number under which `handle` returns it when the broker has it; 0 with QoS 0."""
        if qos > 1:
            return self.publish(topic, payload, qos, retain).mid
        mid = self._mid_generate() if qos else 0
        self._outgoing += publish(topic, payload, mid, qos=qos, retain=retain)
        return mid

    def acknowledge(self, message: Received) -> None:
        """Acknowledge a message."""
        if message.qos == 1:
            self._outgoing += puback(message.mid)
        elif message.qos:
            self.ack(message.mid, message.qos)

    def flush(self) -> None:
        """Write as much as the socket takes now. Raises OSError."""
        try:
            while self._outgoing:
                del self._outgoing[: super()._sock_send(bytes(self._outgoing[:PIECE]))]
        except BlockingIOError:
            return

    def end(self) -> None:
        """Write as much as the socket takes, and disconnect in good order. Raises OSError."""
        self.flush()
        self._is_direct = True
        self.disconnect()

    def _let_paho_handle(self, packet: bytes) -> MQTTErrorCode:
        self._for_paho = packet
        try:
            return self.loop_read()
        except (struct.error, LookupError) as error:  # paho checks the length and the codes of some kinds only
            raise MalformedPacketError("the broker has sent a packet that is not valid") from error

    def _handle_message(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        """Take a message of QoS 2, which an earlier session under this name may have left at the broker."""
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""
        left_out = self._left_out_by_number.pop(message.mid, 0)
        self._messages.append(
            Received(topic, bytes(message.payload), message.qos, message.mid, message.retain, left_out)
        )

    def _handle_published(self, _client: Client, _data: Any, mid: int, *_rest: Any) -> None:
        """Record that the broker has a publication of QoS 2."""
        self._published.append(mid)

    def _sock_recv(self, bufsize: int) -> bytes:
        """Give paho what `handle` has for it."""
        piece, self._for_paho = self._for_paho[:bufsize], self._for_paho[bufsize:]
        if not piece:
            raise BlockingIOError
        return piece

    def _sock_send(self, buf: bytes) -> int:
        if self._is_direct:
            return super()._sock_send(buf)
        self._outgoing += buf
        return len(buf)

    def _create_unix_socket_connection(self) -> socket.socket:
        """Connect; paho leaves a socket open that could not be connected."""
        return connect_unix(Path(self._host))


def send_at_once(_client: Client, _data: Any, connection: Any) -> None:
    """Send each message immediately: an acknowledgement would otherwise wait 40 ms for the one before (Nagle)."""
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def acknowledge_at_once(client: Client) -> None:
    """Let the kernel acknowledge received bytes immediately. mosquitto sends a message only after the small ones
    before it have been acknowledged (Nagle, unless `set_tcp_nodelay`), and the kernel would wait 40 ms with that.
    """
    connection: Any = client.socket()
    if connection is not None and connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
