"""The actor that writes the outbox."""

from collections.abc import Callable

from beehive import Actor
from edgehub.errors import OutboxError
from edgehub.ledger import OutboxChanges
from edgehub.outbox.store import OutboxStore, StoredMessage


class Write(OutboxChanges):
    """Changes to write."""

    __slots__ = ()


Wrote = Callable[[OutboxChanges, OutboxError | None], None]
"""Called after every write, with the error if it failed."""


class OutboxWriter(Actor):
    """Writes changes to the outbox on its own thread.

    A flush may take seconds on a worn card. On the module's thread it would delay acknowledgements and keepalives, and
    the cloud would take the node for dead. While one change is written, the next one grows: the slower the disk, the
    more messages share a flush.

    Args:
        store: open; closed when the actor ends.
        to_wall: converts monotonic seconds to milliseconds since the Unix epoch.
        wrote: called after each write; returns at once.
    """

    def __init__(self, store: OutboxStore, to_wall: Callable[[float], int], wrote: Wrote) -> None:
        super().__init__()
        self._store = store
        self._to_wall = to_wall
        self._wrote = wrote

    def on_receive(self, message: object) -> None:
        """Write a change."""
        if isinstance(message, Write):
            put = [StoredMessage(one.serial, self._to_wall(one.accepted), one.frame) for one in message.put]
            try:
                self._store.change(put, message.gone)
            except OutboxError as error:
                self._wrote(message, error)
            else:
                self._wrote(message, None)

    def on_stop(self) -> None:
        """Close the store."""
        self._store.close()
