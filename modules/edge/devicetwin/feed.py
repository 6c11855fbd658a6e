"""Committed changes of devices, for watchers (`edgecore devices watch`).

devicetwin's thread puts; a thread of the node's HTTP server takes. Each listener has a bounded buffer of its own: a
slow one loses the oldest changes, receives their number, and delays no other listener. Without listeners nothing is
recorded.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from beehive.wakeup import Wakeup
from modules.edge.devicetwin.state import Device, Side, Twin

MOST_HELD: Final = 1000
"""Changes that wait for one listener."""

MOST_HELD_CHARACTERS: Final = 1024 * 1024
"""Characters of values that wait for one listener."""


class TwinChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of a device."""

    what: str
    """`desired`, `reported`, `state`, `added` or `removed`; `lost` stands for changes that newer ones displaced."""
    time: int = 0
    """Milliseconds since the Unix epoch; 0 if the time is unknown."""
    device: str = ""
    property: str = ""
    value: str | None = None
    before: str | None = None
    by: str = ""
    """The writer of a desired value."""
    lost: int = 0


def changes_between(before: Device | None, after: Device | None) -> Iterator[TwinChange]:
    """Yield the changes between two states of a device; a value that was reported again counts as one."""
    if after is None:
        if before is not None:
            yield TwinChange("removed", device=before.id)
        return
    if before is None:
        yield TwinChange("added", device=after.id)
    state = before.state if before is not None else ""
    if after.state != state:
        yield TwinChange("state", device=after.id, value=after.state, before=state or None)
    for name, twin in sorted(after.twins.items()):
        old = before.twins.get(name) if before is not None else None
        if twin is not old:
            yield from _of_property(after.id, name, old or Twin(), twin)


def _of_property(device: str, name: str, old: Twin, new: Twin) -> Iterator[TwinChange]:
    for what, was, side in (("desired", old.expected, new.expected), ("reported", old.actual, new.actual)):
        if side is not None and _facts(side) != _facts(was):
            by = new.expected_by if what == "desired" else ""
            before = was.value if was is not None else None
            yield TwinChange(what, side.timestamp, device, name, side.value, before, by)


def _facts(side: Side | None) -> tuple[str | None, int, int] | None:
    return None if side is None else (side.value, side.cloud, side.edge)


def _size(change: TwinChange) -> int:
    """Return the characters of a change's values."""
    return len(change.value or "") + len(change.before or "")


class Listener:
    """The changes that wait for one listener.

    Args:
        device: the id of the only device of interest; empty for all.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.wakeup = Wakeup()
        """Set while changes wait."""
        self._lock = threading.Lock()
        self._waiting: deque[TwinChange] = deque()
        self._characters = 0
        self._lost = 0

    def put(self, change: TwinChange) -> None:
        """Add a change; beyond the bounds the oldest changes are dropped."""
        with self._lock:
            self._waiting.append(change)
            self._characters += _size(change)
            while len(self._waiting) > MOST_HELD or self._characters > MOST_HELD_CHARACTERS:
                self._characters -= _size(self._waiting.popleft())
                self._lost += 1
            self.wakeup.wake()

    def drain(self) -> list[TwinChange]:
        """Return the waiting changes, preceded by the number of lost ones, if any."""
        with self._lock:
            self.wakeup.clear()
            found, lost = list(self._waiting), self._lost
            self._waiting.clear()
            self._characters = self._lost = 0
        return [TwinChange("lost", lost=lost), *found] if lost else found

    def close(self) -> None:
        """Release the descriptor."""
        self.wakeup.close()


class DeviceFeed:
    """The feed of changes to listeners."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()

    def put(self, before: Device | None, after: Device | None) -> None:
        """Compare two committed states of a device and pass the changes on; None stands for a device that did not
        exist.
        """
        if not self._listeners:
            return
        device = after or before
        with self._lock:
            ready = [one for one in self._listeners if device is not None and one.device in ("", device.id)]
            for change in changes_between(before, after) if ready else ():
                for listener in ready:
                    listener.put(change)

    @contextlib.contextmanager
    def listening(self, device: str = "") -> Iterator[Listener]:
        """Yield a listener to the changes of one device, or (empty) of all."""
        listener = Listener(device)
        with self._lock:
            self._listeners = (*self._listeners, listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners = tuple(one for one in self._listeners if one is not listener)
            listener.close()
