"""Transactions of nftables in the family `bridge`, sent to the kernel without the program `nft`.

A process for each pod would take longer than the rest of the pod's network, and `nft` may be missing. Building
messages is pure. Numbers are from `linux/netfilter/nf_tables.h`.
"""

import errno
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Final

from beehive.on_failure import on_failure
from beehive.sockets.netlink import LARGEST, NetlinkMessage, attribute, attributes, message, messages

ACCEPT: Final = 1
DROP: Final = 0
GO_TO: Final = -4

LINK, NETWORK, TRANSPORT = 0, 1, 2
"""Headers that `payload` reads from."""
FIRST, SECOND, THIRD = 8, 12, 14
"""Registers of four bytes: of a name of an interface, a MAC behind it, and an address behind both."""
INTERFACE_NAME, FOURTH_LAYER = 6, 16
"""Keys of `meta`: the interface that a packet came in by, and the protocol of its fourth layer."""

_PROTOCOL: Final = 12
_NETLINK_CAP_ACK: Final = 10
_SUBSYSTEM: Final = 10
_BATCH_BEGIN, _BATCH_END = 16, 17
_NEW_TABLE, _DEL_TABLE = 0, 2
_NEW_CHAIN = 3
_NEW_RULE, _GET_RULE, _DEL_RULE = 6, 7, 8
_NEW_SET = 9
_NEW_ELEMENT, _GET_ELEMENT, _DEL_ELEMENT = 12, 13, 14
_REQUEST, _ACK, _DUMP, _CREATE, _APPEND = 0x1, 0x4, 0x300, 0x400, 0x800
_ERROR, _DONE = 2, 3
_FAMILY: Final = 7
_HEADER: Final = struct.Struct("!BBH")
"""`struct nfgenmsg`."""
_PREROUTING: Final = 0
_PRIORITY: Final = -300
"""Before all translation, and before the bridge learns where a MAC is."""
_ELEMENTS_OF_A_MESSAGE: Final = 256
_HOSTS_BYTE_ORDER: Final = struct.pack("=BBI", 0, 4, 1)
"""A note that makes `nft` print names."""
_SOL_NETLINK: Final = 270


def table(name: str) -> bytes:
    """Return the message that makes a table, unless there is one."""
    return _message(_NEW_TABLE, _text(1, name), flags=_CREATE)


def without_table(name: str) -> bytes:
    """Return the message that deletes a table with its chains and sets."""
    return _message(_DEL_TABLE, _text(1, name))


def base_chain(table_name: str, name: str) -> bytes:
    """Return the message that makes a chain, unless there is one, that packets enter as they come to a bridge."""
    hook = attribute(4, _number(1, _PREROUTING) + attribute(2, struct.pack("!i", _PRIORITY)), nested=True)
    return _message(_NEW_CHAIN, _text(1, table_name), _text(3, name), hook, _text(7, "filter"), flags=_CREATE)


def chain(table_name: str, name: str) -> bytes:
    """Return the message that makes a chain, unless there is one."""
    return _message(_NEW_CHAIN, _text(1, table_name), _text(3, name), flags=_CREATE)


def without_rules(table_name: str, chain_name: str) -> bytes:
    """Return the message that empties a chain."""
    return _message(_DEL_RULE, _text(1, table_name), _text(2, chain_name))


def rule(table_name: str, chain_name: str, *expressions: bytes) -> bytes:
    """Return the message that adds a rule at the end of a chain."""
    content = attribute(4, b"".join(expressions), nested=True)
    return _message(_NEW_RULE, _text(1, table_name), _text(2, chain_name), content, flags=_CREATE | _APPEND)


def key_set(table_name: str, name: str, kind: int, size: int, number: int) -> bytes:
    """Return the message that makes a set, unless there is one.

    Args:
        table_name: of its table.
        name: of the set.
        kind: the type of its elements as `nft` knows it, to print them.
        size: of an element in bytes.
        number: of the set within the transaction.
    """
    facts = (_number(4, kind), _number(5, size), _number(10, number), attribute(13, _HOSTS_BYTE_ORDER))
    return _message(_NEW_SET, _text(1, table_name), _text(2, name), *facts, flags=_CREATE)


