"""The flight recorder: the last minute of a hive in memory.

Recording a delivery is one append in C to a small ring, the intake; no lock and no other Python code runs on the
module's thread. The intake is moved to the history ten times a second, less often after a look that found nothing: on
an idle node these looks were the most frequent wakes. The history is bounded in age and bytes. There are two rings
because the cost of keeping a message is not the append but the memory: with a single ring of 8 MiB, every message would
be made in memory outside of the processor's caches, which costs a busy bus a tenth of its rate. In return, the oldest
of more than `INTAKE` deliveries within `PERIOD` are lost, and a note tells their number. On a node that is rare,
because each frame, commit and call of the runtime also empties the intake if it is half full.

The history is packed a little later, when little is recorded; not at all while so many entries arrive that packing them
would cost too much processor time. `BYTES` counts entries before packing, as a dump needs them. Entries repeat each
other: a pod is in the frame, in two deliveries, in the commit and in the calls of the runtime. Pickled and compressed
together they take a tenth of the memory, for six microseconds each. They are not converted to records yet, because the
secrets to remove are known only when a trace is written.
"""

import logging
import threading
import zlib
from _pickle import dumps, loads  # the part in C; all of `pickle` takes a quarter of a megabyte more
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, Self

import msgspec

from beehive.clock import Clock, Timer
from beehive.delivery import DeliveryRecord as Delivery
from beehive.trace.entries import AnyEntry, RecorderNote, Serialiser, size_of
from beehive.trace.format import NoteKind, TraceHeader
from beehive.trace.redact import Redactor

SECONDS: Final = 60.0
BYTES: Final = 8 * 1024 * 1024

INTAKE: Final = 512
"""Deliveries that the intake holds; with the rest of the bus they fit a core's own cache."""

PERIOD: Final = 0.1
"""Seconds between two emptyings of the intake."""

REST: Final = 0.5
"""The same while nothing is recorded, and no block waits to be packed."""

BLOCK: Final = 128
"""Entries that are packed together, or fewer with `BLOCK_BYTES`."""

_PROTOCOL: Final = 5
"""Of pickling."""

BLOCK_BYTES: Final = 256 * 1024
"""Bytes that make a block of fewer entries: the runtime's lists of a hundred pods take some 100 kB each second."""

_BLOCKS = 3
"""Blocks that are packed within `PERIOD` at most, which takes 2 % of a core, on a busy machine some 10 %. If more
entries arrive, none is packed."""

_FEW = 32
"""Entries within `PERIOD` beyond which packing waits: something is being done, such as a start of pods, which packing
would slow down."""

_LOOSE_BYTES = 1024 * 1024
"""Bytes of entries that wait for that at most."""

_PERIODS = 10
"""Periods within which one block may arrive in each on average. While more comes, none is packed, either: it would be
forgotten again after some seconds."""

_PART = 128
"""The part of a full history that is forgotten immediately: to look for each entry whether others are too old costs
more than to keep it."""

_JUMP = 0.1
"""Least jump of the wall clock, in seconds, that is noted."""

_CHUNK = 256
"""Records that are made at a time in a dump, which bounds its memory."""

_log = logging.getLogger(__name__)

_LEVEL: Final = 1
"""Level of zlib. A higher one takes twice the time for an eighth less memory."""
_PLAIN: Final = (msgspec.Raw, str, bytes, type(None))


