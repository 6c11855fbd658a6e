"""The wire format of DNS messages (RFC 1035, 6891), as far as this server needs it. Pure.

The question is copied as it came, so that its letters keep their case; names in answers that end in the question's name
point to it. A library would cost 8 MB and fifty times the processor time of a query.
"""

import ipaddress
import struct
from enum import IntEnum
from typing import Final, NamedTuple

HEADER: Final = struct.Struct("!HHHHHH")
"""Id, flags, counts of questions, answers, authorities, additionals."""
UDP_SIZE: Final = 512
"""Largest message over UDP to a client without EDNS."""
EDNS_SIZE: Final = 1232
"""Largest message over UDP to any client (DNS flag day 2020)."""
LARGEST: Final = 65535

CLASS_IN: Final = 1
OPT: Final = 41
_TAIL = struct.Struct("!HH")
_RECORD = struct.Struct("!HHIH")
_QR, _TC, _RD, _RA, _AA = 0x8000, 0x0200, 0x0100, 0x0080, 0x0400
_OPCODE: Final = 0x7800
_MOST_LABEL: Final = 63
_MOST_NAME: Final = 255
_POINTER: Final = 0xC0
_MOST_POINTERS: Final = 32
_MOST_STEPS: Final = 4096
"""Labels and pointers of a short message; a longer one has as many more as it has bytes."""
_QUESTION_POINTER: Final = b"\xc0\x0c"


class Type(IntEnum):
    """Types of records that the cluster's zone has or refuses."""

    A = 1
    NS = 2
    CNAME = 5
    SOA = 6
    PTR = 12
    HINFO = 13
    TXT = 16
    AAAA = 28
    SRV = 33
    IXFR = 251
    AXFR = 252
    ANY = 255


class Code(IntEnum):
    """Response codes."""

    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5
    BADVERS = 16


class WireError(ValueError):
    """A malformed message."""


class Question(NamedTuple):
    """A query of one name."""

    id: int
    flags: int
    raw: bytes
    """The question as it came."""
    name: str
    """In lower case, without the dot at the end."""
    type: int
    class_: int
    size: int = UDP_SIZE
    """Largest answer over UDP."""
    has_edns: bool = False
    edns_version: int = 0

    @property
    def opcode(self) -> int:
        """The operation; 0 is a query."""
        return (self.flags & _OPCODE) >> 11

    def room(self, *, udp: bool) -> int:
        """Return the size of the largest answer."""
        return self.size if udp else LARGEST


class Record(NamedTuple):
    """A resource record."""

    name: str
    type: int
    ttl: int
    data: bytes


class DnsAnswer(NamedTuple):
    """The records about a question, and the code."""

    code: Code
    answers: tuple[Record, ...] = ()
    authority: tuple[Record, ...] = ()
    additional: tuple[Record, ...] = ()
    is_ours: bool = True
    """Whether this server has authority for the name."""
    source: str = ""
    """Which other server has given it, in words; empty without one."""


class Parsed(NamedTuple):
    """A message from another server."""

    id: int
    flags: int
    question: bytes
    answers: tuple[Record, ...]
    authority: tuple[Record, ...]

    @property
    def is_response(self) -> bool:
        """Whether it answers something."""
        return bool(self.flags & _QR)

    @property
    def is_cut(self) -> bool:
        """Whether it was too long for UDP."""
        return bool(self.flags & _TC)

    @property
    def code(self) -> int:
        """The response code."""
        return self.flags & 0xF


def read_question(data: bytes) -> Question | Code | None:
    """Read a query. Return the code of a refusal where it is malformed, and None where no answer is due: it has no
    header, or it is itself an answer.
    """
    if len(data) < HEADER.size:
        return None
    number, flags, questions, answers, authorities, additionals = HEADER.unpack_from(data)
    if flags & _QR:
        return None
    if questions != 1 or answers or authorities:
        return Code.FORMERR
    try:
        name, end = _plain_name(data, HEADER.size)
        type_, class_ = _TAIL.unpack_from(data, end)
    except (WireError, struct.error):
        return Code.FORMERR
    end += _TAIL.size
    question = Question(number, flags, data[HEADER.size : end], name, type_, class_)
    return _with_edns(question, data, end) if additionals == 1 else question


