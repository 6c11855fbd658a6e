"""The difference between the kept messages and the outbox's rows. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from edgehub.classes import Entry


class OutboxChanges(NamedTuple):
    """Changes that the outbox has yet to write."""

    put: tuple[Entry, ...]
    gone: tuple[int, ...]
    """Serials of rows to remove, oldest departure first."""


class Ledger:
    """Numbers the kept entries and collects the changes that the outbox has to write.

    Until `open`, no entry is stored and all may leave. Rows are removed in the order of their departure, so that a
    crash never leaves a state without the newer ones made after it.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._serial = 0
        self._written = 0
        self._put: dict[int, Entry] = {}
        self._gone: list[int] = []

    @property
    def last(self) -> int:
        """Serial of the last entry."""
        return self._serial

    @property
    def unwritten(self) -> bool:
        """Whether entries wait to be written."""
        return bool(self._put)

    @property
    def removals(self) -> int:
        """Number of obsolete rows."""
        return len(self._gone)

    def open(self, last: int) -> None:
        """Begin to number entries after `last`, the highest serial in the outbox."""
        self.is_open = True
        self._serial = self._written = last

    def compare(self, known: Iterable[Entry], found: Iterable[Entry]) -> None:
        """Compare the entries with the rows found in a reopened outbox; put the missing ones, remove the others."""
        numbered = {entry.serial: entry for entry in known if entry.serial}
        there = [entry.serial for entry in found]
        self._gone = [serial for serial in there if serial not in numbered]
        self._put = {serial: numbered[serial] for serial in sorted(numbered.keys() - set(there))}

    def admit(self, entry: Entry) -> Entry:
        """Return the entry with its serial, if its class is kept."""
        if not self.is_open or not entry.kind.kept:
            return entry
        self._serial += 1
        numbered = replace(entry, serial=self._serial)
        self._put[self._serial] = numbered
        return numbered

    def release(self, entry: Entry) -> None:
        """Stop keeping an entry."""
        if entry.serial and self._put.pop(entry.serial, None) is None:
            self._gone.append(entry.serial)

    def take(self) -> OutboxChanges:
        """Return the pending changes and clear them."""
        changes = OutboxChanges(tuple(self._put.values()), tuple(self._gone))
        self._put, self._gone = {}, []
        return changes

    def wrote(self, changes: OutboxChanges) -> None:
        """Note that changes are written: their entries may leave."""
        self._written = max([self._written, *(entry.serial for entry in changes.put)])

    def refused(self, changes: OutboxChanges, known: Iterable[Entry]) -> None:
        """Note that changes were not written: their entries may leave, and the `known` ones are pending again. Those
        that have left meanwhile have no row to remove, or the removals would pile up while the disk is broken.
        """
        alive = {entry.serial for entry in known}
        without_row = {one.serial for one in changes.put} - alive
        self._put = {one.serial: one for one in changes.put if one.serial in alive} | self._put
        self._gone = [*changes.gone, *(serial for serial in self._gone if serial not in without_row)]
        self.wrote(changes)

    def admits(self, entry: Entry) -> bool:
        """Whether an entry may leave: it is written, or not kept."""
        return entry.serial <= self._written
