"""Subject and validity of an X.509 certificate as values and as text, and a parser of DER (X.690) for them. Pure; TLS
does the verification.

The agent reads its certificate at least every hour, and so needs no cryptographic library for it.
"""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

SEQUENCE: Final = 0x30
UTC_TIME: Final = 0x17
GENERALIZED_TIME: Final = 0x18


class Element(msgspec.Struct, frozen=True):
    """One DER value."""

    tag: int
    body: bytes


def elements(data: bytes) -> Iterator[Element]:
    """Yield consecutive values.

    Raises:
        ValueError: the data is not DER.
    """
    at = 0
    while at < len(data):
        element, at = _element(data, at)
        yield element


def only(data: bytes, tag: int) -> bytes:
    """Return the body of the first value; raise ValueError if it has another tag."""
    element, _ = _element(data, 0)
    if element.tag != tag:
        raise ValueError(f"tag {element.tag:#x} in place of {tag:#x}")
    return element.body


def _element(data: bytes, at: int) -> tuple[Element, int]:
    if len(data) < at + 2:
        raise ValueError("ends in the middle of a value")
    tag, length, start = data[at], data[at + 1], at + 2
    if tag & 0x1F == 0x1F:
        raise ValueError("a tag of several bytes")
    if length & 0x80:
        size = length & 0x7F
        if not size or len(data) < start + size:
            raise ValueError("an impossible length")
        length, start = int.from_bytes(data[start : start + size], "big"), start + size
    if len(data) < start + length:
        raise ValueError("ends in the middle of a value")
    return Element(tag, data[start : start + length]), start + length


_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_END: Final = b"-----END CERTIFICATE-----"
_ORGANISATION: Final = bytes.fromhex("55040a")
_COMMON_NAME: Final = bytes.fromhex("550403")
_VERSION: Final = 0xA0
_FORMATS: Final = {UTC_TIME: "%y%m%d%H%M%SZ", GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}


class Certificate(NamedTuple):
    """Fields of an X.509 certificate (RFC 5280). Times are Unix times."""

    common_name: str
    organisation: str
    issuer: str
    """Common name of the CA."""

    not_before: float
    not_after: float

    @classmethod
    def from_der(cls, data: bytes) -> "Certificate":
        """Parse a certificate.

        Raises:
            ValueError: the data is no certificate.
        """
        fields = list(elements(only(only(data, SEQUENCE), SEQUENCE)))
        if fields and fields[0].tag == _VERSION:
            del fields[0]
        if len(fields) < 6:
            raise ValueError("fields are missing")
        subject = _names(fields[4].body)
        not_before, not_after = (_time(element) for element in list(elements(fields[3].body))[:2])
        issuer = _names(fields[2].body).get(_COMMON_NAME, "")
        return cls(subject.get(_COMMON_NAME, ""), subject.get(_ORGANISATION, ""), issuer, not_before, not_after)

    @classmethod
    def from_pem(cls, text: bytes) -> "Certificate":
        """Parse the first certificate of a PEM file; raise ValueError without one."""
        blocks = pem_blocks(text)
        if not blocks:
            raise ValueError("no certificate in it")
        return cls.from_der(blocks[0])


def pem_blocks(text: bytes) -> list[bytes]:
    """Return all certificates of a PEM file as DER; raise ValueError if one cannot be decoded."""
    return [base64.b64decode(body) for body in _bodies(text)]


def _bodies(text: bytes) -> Iterator[bytes]:
    """Yield the texts between the BEGIN and END lines, in one pass over the file."""
    at, end = 0, -1
    while (begin := text.find(_BEGIN, at)) >= 0:
        at = begin + len(_BEGIN)
        if end < at:
            end = text.find(_END, at)
        if end < 0:
            return
        if text[at : at + 1].isspace() and end > at + 1:
            yield text[at + 1 : end]
            at = end + len(_END)


def _names(body: bytes) -> dict[bytes, str]:
    """Return the parts of a distinguished name by object identifier."""
    names = {}
    for group in elements(body):
        kind, value = list(elements(only(group.body, SEQUENCE)))[:2]
        names[kind.body] = value.body.decode("utf-8", "replace")
    return names


def _time(element: Element) -> float:
    """Parse a time. Two-digit years below 50 are in this century (RFC 5280 §4.1.2.5)."""
    if element.tag not in _FORMATS:
        raise ValueError("no time where one is expected")
    moment = datetime.strptime(element.body.decode("ascii"), _FORMATS[element.tag]).replace(tzinfo=UTC)
    if element.tag == UTC_TIME and moment.year >= 2050:
        moment = moment.replace(year=moment.year - 100)
    return moment.timestamp()


_FIRST, _LAST = 0.0, 253402300799.0


def format_time(seconds: float) -> str:
    """Format a Unix time as `2026-11-20 01:54:27 UTC`."""
    return datetime.fromtimestamp(min(max(seconds, _FIRST), _LAST), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def format_duration(seconds: float) -> str:
    """Format a duration in seconds roughly: `3 days`, `2 hours`, `40 s`."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
