"""The proof that a broker works: a message that it passes on to its own sender (MQTT 3.1.1).

A broker without memory still accepts TCP connections; only a message shows that it stores and delivers.
"""

import secrets
import select
import socket
from pathlib import Path
from typing import Final

from beehive.clock import Clock
from beehive.sockets.unix_sockets import connect_unix
from beehive.wakeup import Wakeup
from modules.edge.eventbus.packets import publish, remaining_length

_CONNACK: Final = bytes.fromhex("20020000")
_SUBACK: Final = bytes.fromhex("9003000101")
_PUBACK: Final = bytes.fromhex("40020002")
_DISCONNECT: Final = bytes.fromhex("e000")
_MOST: Final = 4096
"""Bytes of all answers; a working broker sends less than a hundred."""
_CLEAN: Final = bytes.fromhex("00044d5154540402 0000")
"""The variable header of a CONNECT: MQTT 3.1.1, a clean session, no keep-alive (§3.1)."""


class NoAnswerError(Exception):
    """The broker has not passed the message on; the text states what it did instead."""


def send_to_itself(path: Path, clock: Clock, seconds: float, wakeup: Wakeup, size: int = 0) -> None:
    """Connect to a broker's Unix socket, subscribe, publish with QoS 1, and wait for the message. Blocks.

    Args:
        path: of the socket.
        clock: for the deadline.
        seconds: for the whole exchange.
        wakeup: the exchange is broken off when it is set.
        size: bytes of a further message that it has to take before, which nobody gets.

    Raises:
        NoAnswerError: the message has not come back.
    """
    due = clock.monotonic() + seconds
    word = secrets.token_hex(8).encode()
    topic = b"$edgecore/" + word
    try:
        with connect_unix(path, seconds) as connection:
            connection.sendall(_packet(0x10, _CLEAN + _text(b"edgecore-" + word)))
            _await(connection, (_CONNACK,), clock, due, wakeup)
            if size:
                connection.sendall(publish(topic.decode(), bytes(size), 2, qos=1, retain=False))
                _await(connection, (_PUBACK,), clock, due, wakeup)
            connection.sendall(_packet(0x82, b"\0\1" + _text(topic) + b"\1"))
            _await(connection, (_SUBACK,), clock, due, wakeup)
            connection.sendall(publish(topic.decode(), word, 2, qos=1, retain=False))
            _await(connection, (_PUBACK, _text(topic)), clock, due, wakeup)
            connection.sendall(_DISCONNECT)
    except OSError as error:
        raise NoAnswerError(str(error)) from error


def end_session(path: Path, clock: Clock, client_id: bytes, seconds: float, wakeup: Wakeup) -> None:
    """End a client's session: connect in its name with a clean one, and leave. Blocks. The arguments are
    `send_to_itself`'s.

    Raises:
        NoAnswerError: the broker has not accepted the connection.
    """
    try:
        with connect_unix(path, seconds) as connection:
            connection.sendall(_packet(0x10, _CLEAN + _text(client_id)))
            _await(connection, (_CONNACK,), clock, clock.monotonic() + seconds, wakeup)
            connection.sendall(_DISCONNECT)
    except OSError as error:
        raise NoAnswerError(str(error)) from error


def _await(connection: socket.socket, wanted: tuple[bytes, ...], clock: Clock, due: float, wakeup: Wakeup) -> None:
    """Read until all of these bytes have come."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    poll.register(wakeup, select.POLLIN)
    came = b""
    while not all(part in came for part in wanted):
        left = due - clock.monotonic()
        ready = dict(poll.poll(max(0.0, left) * 1000))
        if wakeup.fileno() in ready or not ready:
            raise NoAnswerError("stopped" if ready else "it does not answer in time")
        part = connection.recv(_MOST)
        came += part
        if not part or len(came) > _MOST:
            raise NoAnswerError("it ends the connection" if not part else "its answer is not MQTT")


def _packet(kind: int, body: bytes) -> bytes:
    return bytes((kind, *remaining_length(len(body)))) + body


def _text(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text
