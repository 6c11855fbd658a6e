"""The contract of the outbox's storage; a file in production (`edgehub.outbox.sqlite`)."""

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """One message in the outbox."""

    serial: int
    accepted: int
    """When edgehub accepted it, in milliseconds since the Unix epoch."""
    frame: bytes
    """The encoded message, as it leaves."""


class OutboxStore(Protocol):
    """Storage of the outbox, used on one thread at a time. All methods but `close` raise `OutboxError`."""

    def load(self) -> list[StoredMessage]:
        """Return all messages, by serial."""

    def change(self, put: Iterable[StoredMessage], gone: Iterable[int]) -> None:
        """Insert or replace messages and remove serials, in one transaction that survives a loss of power."""

    def close(self) -> None:
        """Close the store. Never raises."""


OpenOutbox = Callable[[], OutboxStore]
"""Opens the store; raises `OutboxError`."""
