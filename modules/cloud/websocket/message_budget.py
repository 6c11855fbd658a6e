"""The bytes of received messages that a server keeps for all of its connections."""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

T = TypeVar("T")

FREE_BYTES: Final = 64 * 1024
"""Bytes of each connection that are not counted: small messages never wait for large ones."""
MOST_BYTES: Final = 128 * 1024 * 1024
"""Counted bytes of all connections."""
FINISHING_SECONDS: Final = 30.0
"""Age of an unfinished message that may be ended in favour of connections that are not read."""
_JUMP: Final = 64 * 1024
"""More than the bytes of one read: only a compressed message adds as many in one step."""


class MessageBudget(Generic[T]):
    """The bytes of messages, unfinished or waiting for delivery, that the connections of a server may keep in memory.

    A connection may grow while it keeps fewer bytes than are left (dynamic thresholds, Choudhury and Hahne 1998): many
    connections with large messages get small equal shares, and leave as much for another. The oldest unfinished message
    may always grow, so there is no deadlock. While a connection is stopped and more than half of the budget is used,
    unfinished messages have a deadline, which also counts while their own connections are stopped: the
    messages that used up the budget together end together, and later ones go on.

    Every operation but `resumable` and `overdue` takes constant time. For one thread.

    Args:
        most: counted bytes of all connections.
        free: bytes of each connection that are not counted.
        seconds: to finish a message.
    """

    def __init__(self, most: int = MOST_BYTES, free: int = FREE_BYTES, seconds: float = FINISHING_SECONDS) -> None:
        self._most = most
        self._free = free
        self._seconds = seconds
        self._kept: dict[T, int] = {}
        self._bytes = 0
        self.unfinished: dict[T, float] = {}
        """The connections with a large unfinished message, the oldest first, and when it became large."""
        self._stopped: dict[T, None] = {}
        """The connections that are not read."""
        self._has_shrunk = False
        self.members: set[T] = set()
        """Connections that have counted bytes, or a large unfinished message, or are stopped."""

    @property
    def counted_bytes(self) -> int:
        """Counted bytes of all connections."""
        return self._bytes

    def keep(self, member: T, unfinished: int, waiting: int, now: float) -> bool:
        """Set the bytes that a connection keeps, and return whether they are within the budget.

        One read of a connection that may grow stays within it, unless the message is compressed.

        Args:
            member: the connection.
            unfinished: bytes of its unfinished message.
            waiting: bytes of its complete messages that wait for delivery.
            now: monotonic seconds.
        """
        if unfinished <= self._free:
            self.finish(member)
        elif member not in self.unfinished:
            self.unfinished[member] = now
        counted = max(0, unfinished + waiting - self._free)
        growth = self._count(member, counted)
        self._update_membership(member)
        return growth <= _JUMP or self._bytes <= self._most or self._is_oldest(member)

    def _update_membership(self, member: T) -> None:
        if member in self._kept or member in self.unfinished or member in self._stopped:
            self.members.add(member)
        else:
            self.members.discard(member)

    def finish(self, member: T) -> None:
        """Note that the unfinished message of a connection is complete."""
        if self.unfinished.pop(member, None) is not None:
            self._has_shrunk = True  # another is the oldest now
            self._update_membership(member)

    def forget(self, member: T) -> None:
        """Remove a connection."""
        self.finish(member)
        self._count(member, 0)
        self._stopped.pop(member, None)
        self.members.discard(member)

    def may_grow(self, member: T) -> bool:
        """Return whether a connection may be read; otherwise it is stopped until `resumable` returns it."""
        has_room = self._has_room(member)
        if has_room:
            self._stopped.pop(member, None)
        else:
            self._stopped[member] = None
        self._update_membership(member)
        return has_room

    def resumable(self) -> list[T]:
        """Return the stopped connections that may be read now."""
        if not self._has_shrunk:
            return []
        self._has_shrunk = False
        return [member for member in self._stopped if self._has_room(member)]

    def overdue(self, now: float) -> Iterator[T]:
        """Yield the connections to end because others wait, the oldest message first; the caller forgets each."""
        while self._stopped and self._bytes > self._most // 2:
            member, began = next(iter(self.unfinished.items()), (None, now))
            if member is None or now - began <= self._seconds:
                return
            yield member

    def _has_room(self, member: T) -> bool:
        kept = self._kept.get(member, 0)
        return not kept or kept < self._most - self._bytes or self._is_oldest(member)

    def _is_oldest(self, member: T) -> bool:
        return next(iter(self.unfinished), None) == member

    def _count(self, member: T, counted: int) -> int:
        """Set the counted bytes of a connection, and return how many more they are."""
        growth = counted - self._kept.pop(member, 0)
        if counted:
            self._kept[member] = counted
        self._bytes += growth
        if growth < 0:
            self._has_shrunk = True
        return growth
