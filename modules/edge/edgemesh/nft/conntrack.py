"""Tracked UDP flows whose endpoint is gone. The kernel would send a client's packets there for as long as it sends
(ctnetlink, `linux/netfilter/nfnetlink_conntrack.h`).
"""

import ipaddress
import socket
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from beehive.sockets.netlink import attribute, attributes, message, messages
from modules.edge.edgemesh.tables import Address, PortTable

UDP: Final = 17

_NETLINK_NETFILTER: Final = 12
_SUBSYSTEM: Final = 1 << 8
_GET, _DELETE = _SUBSYSTEM | 1, _SUBSYSTEM | 2
_REQUEST, _ACK, _DUMP = 1, 4, 0x300
_DONE, _ERROR = 3, 2
_TUPLE_ORIGINAL, _TUPLE_REPLY = 1, 2
_TUPLE_IP, _TUPLE_PROTO = 1, 2
_SOURCE, _DESTINATION = {4: 1, 6: 3}, {4: 2, 6: 4}
_NUMBER, _SOURCE_PORT, _DESTINATION_PORT = 1, 2, 3
_VERSIONS: Final[dict[int, int]] = {socket.AF_INET: 4, socket.AF_INET6: 6}
_FAMILY = struct.Struct("=BBH")
_PORT = struct.Struct("!H")
_LARGEST: Final = 64 * 1024
_SECONDS: Final = 10.0
_MOST_FLOWS: Final = 1_000_000


class Flow(NamedTuple):
    """A tracked flow."""

    protocol: int
    to: Address
    """Where the client sends."""
    answers: Address
    """Who answers: the endpoint, or `to` where nothing was translated."""
    original: bytes
    """The tuple of the client's direction, as the kernel wrote it."""
    family: int


def is_stale(flow: Flow, serving: Mapping[Address, frozenset[Address]]) -> bool:
    """Return whether a flow goes to a Service's address but not to its endpoints. Pure.

    Args:
        flow: of any protocol.
        serving: the endpoints that serve, by the addresses of Services whose endpoints have changed.
    """
    ends = serving.get(flow.to)
    return flow.protocol == UDP and ends is not None and flow.answers not in ends


def changed_udp(
    before: Mapping[str, PortTable],
    after: Mapping[str, PortTable],
    own: Iterable[str] = (),
    stale: Collection[Address] = (),
) -> dict[Address, frozenset[Address]]:
    """Return for each address of a UDP Service whose flows may be stale the endpoints that still serve. Pure.

    It has addresses that lost an endpoint, that have got their first one, and that are gone.

    Args:
        before: the tables until now.
        after: the tables from now on.
        own: addresses of the node, for its node ports.
        stale: addresses whose flows may be stale already.
    """
    gone: dict[Address, frozenset[Address]] = {}
    found: dict[Address, frozenset[Address]] = {}
    nodes = tuple(own)
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if new is old or "udp" not in {each.protocol for each in (old, new) if each is not None}:
            continue
        known = frozenset(_addresses(old, nodes)) if old is not None else frozenset[Address]()
        present = frozenset(_addresses(new, nodes)) if new is not None else frozenset[Address]()
        gone.update(dict.fromkeys(known - present, frozenset()))
        if new is not None:
            has_lost = old is not None and bool(old.serving - new.serving or not old.serving)
            wanted = present if has_lost else (present - known) | (present & frozenset(stale))
            found.update(dict.fromkeys(wanted, new.serving))
    return {**gone, **found}


def delete_stale(serving: Mapping[Address, frozenset[Address]]) -> int:
    """Delete the flows that are stale; return their number. Blocks.

    Raises:
        OSError: this user may not, or the kernel tracks no connections.
    """
    deleted = 0
    for family in (socket.AF_INET, socket.AF_INET6):
        version = 4 if family == socket.AF_INET else 6
        wanted = {each: ends for each, ends in serving.items() if (":" in each[0]) == (version == 6)}
        if not wanted:
            continue
        for flow in [each for each in _flows(family) if is_stale(each, wanted)]:
            deleted += _delete(flow)
    return deleted


def flow_of(body: bytes) -> Flow | None:
    """Return the flow of a message, or None if it cannot be read. Pure."""
    found = attributes(body[_FAMILY.size :])
    original, reply = found.get(_TUPLE_ORIGINAL, b""), found.get(_TUPLE_REPLY, b"")
    family = body[0] if body else 0
    version = _VERSIONS.get(family)
    if version is None:
        return None
    to = _end(original, _DESTINATION[version], _DESTINATION_PORT)
    answers = _end(reply, _SOURCE[version], _SOURCE_PORT)
    protocol = attributes(attributes(original).get(_TUPLE_PROTO, b"")).get(_NUMBER, b"")
    if to is None or answers is None or len(protocol) != 1:
        return None
    return Flow(protocol[0], to, answers, original, family)


def _end(tuple_: bytes, address: int, port: int) -> Address | None:
    parts = attributes(tuple_)
    raw = attributes(parts.get(_TUPLE_IP, b"")).get(address, b"")
    number = attributes(parts.get(_TUPLE_PROTO, b"")).get(port, b"")
    if len(raw) not in (4, 16) or len(number) != _PORT.size:
        return None
    return str(ipaddress.ip_address(raw)), _PORT.unpack(number)[0]


def _flows(family: int) -> Iterator[Flow]:
    with _open() as channel:
        channel.send(message(_GET, _REQUEST | _DUMP, _FAMILY.pack(family, 0, 0)))
        for _ in range(_MOST_FLOWS):
            for each in messages(channel.recv(_LARGEST)):
                if each.type == _DONE:
                    return
                if each.type == _ERROR:
                    _check(each.body)
                    return
                if (flow := flow_of(each.body)) is not None:
                    yield flow


def _delete(flow: Flow) -> bool:
    body = _FAMILY.pack(flow.family, 0, 0) + attribute(_TUPLE_ORIGINAL, flow.original, nested=True)
    with _open() as channel:
        channel.send(message(_DELETE, _REQUEST | _ACK, body))
        answer = next(messages(channel.recv(_LARGEST)), None)
    return answer is not None and answer.type == _ERROR and not any(answer.body[:4])


def _open() -> socket.socket:
    channel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)
    channel.settimeout(_SECONDS)
    channel.bind((0, 0))
    return channel


def _check(body: bytes) -> None:
    code = -struct.unpack_from("=i", body)[0] if len(body) >= struct.calcsize("=i") else 0
    if code:
        raise OSError(code, "the tracked connections cannot be read")


def _addresses(port: PortTable, nodes: tuple[str, ...]) -> Iterator[Address]:
    for address in (*port.addresses, *port.external):
        yield address, port.port
    if port.node_port:
        for address in nodes:
            if (":" in address) == port.is_ipv6:
                yield address, port.node_port
