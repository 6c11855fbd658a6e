"""Entries of the recorders in memory, and their conversion to redacted records.

An entry refers to objects that exist anyway: a message, a request, a frame. It is converted to text only when a trace
is written, so that the flight recorder can always be on.
"""

import logging
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from beehive.clock import Clock
from beehive.delivery import DeliveryRecord as Delivery
from beehive.delivery import ModuleFailed, TimerRun, TurnTaken
from beehive.errors import BeehiveError
from beehive.trace.format import Delivered, Note, NoteKind, Record, RecordedMessage, TimerFired
from beehive.trace.redact import Redactor

_log = logging.getLogger(__name__)

ENTRY_BYTES = 800
"""Approximate bytes of memory of an entry and a message without content."""


class Entry(Protocol):
    """An event that another package records, and converts to a record itself."""

    @property
    def time(self) -> float:
        """When it happened, in monotonic seconds."""

    @property
    def size(self) -> int:
        """Approximate bytes of memory that it keeps."""

    def record(self, time: float, redactor: Redactor) -> Record:
        """Return the redacted record; `time` is in seconds since the trace's origin."""


AnyEntry = Delivery | TimerRun | TurnTaken | ModuleFailed | Entry
"""An entry of any kind, as recorders keep them."""


class EntrySink:
    """A sink for the entries of store, runtime, links and other parts that are recorded.

    Args:
        clock: for the entries' times.
        redactor: learns the secrets in entries, so that they are found in later records too.
        next_span: numbers the entries, see `beehive.trace_context`.
        add: called with each `AnyEntry`, on the thread that made it.
    """

    def __init__(
        self, clock: Clock, redactor: Redactor, next_span: Callable[[], int], add: Callable[[Any], None]
    ) -> None:
        self.monotonic = clock.monotonic
        self.redactor = redactor
        self.next_span = next_span
        self.add = add


class RecorderNote(msgspec.Struct, frozen=True):
    """A note of the recorder itself."""

    time: float
    kind: str
    text: str
    data: Any = None

    @property
    def size(self) -> int:
        """Approximate bytes of memory that it keeps."""
        return ENTRY_BYTES

    def record(self, time: float, redactor: Redactor) -> Record:  # noqa: ARG002 - it holds nothing secret
        """Return the record of the note."""
        return Note(time, 0, 0, 0, self.kind, "", self.text, self.data)


class Serialiser:
    """A converter of entries to records.

    Args:
        origin: of the trace, in monotonic seconds.
        redactor: removes the secrets.
    """

    def __init__(self, origin: float, redactor: Redactor) -> None:
        self._origin = origin
        self._redactor = redactor

    def record(self, entry: AnyEntry) -> Record:
        """Return the record of an entry; an entry that cannot be converted becomes a note, so that no trace fails."""
        time = entry.time - self._origin
        try:
            if isinstance(entry, Delivery):
                return self._delivered(time, entry)
            if isinstance(entry, TimerRun):
                return _fired(time, entry)
            if isinstance(entry, TurnTaken):
                return self._turn(time, entry)
            if isinstance(entry, ModuleFailed):
                text = self._redactor.text(f"{type(entry.error).__name__}: {entry.error}")
                return Note(time, 0, 0, 0, NoteKind.FAILURE, entry.module, text)
            return entry.record(time, self._redactor)
        except Exception as error:  # noqa: BLE001 - no trace fails for one entry
            _log.warning("a %s could not be recorded: %s", type(entry).__name__, type(error).__name__)
            return Note(time, 0, 0, 0, NoteKind.LOST, "", f"{type(entry).__name__}: {type(error).__name__}", 1)

    def _turn(self, time: float, entry: TurnTaken) -> Record:
        since = None if entry.since is None else entry.since - self._origin
        return Note(time, entry.span, entry.cause, entry.trace, NoteKind.TURN, entry.module, entry.name, since)

    def _delivered(self, time: float, entry: Delivery) -> Record:
        message, route = entry.message, entry.message.route
        content = self._redactor.content(route.resource, route.operation, content_of(message.content))
        return Delivered(
            time, entry.span, entry.cause, entry.trace, entry.sender, str(entry.module), entry.mode.value,
            entry.outcome.value, "" if entry.reason is None else entry.reason.value, entry.depth, entry.waited,
            entry.handled, RecordedMessage.of(message, content),
        )  # fmt: skip


def content_of(content: Any) -> bytes:
    """Return the JSON text of a message's content of any form."""
    if isinstance(content, msgspec.Raw):
        return bytes(content) or b"null"
    try:
        return msgspec.json.encode(content)
    except (TypeError, ValueError, BeehiveError):
        return msgspec.json.encode(f"a {type(content).__name__} without JSON form")


def size_of(entry: AnyEntry) -> int:
    """Return the approximate bytes of memory that an entry keeps."""
    if isinstance(entry, Delivery):
        return ENTRY_BYTES + _content_bytes(entry.message.content)
    return ENTRY_BYTES if isinstance(entry, (TimerRun, TurnTaken, ModuleFailed)) else entry.size


def _content_bytes(content: object) -> int:
    """Return the bytes of a text or a list of texts, the form of a store's answers, which take most of the memory."""
    if isinstance(content, (msgspec.Raw, bytes, str)):
        return len(content)
    if isinstance(content, (list, tuple)):
        return sum(len(each) for each in content if isinstance(each, (msgspec.Raw, bytes, str)))
    return 0


def _fired(time: float, entry: TimerRun) -> Record:
    return TimerFired(
        time, entry.span, entry.cause, entry.trace, str(entry.module), entry.name, entry.seconds, entry.periodic,
        entry.handled, entry.waited,
    )  # fmt: skip
