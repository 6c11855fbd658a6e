"""The flight recorder: the last minute of a hive in memory, always on, written only when somebody asks.

To take notice of a delivery is one append in C to a small ring, the intake; neither lock nor Python code of ours runs
on the module's thread. What is in the intake is moved to the history a few times a second, and the history is kept
within its age and its bytes. Two rings and not one, because the cost of keeping a message is not the append but the
memory: a ring of 8 MiB would have every message made in memory that no cache holds, which costs a busy bus a tenth of
its rate. The price is that of more than `INTAKE` deliveries within `PERIOD` the oldest are left out, which is noted. On
a node that is rare even when much happens at once, because every frame, commit and call of the runtime, which come
along with them, has the intake emptied too when it is half full.

What came to the history is packed a little later, as long as not so much comes that packing would cost the node more
than memory is worth (`beehive.trace.packed`). `BYTES` counts entries as they are unpacked: that is what a dump needs.
"""

import threading
from collections import deque
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Final

from beehive.clock import Clock, Timer
from beehive.trace.entries import Kept, Noted, Serialiser, size_of
from beehive.trace.format import Header, NoteKind
from beehive.trace.packed import Block
from beehive.trace.redact import Redactor
from beehive.trace.writer import FileWriter

SECONDS: Final = 60.0
BYTES: Final = 8 * 1024 * 1024

INTAKE: Final = 512
"""Deliveries that the intake holds: what fits a core's own cache beside everything else."""

PERIOD: Final = 0.1
"""Seconds between two looks at the intake."""

BLOCK: Final = 128
"""Entries that are packed together, or fewer that take `BLOCK_BYTES`."""

BLOCK_BYTES: Final = 256 * 1024
"""What a runtime lists of a hundred pods once a second, some 100 kB each time, does not wait for 128 entries."""

_BLOCKS = 3
"""Blocks that are packed within `PERIOD` at most, 2 % of a core. When more entries come than they hold, none is."""

_JUMP = 0.1
"""Seconds by which the wall clock must go off to be noted."""

_CHUNK = 256
"""Records that are made before they are written, so that a dump needs little memory of its own."""


class FlightRecorder:
    """See the module's docstring. A tap; `add` is a watcher and takes the entries of other packages.

    Args:
        clock: of the hive.
        seconds, size: how far back it goes, and how many bytes it keeps, whichever is less.
    """

    def __init__(self, clock: Clock, seconds: float = SECONDS, size: int = BYTES) -> None:
        self._clock = clock
        self._seconds = seconds
        self._room = size
        self._lock = threading.Lock()
        self._intake: deque[Kept] = deque(maxlen=INTAKE)
        self._packed: deque[Block] = deque()
        self._loose: deque[tuple[Kept, int]] = deque()
        self._loose_size = 0
        self._loose_before = 0
        """How many were left when packing was last thought of."""
        self._offset = clock.now() - clock.monotonic()
        self.noted: Callable[[Noted], None] = self.add
        """Takes what the recorder finds out by itself; another recorder may want to hear of it too."""
        self._timer: Timer = clock.every(PERIOD, self._tick)
        self.delivered = self._intake.append
        """Takes a delivery (`beehive.Tap`): the ring's own method, without a call of ours around it."""

    def add(self, entry: Kept) -> None:
        """Take something else that happened."""
        with self._lock:
            self._keep(entry)
        if len(self._intake) > INTAKE // 2:
            self._take_in()

    def close(self) -> None:
        """Take no more from the intake by itself."""
        self._timer.cancel()

    @property
    def packed(self) -> int:
        """Entries that are packed."""
        with self._lock:
            return sum(block.number for block in self._packed)

    def entries(self) -> list[Kept]:
        """What there is, oldest first."""
        self._take_in()
        with self._lock:
            oldest = self._forget()
            blocks, loose = list(self._packed), [entry for entry, _ in self._loose]
        unpacked = chain.from_iterable(block.entries() for block in blocks)
        return sorted((entry for entry in chain(unpacked, loose) if entry.time >= oldest), key=lambda entry: entry.time)

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
        entries, serialiser = self.entries(), Serialiser(origin, redactor)
        writer = FileWriter(path, header)
        try:
            for begin in range(0, len(entries), _CHUNK):
                writer.write(map(serialiser.record, entries[begin : begin + _CHUNK]))
        finally:
            writer.close()
        return len(entries)

    def _tick(self) -> None:
        self._take_in()
        self._pack()
        self._note_jump()

    def _take_in(self) -> None:
        """Move what the intake has to the history."""
        intake = self._intake
        with self._lock:
            if len(intake) == INTAKE:
                text = f"more than {INTAKE} deliveries in {PERIOD} s; the oldest of them are left out"
                self._keep(Noted(intake[0].time, NoteKind.LOST, text))
            for _ in range(len(intake)):
                self._keep(intake.popleft())
            self._forget()

    def _keep(self, entry: Kept) -> None:
        size = size_of(entry)
        self._room -= size
        self._loose.append((entry, size))
        self._loose_size += size
        if self._room < 0:
            self._forget()

    def _pack(self) -> None:
        """Pack what is loose, block by block: those who add wait for one at most."""
        if len(self._loose) - self._loose_before <= _BLOCKS * BLOCK:
            for _ in range(_BLOCKS):
                with self._lock:
                    if len(self._loose) < BLOCK and self._loose_size < BLOCK_BYTES:
                        break
                    self._pack_block()
        self._loose_before = len(self._loose)

    def _pack_block(self) -> None:
        entries: list[Kept] = []
        size = 0
        while self._loose and len(entries) < BLOCK and size < BLOCK_BYTES:
            entry, its_size = self._loose.popleft()
            entries.append(entry)
            size += its_size
        self._loose_size -= size
        self._packed.append(Block.of(entries, size))

    def _forget(self) -> float:
        """Forget what is too old, and the oldest of what is too much. The time before which it is too old."""
        packed, loose, oldest = self._packed, self._loose, self._clock.monotonic() - self._seconds
        while packed and (self._room < 0 or packed[0].newest < oldest):
            self._room += packed.popleft().size
        while loose and (self._room < 0 or loose[0][0].time < oldest):
            size = loose.popleft()[1]
            self._room += size
            self._loose_size -= size
        return oldest

    def _note_jump(self) -> None:
        now = self._clock.monotonic()
        offset = self._clock.now() - now
        jumped = offset - self._offset
        if abs(jumped) > _JUMP:
            self._offset = offset
            self.noted(Noted(now, NoteKind.CLOCK, f"the wall clock jumped by {jumped:+.3f} s", jumped))