def write(question: Question, answer: DnsAnswer, *, udp: bool) -> bytes:
    """Return the message that answers a question. A message that is too long has the records that fit, and the flag TC;
    additional records may be missing from any message.
    """
    flags = _QR | (question.flags & (_OPCODE | _RD)) | _RA | (_AA if answer.is_ours else 0) | (answer.code & 0xF)
    edns = _edns(answer.code) if question.has_edns else b""
    room = question.room(udp=udp) - HEADER.size - len(question.raw) - len(edns)
    parts, counts = list[bytes](), list[int]()
    for records in (answer.answers, answer.authority, answer.additional):
        part, fitting = _section(question, records, room)
        if fitting < len(records):
            if records is answer.additional:
                part, fitting = b"", 0
            else:
                flags, room = flags | _TC, len(part)
        parts.append(part)
        counts.append(fitting)
        room -= len(part)
    counts[2] += bool(edns)
    return HEADER.pack(question.id, flags, 1, *counts) + question.raw + b"".join(parts) + edns


def refusal(data: bytes, code: Code) -> bytes:
    """Return the answer to a query that cannot be read."""
    number, flags = struct.unpack_from("!HH", data)
    return HEADER.pack(number, _QR | (flags & (_OPCODE | _RD)) | code, 0, 0, 0, 0)


def query(number: int, raw: bytes) -> bytes:
    """Return a query with EDNS for another server."""
    return HEADER.pack(number, _RD, 1, 0, 0, 1) + raw + _edns(Code.NOERROR)


def read_message(data: bytes) -> Parsed:
    """Read the message of another server: its question, its answers and authorities.

    Raises:
        WireError: it is malformed, or has not exactly one question.
    """
    if len(data) < HEADER.size:
        raise WireError("no header")
    number, flags, questions, answers, authorities, _ = HEADER.unpack_from(data)
    if questions != 1:
        raise WireError("not one question")
    _, end = _plain_name(data, HEADER.size)
    end += _TAIL.size
    if end > len(data):
        raise WireError("the question is cut off")
    raw = data[HEADER.size : end]
    names = _Names(data)
    try:
        found, end = _records(names, end, answers)
        authority, _ = _records(names, end, authorities)
    except struct.error as error:
        raise WireError(str(error)) from error
    return Parsed(number, flags, raw, found, authority)


def name_data(name: str) -> bytes:
    """Return a name in the wire format, without compression.

    Raises:
        WireError: a label is empty or too long, or the name is.
    """
    if not name:
        return b"\0"
    parts = []
    for label in name.split("."):
        raw = label.encode("latin-1", "replace")
        if not 0 < len(raw) <= _MOST_LABEL:
            raise WireError(f"the label {label[:80]!r} is empty or too long")
        parts.append(bytes([len(raw)]) + raw)
    whole = b"".join(parts) + b"\0"
    if len(whole) > _MOST_NAME:
        raise WireError("the name is too long")
    return whole


def address_data(address: str) -> bytes:
    """Return an address as the data of an A or AAAA record."""
    return ipaddress.ip_address(address).packed


def srv_data(port: int, target: str) -> bytes:
    """Return the data of an SRV record, of the weight 100 as Kubernetes' names have."""
    return struct.pack("!HHH", 0, 100, port) + name_data(target)


def text_data(text: str) -> bytes:
    """Return the data of a TXT record of at most 255 bytes."""
    raw = text.encode()[:255]
    return bytes([len(raw)]) + raw


def soa_data(zone: str, serial: int, minimum: int) -> bytes:
    """Return the data of a zone's SOA record."""
    return (
        name_data(f"ns.dns.{zone}")
        + name_data(f"hostmaster.{zone}")
        + struct.pack("!IIIII", serial & 0xFFFFFFFF, 7200, 1800, 86400, minimum)
    )


def minimum_of(soa: Record) -> int:
    """Return for how many seconds the lack of a name may be remembered (RFC 2308)."""
    return min(soa.ttl, int.from_bytes(soa.data[-4:], "big")) if len(soa.data) >= 22 else 0


def target_of(record: Record) -> str:
    """Return the name in the data of an alias."""
    labels, at = [], 0
    while at < len(record.data) and record.data[at]:
        size = record.data[at]
        labels.append(record.data[at + 1 : at + 1 + size])
        at += size + 1
    return _text(labels)


def _with_edns(question: Question, data: bytes, at: int) -> Question | Code:
    try:
        if data[at]:
            return question  # an additional record of a name is not EDNS
        type_, size, ttl, length = _RECORD.unpack_from(data, at + 1)
    except (IndexError, struct.error):
        return Code.FORMERR
    if at + 1 + _RECORD.size + length > len(data):
        return Code.FORMERR
    if type_ != OPT:
        return question
    limit = max(UDP_SIZE, min(size, EDNS_SIZE))
    return question._replace(size=limit, has_edns=True, edns_version=(ttl >> 16) & 0xFF)


def _edns(code: int) -> bytes:
    return b"\0" + _RECORD.pack(OPT, EDNS_SIZE, (code >> 4) << 24, 0)


