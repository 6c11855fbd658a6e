"""An outbox that is another one, and tells a recorder what was in it when it was opened: that comes from outside of the
run. What is written later is what the node was seen to send; only failures are told of.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from beehive.clock import Clock
from beehive.trace.format import Note, Record
from beehive.trace.redact import Redactor
from edgehub.errors import OutboxError
from edgehub.outbox.store import Kept, OpenOutbox, OutboxStore

OUTBOX: Final = "outbox"
"""Kind of the notes; `data` has the messages that were found, each as serial, time (ms) and frame."""

FAILED: Final = "failed"
"""Beginning of the text of those that tell of a failure."""


class OutboxEntry(msgspec.Struct, frozen=True):
    """The outbox was opened, or could not be opened or written (`beehive.trace.entries.Entry`)."""

    time: float
    error: str
    found: tuple[Kept, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of memory that it keeps, roughly."""
        return 300 + sum(200 + len(one.frame) for one in self.found)

    def record(self, time: float, redactor: Redactor) -> Record:
        """As it is written."""
        if self.error:
            return Note(time, 0, 0, 0, OUTBOX, "websocket", redactor.text(f"{FAILED}: {self.error}"))
        data = [[one.serial, one.accepted, redactor.frame(one.frame)] for one in self.found]
        return Note(time, 0, 0, 0, OUTBOX, "websocket", f"{len(data)} messages of an earlier run", data)


class RecordingOutbox:
    """See `OutboxStore` and the module's docstring."""

    def __init__(self, store: OutboxStore, clock: Clock, add: Callable[[OutboxEntry], None]) -> None:
        self._store = store
        self._clock = clock
        self._add = add
        self.close = store.close

    def load(self) -> list[Kept]:
        """See `OutboxStore`."""
        found = self._store.load()
        self._add(OutboxEntry(self._clock.monotonic(), "", tuple(found)))
        return found

    def change(self, put: Iterable[Kept], gone: Iterable[int]) -> None:
        """See `OutboxStore`."""
        try:
            self._store.change(put, gone)
        except OutboxError as error:
            self._add(OutboxEntry(self._clock.monotonic(), str(error)))
            raise


def recording(open_outbox: OpenOutbox, clock: Clock, add: Callable[[OutboxEntry], None]) -> OpenOutbox:
    """Opens recorded outboxes."""

    def opened() -> OutboxStore:
        try:
            return RecordingOutbox(open_outbox(), clock, add)
        except OutboxError as error:
            add(OutboxEntry(clock.monotonic(), str(error)))
            raise

    return opened