class FlightRecorder:
    """A recorder that keeps the last minute of a hive in memory, and writes it as a trace on demand.

        recorder = FlightRecorder(runtime.clock)
        hive = Hive(runtime, taps=(recorder,))
        hive.watchers.append(recorder.add)

    It is a tap; `add` is a watcher, and is called with the entries of other packages too.

    Args:
        clock: of the hive.
        seconds, size: bounds of the history: its age in seconds, and its bytes.
        noted: called with the recorder's own notes, where another recorder receives them too; default `add`.
    """

    def __init__(
        self,
        clock: Clock,
        seconds: float = SECONDS,
        size: int = BYTES,
        noted: Callable[[RecorderNote], None] | None = None,
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._room = size
        self._slack = size // _PART
        self._lock = threading.Lock()
        self._intake: deque[AnyEntry] = deque(maxlen=INTAKE)
        self._packed: deque[PackedBlock] = deque()
        self._loose: deque[tuple[AnyEntry, int]] = deque()
        self._loose_size = 0
        self._arrived = 0
        """Entries since the last emptying of the intake."""
        self._lately: deque[int] = deque(maxlen=_PERIODS)
        """Entries of each of the last periods."""
        self._offset = clock.now() - clock.monotonic()
        self._noted = self.add if noted is None else noted
        self._closed = False
        self._timer: Timer = clock.after(PERIOD, self._tick)
        self.delivered = self._intake.append
        """Records a delivery (`beehive.Tap`): the ring's own method, to save a call."""

    def add(self, entry: AnyEntry) -> None:
        """Record an event other than a delivery."""
        with self._lock:
            self._keep(entry)
        if len(self._intake) > INTAKE // 2:
            self._drain_intake()

    def close(self) -> None:
        """Stop the timer that empties the intake."""
        self._closed = True
        self._timer.cancel()

    @property
    def packed(self) -> int:
        """Number of packed entries."""
        with self._lock:
            return sum(block.number for block in self._packed)

    def entries(self) -> list[AnyEntry]:
        """Return the entries, oldest first."""
        self._drain_intake()
        with self._lock:
            oldest = self._forget()
            blocks, loose = list(self._packed), [entry for entry, _ in self._loose]
        unpacked = chain.from_iterable(block.entries() for block in blocks)
        return sorted((entry for entry in chain(unpacked, loose) if entry.time >= oldest), key=lambda entry: entry.time)

    def write(self, path: Path, header: TraceHeader, origin: float, redactor: Redactor) -> int:
        """Write the entries to a new trace, and return their number.

        Args:
            path: of the file.
            header: of the trace.
            origin: monotonic seconds of the header's `began`.
            redactor: removes the secrets.

        Raises:
            TraceError: the file could not be written.
        """
        from beehive.trace.writer import FileWriter  # noqa: PLC0415 - with the first file

        entries, serialiser = self.entries(), Serialiser(origin, redactor)
        writer = FileWriter(path, header)
        try:
            for begin in range(0, len(entries), _CHUNK):
                writer.write(map(serialiser.record, entries[begin : begin + _CHUNK]))
        finally:
            writer.close()
        return len(entries)

    def _tick(self) -> None:
        is_calm = not self._intake and not self._arrived
        try:
            self._drain_intake()
            self._pack()
            self._record_jump()
        finally:
            self._timer = self._clock.after(REST if is_calm and len(self._loose) < BLOCK else PERIOD, self._tick)
            if self._closed:
                self._timer.cancel()

    def _drain_intake(self) -> None:
        """Move the deliveries in the intake to the history."""
        intake = self._intake
        with self._lock:
            if len(intake) == INTAKE:
                text = f"more than {INTAKE} deliveries at once; the oldest of them are left out"
                self._keep(RecorderNote(intake[0].time, NoteKind.LOST, text))
            for _ in range(len(intake)):
                self._keep(intake.popleft())
            self._forget()

    def _keep(self, entry: AnyEntry) -> None:
        size = size_of(entry)
        self._arrived += 1
        self._room -= size
        self._loose.append((entry, size))
        self._loose_size += size
        if self._room < 0:
            self._forget(self._slack)

    def _pack(self) -> None:
        """Pack loose entries, with the lock held for one block at a time, so that `add` waits for one at most."""
        with self._lock:
            self._lately.append(self._arrived)
            self._arrived = 0
        if self._is_time_to_pack():
            for _ in range(_BLOCKS):
                with self._lock:
                    if len(self._loose) < BLOCK and self._loose_size < BLOCK_BYTES:
                        break
                    self._pack_block()

    def _is_time_to_pack(self) -> bool:
        latest = self._lately[-1]
        if latest > _FEW and self._loose_size < _LOOSE_BYTES:
            return False
        return latest <= _BLOCKS * BLOCK and sum(self._lately) <= _PERIODS * BLOCK

    def _pack_block(self) -> None:
        entries: list[AnyEntry] = []
        size = 0
        while self._loose and len(entries) < BLOCK and size < BLOCK_BYTES:
            entry, its_size = self._loose.popleft()
            entries.append(entry)
            size += its_size
        self._loose_size -= size
        self._packed.append(PackedBlock.of(entries, size))

    def _forget(self, room: int = 0) -> float:
        """Drop entries beyond the bounds of age and bytes, so that there is room for `room` bytes; return the time
        before which an entry is too old.
        """
        packed, loose, oldest = self._packed, self._loose, self._clock.monotonic() - self._seconds
        while packed and (self._room < room or packed[0].newest < oldest):
            self._room += packed.popleft().size
        while loose and (self._room < room or loose[0][0].time < oldest):
            size = loose.popleft()[1]
            self._room += size
            self._loose_size -= size
        return oldest

    def _record_jump(self) -> None:
        now = self._clock.monotonic()
        offset = self._clock.now() - now
        jumped = offset - self._offset
        if abs(jumped) > _JUMP:
            self._offset = offset
            self._noted(RecorderNote(now, NoteKind.CLOCK, f"the wall clock jumped by {jumped:+.3f} s", jumped))


class PackedBlock(msgspec.Struct, frozen=True, gc=False):
    """Some entries, in order."""

    newest: float
    """Time of the last entry, in monotonic seconds."""
    size: int
    """Bytes of memory that the entries took before packing."""
    number: int
    """Number of entries."""
    data: bytes
    as_they_are: tuple[tuple[int, AnyEntry], ...]
    """Entries that cannot be packed, with their places among all."""

    @classmethod
    def of(cls, entries: Sequence[AnyEntry], size: int) -> Self:
        """Pack entries, at least one, that take `size` bytes."""
        packable = [entry for entry in entries if is_packable(entry)]
        data = _pickled(packable)
        if data is None:
            packable = [entry for entry in packable if _pickled(entry) is not None]
            data = _pickled(packable) or b""
        inside = set(map(id, packable))
        newest = max([entry.time for entry in entries])
        as_they_are = tuple((index, entry) for index, entry in enumerate(entries) if id(entry) not in inside)
        return cls(newest, size, len(entries), zlib.compress(data, _LEVEL), as_they_are)

    def entries(self) -> list[AnyEntry]:
        """Unpack the entries."""
        entries = self._unpacked()
        for index, entry in self.as_they_are:
            entries.insert(index, entry)
        return entries

    def _unpacked(self) -> list[AnyEntry]:
        try:
            return list(loads(zlib.decompress(self.data)))
        except Exception as error:  # noqa: BLE001 - no trace fails for one entry
            return [RecorderNote(self.newest, NoteKind.LOST, f"packed entries: {type(error).__name__}")]


def is_packable(entry: AnyEntry) -> bool:
    """Return whether unpickling gives an equal entry.

    An exception may not: it is remade from its text alone, regardless of its constructor. Neither may a content that is
    an object of another package. A list of texts is packable: it is the content of a store's answers.
    """
    if isinstance(entry, Delivery):
        content = entry.message.content
        return isinstance(content, _PLAIN) or (type(content) is list and all(type(each) is str for each in content))
    return not isinstance(getattr(entry, "error", None), BaseException)


def _pickled(what: AnyEntry | list[AnyEntry]) -> bytes | None:
    """Pickle entries; return None if an object refuses."""
    try:
        return dumps(what, _PROTOCOL)
    except Exception as error:  # noqa: BLE001 - an object may raise any error when it is pickled
        _log.debug("not packed: %s", type(error).__name__)
        return None