def _section(question: Question, records: tuple[Record, ...], room: int) -> tuple[bytes, int]:
    """Return the first records in the wire format, as many as there is room for, and their number."""
    parts = list[bytes]()
    for each in records:
        if each.name == question.name:
            owner = _QUESTION_POINTER
        elif question.name and each.name.endswith(f".{question.name}"):
            owner = name_data(each.name[: -len(question.name) - 1])[:-1] + _QUESTION_POINTER
        else:
            owner = name_data(each.name)
        part = owner + _RECORD.pack(each.type, CLASS_IN, each.ttl, len(each.data)) + each.data
        room -= len(part)
        if room < 0:
            break
        parts.append(part)
    return b"".join(parts), len(parts)


def _plain_name(data: bytes, at: int) -> tuple[str, int]:
    """Read a name without pointers; return it in lower case, and where it ends."""
    labels = []
    begin = at
    while True:
        if at >= len(data):
            raise WireError("a name is cut off")
        length = data[at]
        at += 1
        if not length:
            break
        if length > _MOST_LABEL or at + length > len(data):
            raise WireError("a label is too long")
        labels.append(data[at : at + length])
        at += length
    if at - begin > _MOST_NAME:
        raise WireError("a name is too long")
    return _text(labels), at


class _Names:
    """The names of a message, which may point to earlier ones.

    A name that several records point to is read once, and labels and pointers of all names are bounded, so that the
    cost of a message is in proportion to its length: 64 KiB have room for 5,000 records with names of 127 labels each.

    Args:
        data: the message.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._left = _MOST_STEPS + len(data)
        self._known: dict[int, str] = {}
        """Names that were pointed to, by where they begin."""
        self._written: dict[str, bytes] = {}

    def read(self, at: int) -> tuple[str, int]:
        """Read a name; return it in lower case, and where it ends.

        Raises:
            WireError: it is malformed, or the message has too many labels.
        """
        data, labels = self.data, list[bytes]()
        begin, end, jumps, size = at, 0, 0, 0
        while True:
            if at >= len(data):
                raise WireError("a name is cut off")
            self._left -= 1
            if self._left < 0:
                raise WireError("the names have too many labels")
            length = data[at]
            if length & _POINTER == _POINTER:
                if at + 2 > len(data):
                    raise WireError("a pointer is cut off")
                jumps += 1
                end = end or at + 2
                to = ((length & 0x3F) << 8) | data[at + 1]
                if jumps > _MOST_POINTERS or to >= at:
                    raise WireError("a pointer does not point back")
                if at == begin:
                    if to in self._known:
                        return self._known[to], end
                    begin = to
                at = to
                continue
            at += 1
            if not length:
                break
            size += length + 1
            if length > _MOST_LABEL or at + length > len(data) or size >= _MOST_NAME:
                raise WireError("a name is too long")
            labels.append(data[at : at + length])
            at += length
        name = self._known[begin] = _text(labels)
        return name, end or at

    def written(self, at: int) -> tuple[bytes, int]:
        """Read a name; return it in the wire format, without pointers, and where it ends. Raises WireError."""
        name, end = self.read(at)
        if name not in self._written:
            self._written[name] = name_data(name)
        return self._written[name], end


def _text(labels: list[bytes]) -> str:
    """Return a name as text. A dot inside a label would make two of it, so it becomes a character that no name has."""
    return ".".join(label.lower().decode("latin-1").replace(".", "\xff") for label in labels)


def _records(names: _Names, at: int, number: int) -> tuple[tuple[Record, ...], int]:
    data, found = names.data, []
    for _ in range(number):
        name, at = names.read(at)
        type_, class_, ttl, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if at + length > len(data):
            raise WireError("a record is cut off")
        if class_ == CLASS_IN:
            found.append(Record(name, type_, ttl if ttl < 1 << 31 else 0, _expanded(names, at, length, type_)))
        at += length
    return tuple(found), at


def _expanded(names: _Names, at: int, length: int, type_: int) -> bytes:
    """Return the data of a record with its names written out: pointers mean nothing in another message."""
    data, end = names.data, at + length
    if type_ in (Type.NS, Type.CNAME, Type.PTR):
        name, stop = names.written(at)
        _expect(stop, end)
        return name
    if type_ == Type.SOA:
        first, at = names.written(at)
        second, at = names.written(at)
        _expect(at + 20, end)
        return first + second + data[at:end]
    if type_ == 15:  # MX
        name, stop = names.written(at + 2)
        _expect(stop, end)
        return data[at : at + 2] + name
    if type_ == Type.SRV:
        name, stop = names.written(at + 6)
        _expect(stop, end)
        return data[at : at + 6] + name
    return data[at:end]


def _expect(stop: int, end: int) -> None:
    if stop != end:
        raise WireError("a record has another length than its data")
