"""The contract of what keeps the outbox; a file in production (`edgehub.outbox.sqlite`)."""

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec


class Kept(msgspec.Struct, frozen=True, gc=False):
    """One message in the outbox."""

    serial: int
    accepted: int
    """When it was taken, in milliseconds since the Unix epoch."""
    frame: bytes
    """As it leaves."""


class OutboxStore(Protocol):
    """Everything raises `OutboxError`, but for `close`. Used on one thread at a time."""

    def load(self) -> list[Kept]:
        """All there is, by serial."""

    def change(self, put: Iterable[Kept], gone: Iterable[int]) -> None:
        """Insert (or replace) and remove, all or nothing; once it returns it survives a loss of power."""

    def close(self) -> None:
        """Give it up. Never raises."""


OpenOutbox = Callable[[], OutboxStore]
"""Opens it; raises `OutboxError`."""
