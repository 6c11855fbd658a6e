"""Records the outbox for a trace."""

from collections.abc import Iterable
from typing import Final

import msgspec

from beehive.trace.entries import EntrySink
from beehive.trace.format import Note, Record
from beehive.trace.redact import Redactor
from edgehub.errors import OutboxError
from edgehub.outbox.store import OpenOutbox, OutboxStore, StoredMessage

OUTBOX: Final = "outbox"
"""Kind of the notes; `data` lists the messages found, each as serial, time (ms) and frame."""

FAILED: Final = "failed"
"""First word of the text of a note about a failure."""


class OutboxEntry(msgspec.Struct, frozen=True):
    """The opening of the outbox, or a failure to open or write it (`beehive.trace.entries.Entry`)."""

    time: float
    error: str
    found: tuple[StoredMessage, ...] = ()

    @property
    def size(self) -> int:
        """Rough size in memory, in bytes."""
        return 300 + sum(200 + len(one.frame) for one in self.found)

    def record(self, time: float, redactor: Redactor) -> Record:
        """Return the redacted record for the file."""
        if self.error:
            return Note(time, 0, 0, 0, OUTBOX, "websocket", redactor.text(f"{FAILED}: {self.error}"))
        data = [[one.serial, one.accepted, redactor.frame(one.frame)] for one in self.found]
        return Note(time, 0, 0, 0, OUTBOX, "websocket", f"{len(data)} messages of an earlier run", data)


class RecordingOutbox:
    """An `OutboxStore` that passes calls on to another, and reports its contents at the opening, and failures.

    The contents come from an earlier run. Later writes need no record: the trace has the frames that the node sent.
    """

    def __init__(self, store: OutboxStore, sink: EntrySink) -> None:
        self._store = store
        self._sink = sink
        self.close = store.close

    def load(self) -> list[StoredMessage]:
        """See `OutboxStore`."""
        found = self._store.load()
        self._sink.add(OutboxEntry(self._sink.monotonic(), "", tuple(found)))
        return found

    def change(self, put: Iterable[StoredMessage], gone: Iterable[int]) -> None:
        """See `OutboxStore`."""
        try:
            self._store.change(put, gone)
        except OutboxError as error:
            self._sink.add(OutboxEntry(self._sink.monotonic(), str(error)))
            raise


def recording(open_outbox: OpenOutbox, sink: EntrySink) -> OpenOutbox:
    """Wrap a function that opens the outbox, so that it returns recorded ones."""

    def opened() -> OutboxStore:
        try:
            return RecordingOutbox(open_outbox(), sink)
        except OutboxError as error:
            sink.add(OutboxEntry(sink.monotonic(), str(error)))
            raise

    return opened
