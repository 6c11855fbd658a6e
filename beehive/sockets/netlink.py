"""Netlink (netlink(7)): messages and attributes, and a socket for the kernel's notifications.

Parsing is pure; it skips truncated messages and wrong lengths.
"""

import errno
import select
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from beehive.on_failure import on_failure
from beehive.wakeup import Wakeup

HEADER: Final = struct.Struct("=IHHII")
"""Length, type, flags, number, port."""
_ATTRIBUTE: Final = struct.Struct("=HH")
_KIND_MASK: Final = 0x3FFF
_NESTED: Final = 0x8000

LARGEST: Final = 64 * 1024
"""Bytes read of a datagram; the kernel's have at most 32 KiB. For 128 KiB each read would map and unmap memory."""


class NetlinkMessage(msgspec.Struct, frozen=True):
    """A message of a datagram."""

    type: int
    body: bytes


def messages(data: bytes) -> Iterator[NetlinkMessage]:
    """Yield the messages of a datagram."""
    at = 0
    while at + HEADER.size <= len(data):
        length, kind, _, _, _ = HEADER.unpack_from(data, at)
        if length < HEADER.size or at + length > len(data):
            return
        yield NetlinkMessage(kind, data[at + HEADER.size : at + length])
        at += _aligned(length)


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes by their type."""
    found: dict[int, bytes] = {}
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size or at + length > len(data):
            break
        found[kind & _KIND_MASK] = data[at + _ATTRIBUTE.size : at + length]
        at += _aligned(length)
    return found


def message(kind: int, flags: int, body: bytes) -> bytes:
    """Return a message."""
    return HEADER.pack(HEADER.size + len(body), kind, flags, 1, 0) + body


def attribute(kind: int, value: bytes, *, nested: bool = False) -> bytes:
    """Return an attribute, padded."""
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind | (_NESTED if nested else 0)) + value + b"\0" * (_aligned(length) - length)


class NetlinkListener:
    """A socket for the kernel's notifications, in the network namespace of the thread that makes it. One thread reads.

    It waits in `poll`, not for the clock: a simulation cannot replay it.

    Args:
        protocol: such as NETLINK_ROUTE.
        groups: bits of the multicast groups.
        buffer: size of the receive buffer in bytes; None for the system's.

    Raises:
        OSError: the system has no such socket, as in some sandboxes, or this user may not listen.
    """

    def __init__(self, protocol: int, groups: int, buffer: int | None = None) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, kind, protocol)
        with on_failure(self._socket.close):
            if buffer is not None:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            self._socket.bind((0, groups))
            self._wakeup = Wakeup()
        self._stopping = False

    def listen(self, readable: Callable[[], None]) -> None:
        """Call `readable` whenever a notification can be read, until `close`; then close the socket. Called once.

        Raises:
            OSError: the socket failed.
        """
        try:
            while not self._stopping:
                self._poll(self._wakeup, self._socket)
                if not self._stopping:
                    readable()
        finally:
            self._wakeup.close()
            self._socket.close()

    def close(self) -> None:
        """End `listen`; any thread, idempotent."""
        self._stopping = True
        self._wakeup.wake()

    def pause(self, seconds: float) -> bool:
        """Wait, until `close` at most; return whether the socket still listens. On the thread that reads."""
        self._poll(self._wakeup, seconds=seconds)
        return not self._stopping

    def has_more(self) -> bool:
        """Return whether a notification can be read now. On the thread that reads."""
        return self._poll(self._socket, seconds=0) and not self._stopping

    def read(self) -> bytes | None:
        """Return the next datagram, empty if there is none, or None if the kernel had more to report than it could.

        Raises:
            OSError: the socket failed.
        """
        try:
            return self._socket.recv(LARGEST)
        except BlockingIOError:
            return b""
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            return None

    @staticmethod
    def _poll(*watched: Wakeup | socket.socket, seconds: float | None = None) -> bool:
        poll = select.poll()
        for each in watched:
            poll.register(each, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))


def _aligned(length: int) -> int:
    return (length + 3) & ~3
