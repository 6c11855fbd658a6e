"""What the outbox's store has, and what it still has to be told. Pure; part of `edgehub.outgoing`.

Removals are told in the order of departure, so that after a crash no state is found without the newer ones that were
made after it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from edgehub.classes import Entry


class Changes(NamedTuple):
    """What the store has to be told."""

    put: tuple[Entry, ...]
    gone: tuple[int, ...]
    """Serials, oldest departure first."""


class Ledger:
    """Numbers entries; until `open`, nothing is for the store and everything may leave."""

    def __init__(self) -> None:
        self.is_open = False
        self._serial = 0
        self._written = 0
        self._put: dict[int, Entry] = {}
        self._gone: list[int] = []

    @property
    def unwritten(self) -> bool:
        """Whether something waits for being written."""
        return bool(self._put)

    @property
    def removals(self) -> int:
        """How many rows of the store are of no use any more."""
        return len(self._gone)

    def open(self, last: int) -> None:
        """There is a store, whose highest serial is `last`."""
        self.is_open = True
        self._serial = self._written = last

    def compare(self, known: Iterable[Entry], found: Iterable[Entry]) -> None:
        """The store was opened again: what it lacks of all that is known is to be put, what it has beside is to go."""
        numbered = {entry.serial: entry for entry in known if entry.serial}
        there = [entry.serial for entry in found]
        self._gone = [serial for serial in there if serial not in numbered]
        self._put = {serial: numbered[serial] for serial in sorted(numbered.keys() - set(there))}

    def admit(self, entry: Entry) -> Entry:
        """An entry that is kept from now on, with its serial."""
        if not self.is_open or not entry.kind.kept:
            return entry
        self._serial += 1
        numbered = replace(entry, serial=self._serial)
        self._put[self._serial] = numbered
        return numbered

    def release(self, entry: Entry) -> None:
        """It is not kept any more."""
        if entry.serial and self._put.pop(entry.serial, None) is None:
            self._gone.append(entry.serial)

    def take(self) -> Changes:
        """What the store has not been told yet; it counts as told."""
        changes = Changes(tuple(self._put.values()), tuple(self._gone))
        self._put, self._gone = {}, []
        return changes

    def wrote(self, changes: Changes) -> None:
        """The store has them: they may leave."""
        self._written = max([self._written, *(entry.serial for entry in changes.put)])

    def refused(self, changes: Changes, known: Iterable[Entry]) -> None:
        """The store could not take them: they may leave all the same, and those still known are to be told again."""
        alive = {entry.serial for entry in known}
        self._put = {one.serial: one for one in changes.put if one.serial in alive} | self._put
        self._gone = [*changes.gone, *self._gone]
        self.wrote(changes)

    def admits(self, entry: Entry) -> bool:
        """Whether it may leave."""
        return entry.serial <= self._written
