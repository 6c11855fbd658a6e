"""The outbox of a replay."""

from collections.abc import Iterable

from beehive.trace import Note
from edgehub.outbox.recording import FAILED
from edgehub.outbox.store import OpenOutbox, StoredMessage


class RecordedOutbox:
    """An outbox in memory that starts with the recorded rows (`edgehub.outbox.store.OutboxStore`)."""

    def __init__(self, found: list[StoredMessage]) -> None:
        self._rows = {one.serial: one for one in found}

    def load(self) -> list[StoredMessage]:
        """Return the rows in the order of their serials."""
        return [self._rows[serial] for serial in sorted(self._rows)]

    def change(self, put: Iterable[StoredMessage], gone: Iterable[int]) -> None:
        """Add and remove rows."""
        self._rows.update((one.serial, one) for one in put)
        for serial in gone:
            self._rows.pop(serial, None)

    def close(self) -> None:
        """Do nothing."""


def outbox_of(notes: list[Note]) -> OpenOutbox | None:
    """Return a function that opens the recorded outbox; None without one, as when messages waited only in
    memory.
    """
    opened = next((note for note in notes if not note.text.startswith(FAILED)), None)
    if opened is None:
        return None
    store = RecordedOutbox([StoredMessage(*row) for row in opened.data])
    return lambda: store
