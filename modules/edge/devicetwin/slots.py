"""The devices in memory, each with the changes that wait for their commit.

A message changes the newest state immediately. Its answers and publications wait until metamanager has committed that
state, and changes that arrive meanwhile are committed together. So a device has one write under way, its answers keep
their order, and devices do not wait for each other. A failed commit undoes all changes since the last successful one,
and each of them is answered with a refusal.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import msgspec

from modules.edge.devicetwin.answers import Publication
from modules.edge.devicetwin.state import Device

MOST_WAITING: Final = 256
"""Changes of one device that may wait for a commit."""

Done = Callable[[bool], None]
"""Called when a change was committed (True) or undone (False)."""


class DeviceStore(Protocol):
    """A store that commits devices; `then` is called later with whether the commit succeeded."""

    def save(self, device: Device, then: Done) -> None:
        """Insert or replace a device."""

    def remove(self, device_id: str, then: Done) -> None:
        """Remove a device."""


class _Waiting(msgspec.Struct, frozen=True):
    """The publications about a change, for a successful and for a failed commit."""

    publications: tuple[Publication, ...]
    failed: Publication | None
    done: Done


class _Slot:
    """One device: its committed state, the state being committed, and the newest state; None if the device does not
    exist.
    """

    def __init__(self, saved: Device | None) -> None:
        self.saved = self.saving = self.current = saved
        self.is_saving = False
        self.saves_again = False
        """Whether a confirmation came while it was being saved, and is to be stored as well."""
        self.under_way: list[_Waiting] = []
        self.waiting: list[_Waiting] = []


class SlotsOwner(Protocol):
    """The receiver of the values that the slots have committed; devicetwin."""

    def publish(self, said: Publication) -> None:
        """Send a message to applications."""

    def committed(self, before: Device | None, device: Device | None) -> None:
        """Take a device before and after a commit; None if it did not exist."""


class Slots:
    """All devices of the node.

    Args:
        store: commits them.
        owner: takes the committed changes.
    """

    def __init__(
        self,
        store: DeviceStore,
        owner: SlotsOwner,
    ) -> None:
        self._store = store
        self._owner = owner
        self._slots: dict[str, _Slot] = {}
        self._unsaved: set[str] = set()
        """Devices whose confirmations are not stored yet."""

    def __len__(self) -> int:
        return len(self._slots)

    def load(self, devices: Iterable[Device]) -> None:
        """Load the stored devices."""
        self._slots = {one.id: _Slot(one) for one in devices}

    def get(self, device_id: str) -> Device | None:
        """Return the newest state of a device, committed or not; None for an unknown one."""
        slot = self._slots.get(device_id)
        return None if slot is None else slot.current

    def saved(self, device_id: str) -> Device | None:
        """Return the committed state of a device."""
        slot = self._slots.get(device_id)
        return None if slot is None else slot.saved

    def all(self) -> Iterator[Device]:
        """Yield the newest state of each device, by id."""
        return (slot.current for _, slot in sorted(self._slots.items()) if slot.current is not None)

    def has_room(self, device_id: str) -> bool:
        """Return whether one more change of a device may wait for its commit."""
        slot = self._slots.get(device_id)
        return slot is None or len(slot.waiting) < MOST_WAITING

    def change(
        self,
        device: Device,
        publications: tuple[Publication, ...] = (),
        failed: Publication | None = None,
        done: Done = lambda _stored: None,
    ) -> None:
        """Set the newest state of a device, and send the publications once it is committed."""
        self._update(device.id, device, _Waiting(publications, failed, done))

    def remove(self, device_id: str, publications: tuple[Publication, ...], done: Done = lambda _stored: None) -> None:
        """Remove a device."""
        self._update(device_id, None, _Waiting(publications, None, done))

    def amend(self, device_id: str, change: Callable[[Device], Device]) -> None:
        """Apply a confirmation of the cloud to all states of a device. `flush` stores it."""
        slot = self._slots.get(device_id)
        if slot is None:
            return
        slot.saved, slot.saving, slot.current = (
            None if one is None else change(one) for one in (slot.saved, slot.saving, slot.current)
        )
        self._unsaved.add(device_id)

    def flush(self) -> None:
        """Store the confirmations that are not stored yet; for a device that is being saved, do so when that
        has ended.
        """
        unsaved, self._unsaved = sorted(self._unsaved), set()
        for device_id in unsaved:
            slot = self._slots.get(device_id)
            if slot is not None and slot.is_saving:
                slot.saves_again = True
            elif slot is not None and slot.current is not None:
                self._begin(device_id, slot)

    def _update(self, device_id: str, device: Device | None, waiting: _Waiting) -> None:
        slot = self._slots.get(device_id)
        if slot is None:
            slot = self._slots[device_id] = _Slot(None)
        unchanged = device == slot.current
        if not unchanged:
            slot.current = device
        if unchanged and not slot.is_saving:
            self._publish(waiting)
            self._forget(device_id, slot)
            return
        slot.waiting.append(waiting)
        if not slot.is_saving:
            self._begin(device_id, slot)

    def _begin(self, device_id: str, slot: _Slot) -> None:
        slot.is_saving, slot.saves_again = True, False
        slot.saving = slot.current
        slot.under_way, slot.waiting = slot.waiting, []
        self._unsaved.discard(device_id)
        if slot.saving is None:
            self._store.remove(device_id, lambda stored: self._ended(device_id, slot, stored=stored))
        else:
            self._store.save(slot.saving, lambda stored: self._ended(device_id, slot, stored=stored))

    def _ended(self, device_id: str, slot: _Slot, *, stored: bool) -> None:
        slot.is_saving = False
        if not stored:
            self._revert(slot)
            self._unsaved.add(device_id)
            self._forget(device_id, slot)
            return
        before, slot.saved = slot.saved, slot.saving
        said, slot.under_way = slot.under_way, []
        for waiting in said:
            self._publish(waiting)
        self._owner.committed(before, slot.saved)
        if (slot.waiting or (slot.saves_again and slot.current is not None)) and not slot.is_saving:
            self._begin(device_id, slot)
        self._forget(device_id, slot)

    def _revert(self, slot: _Slot) -> None:
        slot.current = slot.saving = slot.saved
        failed = slot.under_way + slot.waiting
        slot.under_way, slot.waiting = [], []
        for waiting in failed:
            if waiting.failed is not None:
                self._owner.publish(waiting.failed)
            waiting.done(False)  # noqa: FBT003 - the argument of `Done`

    def _forget(self, device_id: str, slot: _Slot) -> None:
        if slot.saved is slot.current is None and not slot.is_saving and self._slots.get(device_id) is slot:
            del self._slots[device_id]

    def _publish(self, waiting: _Waiting) -> None:
        for one in waiting.publications:
            self._owner.publish(one)
        waiting.done(True)  # noqa: FBT003
