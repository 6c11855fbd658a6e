"""The watch over the kernel's tables: a reload of a firewall with `flush ruleset` deletes all tables."""

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final, Protocol

from beehive.sockets.netlink import NetlinkListener, NetlinkMessage, attributes, messages
from modules.edge.edgemesh.nft.ruleset import TABLE, is_temporary

_NETLINK_NETFILTER: Final = 12
_GROUP: Final = 1 << 6
"""NFNLGRP_NFTABLES (7): each change of nftables rules, with who made it."""
_SUBSYSTEM: Final = 10 << 8
_DEL_TABLE, _DEL_CHAIN, _NEW_GENERATION = _SUBSYSTEM | 2, _SUBSYSTEM | 5, _SUBSYSTEM | 15
_TABLE_NAME, _CHAIN_TABLE, _CHAIN_NAME = 1, 1, 3
_FAMILY_HEADER: Final = 4
_BUFFER: Final = 4 * 1024 * 1024


class Loss(Enum):
    """A deletion, as far as it is known."""

    CERTAIN = auto()
    POSSIBLE = auto()
    """The kernel had more to report than it could."""


class RulesWatch(Protocol):
    """A watch that reports that rules of ours were deleted; `NftWatch` implements it."""

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
    """The transactions that delete rules of ours. The kernel reports one in several datagrams, and ends each with the
    number of the new generation (`nf_tables_commit` in `net/netfilter/nf_tables_api.c`).
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
        self._kernel = NetlinkListener(_NETLINK_NETFILTER, _GROUP, _BUFFER)
        self._deletions = Deletions()

    def run(self, lost: Callable[[Loss], None]) -> None:
        """See `RulesWatch`. Called once."""
        self._kernel.listen(lambda: self._read(lost))

    def close(self) -> None:
        """See `RulesWatch`."""
        self._kernel.close()

    def _read(self, lost: Callable[[Loss], None]) -> None:
        data = self._kernel.read()
        if data is None:
            self._deletions = Deletions()
            lost(Loss.POSSIBLE)
        elif self._deletions.end_with(messages(data)):
            lost(Loss.CERTAIN)


def _text(value: bytes | None) -> str:
    return (value or b"").rstrip(b"\0").decode(errors="replace")
