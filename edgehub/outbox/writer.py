"""The actor that writes the outbox, on a thread of its own.

A flush may take seconds on a worn card. On the module's thread it would hold up acknowledgements and keepalives, and
the cloud would take the node for gone. While one change is being written, the next gathers: the slower the disk, the
more messages one flush serves.
"""

from collections.abc import Callable

from beehive import Actor
from edgehub.errors import OutboxError
from edgehub.outbox.ledger import Changes
from edgehub.outbox.store import Kept, OutboxStore


class Write(Changes):
    """Told to the writer: let the store have these."""

    __slots__ = ()


Wrote = Callable[[Changes, OutboxError | None], None]
"""Told of every change when it is on the disk, or that it is not."""


class Writer(Actor):
    """See the module's docstring.

    Args:
        store: opened; closed when the actor ends.
        to_wall: from monotonic seconds to milliseconds since the Unix epoch.
        wrote: told of each; returns at once.
    """

    def __init__(self, store: OutboxStore, to_wall: Callable[[float], int], wrote: Wrote) -> None:
        super().__init__()
        self._store = store
        self._to_wall = to_wall
        self._wrote = wrote

    def on_receive(self, message: object) -> None:
        """Write."""
        if isinstance(message, Write):
            put = [Kept(one.serial, self._to_wall(one.accepted), one.frame) for one in message.put]
            try:
                self._store.change(put, message.gone)
            except OutboxError as error:
                self._wrote(message, error)
            else:
                self._wrote(message, None)

    def on_stop(self) -> None:
        """Let go of the file."""
        self._store.close()
