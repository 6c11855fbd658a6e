"""D-Bus messages as bytes: as much of the D-Bus specification's protocol 1 as a client of logind needs.

Types that a body may have: byte, boolean, uint32, uint64, string, object path, signature, file descriptor, and variants
of these. Others are refused. Pure.
"""

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

from msgspec import Struct

from edged.shutdown.errors import BusError

LARGEST: Final = 64 * 1024
"""Bytes of a message that are read; logind's are some hundred."""
FIXED: Final = 16
"""Bytes from which on the length of a message is known."""

_ORDERS: Final = {ord("l"): "<", ord("B"): ">"}
_NUMBERS: Final[Mapping[str, tuple[int, str]]] = {
    "y": (1, "B"), "b": (4, "I"), "u": (4, "I"), "h": (4, "I"), "t": (8, "Q"),
}  # fmt: skip
"""Alignment and form of what has a fixed length."""
_TEXTS: Final = frozenset("so")


class Kind(IntEnum):
    """What a message is."""

    CALL = 1
    RETURN = 2
    ERROR = 3
    SIGNAL = 4


class Field(IntEnum):
    """Header fields."""

    PATH = 1
    INTERFACE = 2
    MEMBER = 3
    ERROR_NAME = 4
    REPLY_SERIAL = 5
    DESTINATION = 6
    SENDER = 7
    SIGNATURE = 8
    UNIX_FDS = 9


_FIELD_TYPES: Final = {
    Field.PATH: "o", Field.REPLY_SERIAL: "u", Field.SIGNATURE: "g", Field.UNIX_FDS: "u",
}  # fmt: skip
"""Types of header fields; the others are strings."""


class Message(Struct, frozen=True):
    """One message."""

    kind: Kind
    serial: int
    fields: Mapping[int, Any]
    body: tuple[Any, ...] = ()

    def field(self, field: Field) -> Any:
        """A header field; None without it."""
        return self.fields.get(field)


def encode(message: Message) -> bytes:
    """A message in the order of bytes that most machines have."""
    body = _Writer()
    signature = str(message.field(Field.SIGNATURE) or "")
    for kind, value in zip(signature, message.body, strict=True):
        body.put(kind, value)
    fields = _Writer()
    for number, value in message.fields.items():
        fields.align(8)
        kind = _FIELD_TYPES.get(Field(number), "s")
        fields.put("y", int(number))
        fields.put("g", kind)
        fields.put(kind, value)
    head = struct.pack("<BBBBIII", ord("l"), message.kind, 0, 1, len(body.data), message.serial, len(fields.data))
    padding = -(len(head) + len(fields.data)) % 8
    return head + bytes(fields.data) + bytes(padding) + bytes(body.data)


def length(head: bytes) -> int:
    """Bytes of the message that begins so (`FIXED` of them). Raises BusError."""
    order = _ORDERS.get(head[0])
    if order is None or head[3] != 1:
        raise BusError("read a message of the bus", "its first bytes", "this is no D-Bus")
    body, _, fields = struct.unpack_from(f"{order}III", head, 4)
    size = FIXED + int(fields) + -(FIXED + int(fields)) % 8 + int(body)
    if size > LARGEST:
        raise BusError("read a message of the bus", f"it has {size} bytes", f"at most {LARGEST} are read")
    return size


def decode(raw: bytes) -> Message:
    """A whole message. One whose body has types that are not known here has none. Raises BusError."""
    order = _ORDERS[raw[0]]
    serial, size = struct.unpack_from(f"{order}II", raw, 8)
    try:
        reader = _Reader(raw, FIXED, order)
        fields: dict[int, Any] = {}
        while reader.at < FIXED + size:
            reader.align(8)
            number = reader.take("y")
            fields[number] = reader.take("v")
        reader.align(8)
        signature = str(fields.get(Field.SIGNATURE, ""))
        body = tuple(reader.take(kind) for kind in signature) if _is_known(signature) else ()
        return Message(Kind(raw[1]), int(serial), fields, body)
    except (struct.error, ValueError, IndexError, KeyError) as error:
        raise BusError("read a message of the bus", type(error).__name__) from error


def _is_known(signature: str) -> bool:
    return set(signature) <= {*_NUMBERS, *_TEXTS, "g", "v"}


class _Writer:
    """Bytes of a message that grows; both parts of one begin at a multiple of eight."""

    def __init__(self) -> None:
        self.data = bytearray()

    def align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)

    def put(self, kind: str, value: Any) -> None:
        if kind in _NUMBERS:
            size, form = _NUMBERS[kind]
            self.align(size)
            self.data += struct.pack(f"<{form}", int(value))
        elif kind == "g":
            text = str(value).encode()
            self.data += bytes([len(text)]) + text + b"\0"
        elif kind == "v":
            inner, of = value
            self.put("g", inner)
            self.put(inner, of)
        else:
            text = str(value).encode()
            self.align(4)
            self.data += struct.pack("<I", len(text)) + text + b"\0"


class _Reader:
    """Values of a message, one after the other."""

    def __init__(self, raw: bytes, at: int, order: str) -> None:
        self._raw = raw
        self.at = at
        self._order = order

    def align(self, size: int) -> None:
        self.at += -self.at % size

    def take(self, kind: str) -> Any:
        if kind in _NUMBERS:
            size, form = _NUMBERS[kind]
            self.align(size)
            (value,) = struct.unpack_from(f"{self._order}{form}", self._raw, self.at)
            self.at += size
            return bool(value) if kind == "b" else value
        if kind == "v":
            return self.take(self._single(self.take("g")))
        if kind == "g":
            return self._text(self._raw[self.at], 1)
        if kind not in _TEXTS:
            raise ValueError(kind)
        self.align(4)
        (size,) = struct.unpack_from(f"{self._order}I", self._raw, self.at)
        return self._text(size, 4)

    def _text(self, size: int, head: int) -> str:
        begin = self.at + head
        if begin + size >= len(self._raw):
            raise IndexError
        self.at = begin + size + 1
        return self._raw[begin : begin + size].decode()

    @staticmethod
    def _single(signature: str) -> str:
        if len(signature) != 1:
            raise ValueError(signature)
        return signature
