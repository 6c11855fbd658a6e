"""The flight recorder: the last minute of a hive in memory, always on, written only when somebody asks.

To take notice of a delivery is one append to a ring, in C; neither lock nor Python code of ours runs on the module's
thread. Once a second the ring is trimmed to its age and its bytes; large entries have it trimmed at once.
"""

from collections import deque
from pathlib import Path
from typing import Final

from beehive.clock import Clock, Timer
from beehive.trace.entries import Kept, Noted, Serialiser, size_of
from beehive.trace.format import Header, NoteKind
from beehive.trace.redact import Redactor
from beehive.trace.writer import FileWriter

SECONDS: Final = 60.0
BYTES: Final = 16 * 1024 * 1024
ENTRIES: Final = BYTES // 1024
"""Entries that are kept at most: a message without content takes about 800 bytes."""

LARGE: Final = 64 * 1024
"""Bytes of an entry after which the ring is trimmed at once."""

_TRIM_EVERY = 1.0
_JUMP = 0.1
"""Seconds by which the wall clock must go off to be noted."""


class FlightRecorder:
    """See the module's docstring. A tap; `add` is a watcher and takes the entries of other packages.

    Args:
        clock: of the hive.
        seconds, size: how far back it goes, and how many bytes it keeps, whichever is less.
    """

    def __init__(self, clock: Clock, seconds: float = SECONDS, size: int = BYTES) -> None:
        self._clock = clock
        self._seconds = seconds
        self._size = size
        self._entries: deque[Kept] = deque(maxlen=max(1, size // 1024))
        self._offset = clock.now() - clock.monotonic()
        self._timer: Timer = clock.every(_TRIM_EVERY, self._tick)
        self.delivered = self._entries.append
        """Takes a delivery (`beehive.Tap`): the ring's own method, without a call of ours around it."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Kept) -> None:
        """Take something else that happened."""
        self._entries.append(entry)
        if size_of(entry) >= LARGE:
            self.trim()

    def close(self) -> None:
        """Trim no more."""
        self._timer.cancel()

    def entries(self) -> list[Kept]:
        """What there is, oldest first."""
        while True:
            try:
                return list(self._entries)
            except RuntimeError:  # another thread appended meanwhile; rare, and it cannot go on for ever
                continue

    def trim(self) -> None:
        """Forget what is too old, and the oldest of what is too much."""
        oldest = self._clock.monotonic() - self._seconds
        room = self._size
        for entry in reversed(self.entries()):
            room -= size_of(entry)
            if room < 0 or entry.time < oldest:
                self._forget_up_to(entry)
                return

    def write(self, path: Path, header: Header, origin: float, redactor: Redactor) -> int:
        """Write what there is to a new trace; how many records.

        Args:
            path: of the file.
            header: of the trace.
            origin: monotonic seconds of the header's `began`.
            redactor: takes the secrets out.

        Raises:
            TraceError: it could not be written.
        """
        self.trim()
        entries, serialiser = self.entries(), Serialiser(origin, redactor)
        writer = FileWriter(path, header)
        try:
            for begin in range(0, len(entries), _CHUNK):
                writer.write(map(serialiser.record, entries[begin : begin + _CHUNK]))
        finally:
            writer.close()
        return len(entries)

    def _forget_up_to(self, last: Kept) -> None:
        """Forget `last` and what is older; the ring may have dropped it already."""
        entries = self._entries
        while entries and entries[0].time <= last.time:
            if entries.popleft() is last:
                return

    def _tick(self) -> None:
        self.trim()
        self._note_jump()

    def _note_jump(self) -> None:
        now = self._clock.monotonic()
        offset = self._clock.now() - now
        jumped = offset - self._offset
        if abs(jumped) > _JUMP:
            self._offset = offset
            self.add(Noted(now, NoteKind.CLOCK, f"the wall clock jumped by {jumped:+.3f} s", jumped))


_CHUNK = 256
"""Records that are made before they are written, so that a dump needs little memory of its own."""
