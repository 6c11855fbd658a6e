"""Records a whole run to disk: `edgecore run --record`."""

import logging
from collections import deque
from typing import Final

import msgspec

from beehive.actor import Actor
from beehive.clock import Timer
from beehive.errors import TraceError
from beehive.trace.entries import AnyEntry, RecorderNote, Serialiser
from beehive.trace.format import NoteKind
from beehive.trace.writer import Writer

_log = logging.getLogger(__name__)

WAITING: Final = 64 * 1024
"""Entries that may wait to be written."""

PERIOD: Final = 0.1
"""Seconds between writes; a killed process loses that much."""

_CHUNK = 512


class Waiting:
    """The queue of entries to be written; a tap, and a watcher (`add`). Appending is one call into C."""

    def __init__(self) -> None:
        self._entries: deque[AnyEntry] = deque(maxlen=WAITING)
        self.delivered = self.add = self._entries.append

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def overflowing(self) -> bool:
        """Whether the queue is full, so that the oldest entries are lost."""
        return len(self._entries) == WAITING

    def pop(self, number: int) -> list[AnyEntry]:
        """Remove and return up to `number` entries, oldest first."""
        entries = self._entries
        taken: list[AnyEntry] = []
        try:
            while len(taken) < number:
                taken.append(entries.popleft())
        except IndexError:
            pass
        return taken

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()


class _Write(msgspec.Struct, frozen=True):
    """Message of the timer to the recorder: write the entries."""


class StreamRecorder(Actor):
    """An actor that writes the entries of a queue as records, ten times a second.

    A disk that fails or is too slow costs records, but never stops the node: the loss is noted in the trace and logged
    once.

    Args:
        waiting: the queue of entries.
        writer: writes the records; closed when the actor stops.
        serialiser: converts entries to records.
    """

    def __init__(self, waiting: Waiting, writer: Writer, serialiser: Serialiser) -> None:
        super().__init__()
        self._waiting = waiting
        self._writer = writer
        self._serialiser = serialiser
        self._broken = False
        self._timer: Timer | None = None

    def on_start(self) -> None:
        """Start the timer."""
        self._timer = self.clock.every(PERIOD, self._due)

    def on_receive(self, message: object) -> None:
        """Write the entries that wait."""
        if isinstance(message, _Write):
            self._drain()

    def on_stop(self) -> None:
        """Write the remaining entries and close the file."""
        if self._timer is not None:
            self._timer.cancel()
        self._drain()
        self._writer.close()

    def _due(self) -> None:
        if self._waiting and not self.actor_stopped.is_set():
            self.actor_ref.tell(_Write())

    def _drain(self) -> None:
        if self._waiting.overflowing and not self._broken:
            _log.warning("the trace has a gap: it is written more slowly than messages come")
            self._waiting.add(
                RecorderNote(self.clock.monotonic(), NoteKind.LOST, "written more slowly than messages came")
            )
        while entries := self._waiting.pop(_CHUNK):
            self._write(entries)

    def _write(self, entries: list[AnyEntry]) -> None:
        if self._broken:
            return
        try:
            self._writer.write(map(self._serialiser.record, entries))
        except TraceError as error:
            self._broken = True
            _log.error("the recording ends here: %s", error)
