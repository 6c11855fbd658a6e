"""The packets of MQTT 3.1.1 that pass a thousand times a second: PUBLISH with QoS 0 or 1, and its PUBACK. Pure.

paho-mqtt reads and writes all others. Section numbers are from the OASIS standard.
"""

from typing import Final, NamedTuple

from modules.apimachinery.device_topics import LONGEST_TOPIC
from modules.edge.eventbus.routing import MAX_PAYLOAD

PUBLISH: Final = 0x30
PUBACK: Final = 0x40
KIND: Final = 0xF0
"""The bits of a packet's first byte that have its type (§2.2.1)."""

QOS_2: Final = 0x04
"""Set in the first byte of a PUBLISH of QoS 2 (§3.3.1)."""

_QOS_1: Final = 0x02
_RETAIN: Final = 0x01
_LENGTH_BYTES: Final = 4
"""Bytes of a remaining length at most (§2.2.3)."""
_MORE: Final = 0x80
_SEVEN: Final = 0x7F
"""Bits of a remaining length in each of its bytes; the eighth is set if there are more."""
_PUBACK_HEAD: Final = bytes((PUBACK, 2))
_MOST_MESSAGE: Final = MAX_PAYLOAD + LONGEST_TOPIC + 4
"""Bytes of the body of a message that may be taken: a larger one has too long a topic or too large a payload."""
_MOST_OTHER: Final = 16 * 1024
"""Bytes of the body of any other packet: the longest answers a thousand subscriptions, a byte for each."""


class MalformedPacketError(ValueError):
    """The broker has sent an invalid packet of MQTT, or a packet that only clients send."""


class Received(NamedTuple):
    """A message of an application."""

    topic: str
    """Empty if it was no UTF-8."""
    payload: bytes
    qos: int
    mid: int
    """The broker's number of it; 0 with QoS 0."""
    retained: bool
    left_out: int = 0
    """Bytes of a payload that was too large to be kept; `payload` is then empty."""

    @property
    def size(self) -> int:
        """Bytes of the payload, as it was sent."""
        return len(self.payload) + self.left_out


class Shortened(NamedTuple):
    """A message that is too large, without its payload."""

    packet: bytes
    """The PUBLISH with its topic and its number only."""
    left_out: int
    """Bytes of the payload."""


def body_of(data: bytearray, at: int) -> tuple[int, int] | None:
    """Return where the body of the packet at `at` begins, and where it will end; None while its length has not come.

    Raises:
        MalformedPacketError: its length has more than four bytes, or is longer than such a packet can be.
    """
    length = shift = 0
    for place in range(at + 1, min(at + 1 + _LENGTH_BYTES, len(data))):
        byte = data[place]
        length |= (byte & _SEVEN) << shift
        if byte < _MORE:
            if length > _MOST_OTHER and data[at] & KIND != PUBLISH:
                hint = "check that a broker of MQTT answers there"
                raise MalformedPacketError(f"it announces a packet of {length} bytes that is no message; {hint}")
            return place + 1, place + 1 + length
        shift += 7
    if len(data) - at > _LENGTH_BYTES:
        raise MalformedPacketError("the broker has sent a packet without a length")
    return None


def is_too_large(first: int, begin: int, end: int) -> bool:
    """Return whether the body of a packet holds a message that is not taken."""
    return first & KIND == PUBLISH and end - begin > _MOST_MESSAGE


def shortened(data: bytearray, at: int, begin: int, end: int) -> Shortened | None:
    """Return the message at `at` without its payload; None while its topic and its number have not come.

    Raises:
        MalformedPacketError: the body is shorter than its topic's length.
    """
    if len(data) < begin + 2:
        return None
    payload = begin + 2 + int.from_bytes(data[begin : begin + 2], "big") + (2 if data[at] & (_QOS_1 | QOS_2) else 0)
    if payload > end:
        raise MalformedPacketError("the broker has sent a message that is cut off")
    if len(data) < payload:
        return None
    return Shortened(bytes((data[at], *remaining_length(payload - begin), *data[begin:payload])), end - payload)


def read_publish(data: bytearray, first: int, begin: int, end: int) -> Received:
    """Return the message in a PUBLISH of QoS 0 or 1 (§3.3): its first byte, and where its body begins and ends.

    Raises:
        MalformedPacketError: the body is shorter than its topic's length.
    """
    qos = 1 if first & _QOS_1 else 0
    at = begin + 2
    payload = at + int.from_bytes(data[begin:at], "big") + 2 * qos
    if payload > end:
        raise MalformedPacketError("the broker has sent a message that is cut off")
    name = data[at : payload - 2 * qos]
    mid = int.from_bytes(data[payload - 2 : payload], "big") if qos else 0
    try:
        topic = name.decode()
    except UnicodeDecodeError:
        topic = ""
    return Received(topic, bytes(data[payload:end]), qos, mid, bool(first & _RETAIN))


def publish(topic: str, payload: bytes, mid: int, *, qos: int, retain: bool) -> bytes:
    """Return a PUBLISH of QoS 0 or 1; `mid` is its number, which QoS 0 does not have."""
    name = topic.encode()
    number = mid.to_bytes(2, "big") if qos else b""
    first = PUBLISH | (_QOS_1 if qos else 0) | (_RETAIN if retain else 0)
    head = bytes((first, *remaining_length(2 + len(name) + len(number) + len(payload))))
    return b"".join((head, len(name).to_bytes(2, "big"), name, number, payload))


def puback(mid: int) -> bytes:
    """Return the acknowledgement of a message of QoS 1 (§3.4)."""
    return _PUBACK_HEAD + mid.to_bytes(2, "big")


def remaining_length(left: int) -> bytearray:
    """Return a remaining length as it is written (§2.2.3)."""
    written = bytearray()
    while left >= _MORE:
        written.append(left & _SEVEN | _MORE)
        left >>= 7
    written.append(left)
    return written
