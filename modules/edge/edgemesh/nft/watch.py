"""The watch over the kernel's tables: whoever reloads a firewall with `flush ruleset` deletes those of others too."""

import errno
import os
import select
import socket
import threading
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final, Protocol

from beehive import Actor
from modules.edge.edgemesh.netlink import NetlinkMessage, attributes, messages
from modules.edge.edgemesh.nft.ruleset import TABLE, is_temporary

_NETLINK_NETFILTER: Final = 12
_GROUP: Final = 7
"""NFNLGRP_NFTABLES: each change of nftables rules, with who made it."""
_SOL_NETLINK, _ADD_MEMBERSHIP = 270, 1
_SUBSYSTEM: Final = 10 << 8
_DEL_TABLE, _DEL_CHAIN, _NEW_GENERATION = _SUBSYSTEM | 2, _SUBSYSTEM | 5, _SUBSYSTEM | 15
_TABLE_NAME, _CHAIN_TABLE, _CHAIN_NAME = 1, 1, 3
_FAMILY_HEADER: Final = 4
_BUFFER: Final = 4 * 1024 * 1024
_LARGEST: Final = 256 * 1024


class Loss(Enum):
    """What is known of a deletion."""

    CERTAIN = auto()
    POSSIBLE = auto()
    """The kernel had more to report than it could."""


class RulesWatch(Protocol):
    """Reports that rules of ours were deleted; `NftWatch` implements it."""

    def run(self, lost: Callable[[Loss], None]) -> None:
        """Call `lost` once after each transaction that deletes rules, until `close`. Blocks; raises OSError."""

    def close(self) -> None:
        """End `run`; any thread, idempotent."""


def deletes_ours(news: NetlinkMessage) -> bool:
    """Return whether a message is about the deletion of our table, or of a chain of it that this agent never deletes.
    Pure.
    """
    if news.type not in (_DEL_TABLE, _DEL_CHAIN):
        return False
    found = attributes(news.body[_FAMILY_HEADER:])
    if _text(found.get(_TABLE_NAME if news.type == _DEL_TABLE else _CHAIN_TABLE)) != TABLE:
        return False
    return news.type == _DEL_TABLE or not is_temporary(_text(found.get(_CHAIN_NAME)))


class Deletions:
    """Finds the transactions that delete rules of ours. The kernel reports one in several datagrams, and ends each with
    the number of the new generation (`nf_tables_commit` in `net/netfilter/nf_tables_api.c`).
    """

    def __init__(self) -> None:
        self._is_ours = False

    def end_with(self, news: Iterable[NetlinkMessage]) -> bool:
        """Take the messages of a datagram; return whether such a transaction ends in it."""
        has_ended = False
        for each in news:
            if each.type == _NEW_GENERATION:
                has_ended, self._is_ours = has_ended or self._is_ours, False
            elif deletes_ours(each):
                self._is_ours = True
        return has_ended


class NftWatch:
    """A `RulesWatch` on a netlink socket, in the network namespace of the thread that makes it.

    Raises:
        OSError: this user may not watch the rules.
    """

    def __init__(self) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, kind, _NETLINK_NETFILTER)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            self._socket.bind((0, 0))
            self._socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, _GROUP)
            self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError:
            self._socket.close()
            raise
        self._lock = threading.Lock()
        self._stopping = self._closed = False
        self._deletions = Deletions()

    def run(self, lost: Callable[[Loss], None]) -> None:
        """See `RulesWatch`. Called once; it closes the socket."""
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        poll.register(self._socket, select.POLLIN)
        try:
            while not self._stopping:
                poll.poll()
                if not self._stopping:
                    self._read(lost)
        finally:
            with self._lock:
                self._closed = True
                os.close(self._bell)
                self._socket.close()

    def close(self) -> None:
        """See `RulesWatch`."""
        self._stopping = True
        with self._lock:
            if not self._closed:
                os.eventfd_write(self._bell, 1)

    def _read(self, lost: Callable[[Loss], None]) -> None:
        try:
            data = self._socket.recv(_LARGEST)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            self._deletions = Deletions()
            lost(Loss.POSSIBLE)
            return
        if self._deletions.end_with(messages(data)):
            lost(Loss.CERTAIN)


class RulesWatcher(Actor):
    """Runs the watch that it receives until its end; close the watch before stopping the actor.

    Args:
        lost: called after each deletion; does not block.
        failed: called with the reason when the watch fails.
    """

    def __init__(self, lost: Callable[[Loss], None], failed: Callable[[str], None]) -> None:
        super().__init__()
        self._lost = lost
        self._report_failure = failed

    def on_receive(self, message: RulesWatch) -> None:
        """Watch until the end."""
        try:
            message.run(self._lost)
        except OSError as error:
            self._report_failure(str(error))


def _text(value: bytes | None) -> str:
    return (value or b"").rstrip(b"\0").decode(errors="replace")
