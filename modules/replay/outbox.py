"""The outbox of a replay: it has what the recorded one had when it was opened, and takes everything."""

from collections.abc import Iterable

from beehive.trace import Note
from edgehub.outbox.recording import FAILED
from edgehub.outbox.store import Kept, OpenOutbox


class RecordedOutbox:
    """See `edgehub.outbox.store.OutboxStore` and the module's docstring."""

    def __init__(self, found: list[Kept]) -> None:
        self._rows = {one.serial: one for one in found}

    def load(self) -> list[Kept]:
        """See `OutboxStore`."""
        return [self._rows[serial] for serial in sorted(self._rows)]

    def change(self, put: Iterable[Kept], gone: Iterable[int]) -> None:
        """See `OutboxStore`."""
        self._rows.update((one.serial, one) for one in put)
        for serial in gone:
            self._rows.pop(serial, None)

    def close(self) -> None:
        """See `OutboxStore`."""


def outbox_of(notes: list[Note]) -> OpenOutbox | None:
    """Opens the outbox that a trace tells of; None when it tells of none: what waited was only in memory."""
    opened = next((note for note in notes if not note.text.startswith(FAILED)), None)
    if opened is None:
        return None
    store = RecordedOutbox([Kept(*row) for row in opened.data])
    return lambda: store
