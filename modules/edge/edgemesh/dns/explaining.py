"""The answer that a pod gets when it asks for a name, and its source (`edgecore resolve`)."""

import ipaddress
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol

from msgspec import Struct

from beehive.printable import printable
from modules.edge.edgemesh.dns.wire import CLASS_IN, Code, DnsAnswer, Question, Record, Type, name_data, target_of

NDOTS: Final = 5
"""Of pods' resolv.conf: a name with fewer dots is first looked for in the search list."""
TYPES: Final = ("A", "AAAA", "CNAME", "NS", "PTR", "SOA", "SRV", "TXT")
"""Types that can be asked for."""
ADDRESSES: Final = ("A", "AAAA")
MOST_RECORDS: Final = 200

_SRV: Final = struct.Struct("!HHH")


class AskedRecord(Struct, frozen=True):
    """A record of an answer."""

    name: str
    type: str
    ttl: int
    value: str


class AskedName(Struct, frozen=True, rename="camel"):
    """One query and its answer."""

    name: str
    type: str
    code: str
    """The response code, such as NXDOMAIN."""
    source: str
    """The source of the answer, in words."""
    records: tuple[AskedRecord, ...]


class Resolution(Struct, frozen=True, rename="camel"):
    """The queries for a name in the order of a pod's resolver; the last ones have the answer."""

    name: str
    addresses: tuple[str, ...]
    problem: str
    """Why pods cannot ask at all; empty when they can."""
    asked: tuple[AskedName, ...]


class Asker(Protocol):
    """A source of answers to questions; `DnsNames` implements it. Blocks."""

    @property
    def domain(self) -> str:
        """The cluster's domain."""

    def explained(self, question: Question) -> tuple[DnsAnswer, str]:
        """Return the answer, and a text that names its source."""


def explain(names: Asker, name: str, namespace: str, type_: str = "", problem: str = "") -> Resolution:
    """Ask for a name as a pod of a namespace does. Blocks.

    Args:
        names: answers.
        name: a name, with a dot at its end if it is whole, or an address.
        namespace: of the pod.
        type_: one of `TYPES`; empty for addresses, and for the name of an address.
        problem: why pods cannot ask.

    Raises:
        WireError: the name is malformed.
    """
    types = (type_,) if type_ else ("PTR",) if _reversed(name) else ADDRESSES
    asked: list[AskedName] = []
    for candidate in candidates(name, namespace, names.domain):
        these = [_asked(names, candidate, each) for each in types]
        asked += these
        if any(each.records or each.code not in (Code.NOERROR.name, Code.NXDOMAIN.name) for each in these):
            break
    found = [each.value for one in asked for each in one.records if each.type in ADDRESSES]
    return Resolution(name, tuple(dict.fromkeys(found)), problem, tuple(asked))


def candidates(name: str, namespace: str, domain: str) -> list[str]:
    """Return the names that a pod's resolver asks for, in this order (resolv.conf(5))."""
    if reverse := _reversed(name):
        return [reverse]
    if name.endswith("."):
        return [name[:-1]]
    searched = [f"{name}.{each}" for each in (f"{namespace}.svc.{domain}", f"svc.{domain}", domain)]
    return [name, *searched] if name.count(".") >= NDOTS else [*searched, name]


def _asked(names: Asker, name: str, type_: str) -> AskedName:
    number = Type[type_]
    raw = name_data(name) + struct.pack("!HH", number, CLASS_IN)
    answer, source = names.explained(Question(0, 0, raw, name.lower(), number, CLASS_IN))
    return AskedName(name, type_, answer.code.name, source, tuple(_shown(answer.answers[:MOST_RECORDS])))


def _shown(records: Sequence[Record]) -> Iterator[AskedRecord]:
    for each in records:
        known = Type(each.type).name if each.type in set(Type) else f"TYPE{each.type}"
        yield AskedRecord(printable(each.name), known, each.ttl, printable(_value(each)))


def _value(record: Record) -> str:
    """Return the data of a record as text; in hexadecimal digits if its type is unknown or its length wrong."""
    with suppress(ValueError, struct.error):
        match record.type:
            case Type.A | Type.AAAA:
                return str(ipaddress.ip_address(record.data))
            case Type.CNAME | Type.NS | Type.PTR | Type.SOA:
                return target_of(record)
            case Type.SRV:
                priority, weight, port = _SRV.unpack_from(record.data)
                return f"{priority} {weight} {port} {target_of(record._replace(data=record.data[_SRV.size :]))}"
            case Type.TXT:
                return "".join(_strings(record.data))
    return record.data.hex()


def _strings(data: bytes) -> Iterator[str]:
    """Yield the strings of a TXT record; a text of more than 255 bytes is in several."""
    at = 0
    while at < len(data):
        end = at + 1 + data[at]
        yield data[at + 1 : end].decode("latin-1")
        at = end


def _reversed(name: str) -> str:
    """Return the name under which the name of an address is asked for; empty for a text that is no address."""
    with suppress(ValueError):
        return ipaddress.ip_address(name).reverse_pointer
    return ""