def elements(table_name: str, set_name: str, keys: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the messages that add elements to a set, unless it has them."""
    return _elements(_NEW_ELEMENT, table_name, set_name, keys, _CREATE)


def without_elements(table_name: str, set_name: str, keys: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the messages that remove elements of a set, which must have them."""
    return _elements(_DEL_ELEMENT, table_name, set_name, keys, 0)


def meta(key: int) -> bytes:
    """Return the expression that loads a fact about a packet."""
    return _expression("meta", _number(1, FIRST), _number(2, key))


def payload(header: int, offset: int, size: int, register: int = FIRST) -> bytes:
    """Return the expression that loads bytes of a header. The rule does not match a packet that lacks them."""
    return _expression("payload", _number(1, register), _number(2, header), _number(3, offset), _number(4, size))


def equals(value: bytes) -> bytes:
    """Return the expression that goes on if the first register has this value."""
    return _expression("cmp", _number(1, FIRST), _number(2, 0), attribute(3, attribute(1, value), nested=True))


def is_in(set_name: str, *, inverted: bool = False) -> bytes:
    """Return the expression that goes on if the registers are an element of a set, or if they are not."""
    return _expression("lookup", _text(1, set_name), _number(2, FIRST), _number(5, int(inverted)))


def verdict(code: int, chain_name: str = "") -> bytes:
    """Return the expression that ends a rule: ACCEPT, DROP, or GO_TO a chain."""
    content = attribute(1, struct.pack("!i", code)) + (_text(2, chain_name) if chain_name else b"")
    data = attribute(2, attribute(2, content, nested=True), nested=True)
    return _expression("immediate", _number(1, 0), data)


def apply(transaction: Sequence[bytes]) -> None:
    """Apply messages, all or none, in the network namespace of the thread. Raises OSError with the kernel's reason."""
    generation = _HEADER.pack(0, 0, _SUBSYSTEM)
    whole = [message(_BATCH_BEGIN, _REQUEST, generation), *transaction, message(_BATCH_END, _REQUEST, generation)]
    with _open() as channel:
        channel.send(b"".join(whole))
        for each in _answers(channel):
            _check(each)


def number_of_rules(table_name: str) -> int:
    """Return how many rules a table has; none if it is missing. Raises OSError."""
    return sum(1 for _ in _dump(_GET_RULE, _text(1, table_name)))


def keys_of(table_name: str, set_name: str) -> set[bytes]:
    """Return the elements of a set; none if it is missing. Raises OSError."""
    found: set[bytes] = set()
    for each in _dump(_GET_ELEMENT, _text(1, table_name), _text(2, set_name)):
        content = attributes(each.body[_HEADER.size :]).get(3, b"")
        found.update(attributes(attributes(one).get(1, b"")).get(1, b"") for one in _list(content))
    return found


def _elements(kind: int, table_name: str, set_name: str, keys: Sequence[bytes], flags: int) -> Iterator[bytes]:
    for at in range(0, len(keys), _ELEMENTS_OF_A_MESSAGE):
        some = keys[at : at + _ELEMENTS_OF_A_MESSAGE]
        items = b"".join(attribute(1, attribute(1, attribute(1, key), nested=True), nested=True) for key in some)
        content = attribute(3, items, nested=True)
        yield _message(kind, _text(1, table_name), _text(2, set_name), content, flags=flags)


def _list(data: bytes) -> Iterator[bytes]:
    """Yield the values of attributes that all have the same type."""
    at = 0
    while at + 4 <= len(data):
        (length,) = struct.unpack_from("=H", data, at)
        if length < 4:
            return
        yield data[at + 4 : at + length]
        at += length + 3 & ~3


def _dump(kind: int, *parts: bytes) -> Iterator[NetlinkMessage]:
    with _open() as channel:
        channel.send(_message(kind, *parts, flags=_DUMP))
        try:
            for each in _answers(channel):
                _check(each)
                if each.type != _DONE:
                    yield each
        except FileNotFoundError:
            return


def _answers(channel: socket.socket) -> Iterator[NetlinkMessage]:
    """Yield the kernel's answers. The kernel answers before `send` returns, and goes on as its answers are read."""
    while True:
        try:
            data = channel.recv(LARGEST)
        except BlockingIOError:
            return
        yield from messages(data)


def _check(answer: NetlinkMessage) -> None:
    if answer.type == _ERROR:
        code = -struct.unpack_from("=i", answer.body)[0]
        if code:
            raise OSError(code, errno.errorcode.get(code, str(code)))


def _open() -> socket.socket:
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    channel = socket.socket(socket.AF_NETLINK, kind, _PROTOCOL)
    with on_failure(channel.close):
        channel.setsockopt(_SOL_NETLINK, _NETLINK_CAP_ACK, 1)
    return channel


def _message(kind: int, *parts: bytes, flags: int = 0) -> bytes:
    body = _HEADER.pack(_FAMILY, 0, 0) + b"".join(parts)
    return message(_SUBSYSTEM << 8 | kind, _REQUEST | flags, body)


def _expression(name: str, *parts: bytes) -> bytes:
    content = _text(1, name) + attribute(2, b"".join(parts), nested=True)
    return attribute(1, content, nested=True)


def _text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("!I", value))
