"""From what is kept in memory to what is written: entries become records, redacted.

While the process runs, an entry only refers to what is there anyway: a message, a request, a frame. Only when a trace
is written does somebody pay for its text; so the flight recorder can be always on.
"""

import logging
from typing import Any, Protocol

import msgspec

from beehive.delivery import Fired, ModuleFailed
from beehive.delivery import Record as Delivery
from beehive.errors import BeehiveError
from beehive.trace.format import Delivered, Note, NoteKind, Record, RecordedMessage, TimerFired
from beehive.trace.redact import Redactor

_log = logging.getLogger(__name__)

ENTRY_BYTES = 800
"""What an entry and a message without content take in memory, roughly."""


class Entry(Protocol):
    """Something that happened, of a kind that its own package knows how to write."""

    @property
    def time(self) -> float:
        """When, monotonic seconds."""

    @property
    def size(self) -> int:
        """Bytes of memory that it keeps, roughly."""

    def record(self, time: float, redactor: Redactor) -> Record:
        """As it is written; `time` is that of the trace."""


Kept = Delivery | Fired | ModuleFailed | Entry
"""All that recorders keep."""


class Noted(msgspec.Struct, frozen=True):
    """A note that the recorder itself makes."""

    time: float
    kind: NoteKind
    text: str
    data: Any = None

    @property
    def size(self) -> int:
        """See `Entry`."""
        return ENTRY_BYTES

    def record(self, time: float, redactor: Redactor) -> Record:  # noqa: ARG002 - it holds nothing secret
        """See `Entry`."""
        return Note(time, 0, 0, 0, self.kind, "", self.text, self.data)


class Serialiser:
    """Makes records of entries.

    Args:
        origin: monotonic seconds at which the trace begins.
        redactor: takes the secrets out.
    """

    def __init__(self, origin: float, redactor: Redactor) -> None:
        self._origin = origin
        self._redactor = redactor

    def record(self, entry: Kept) -> Record:
        """The record of an entry. What cannot be written leaves a note in its place: no trace fails for one message."""
        time = entry.time - self._origin
        try:
            if isinstance(entry, Delivery):
                return self._delivered(time, entry)
            if isinstance(entry, Fired):
                return _fired(time, entry)
            if isinstance(entry, ModuleFailed):
                text = self._redactor.text(f"{type(entry.error).__name__}: {entry.error}")
                return Note(time, 0, 0, 0, NoteKind.FAILURE, entry.module, text)
            return entry.record(time, self._redactor)
        except Exception as error:  # noqa: BLE001 - see above
            _log.warning("a %s could not be recorded: %s", type(entry).__name__, type(error).__name__)
            return Note(time, 0, 0, 0, NoteKind.LOST, "", f"{type(entry).__name__}: {type(error).__name__}", 1)

    def _delivered(self, time: float, entry: Delivery) -> Record:
        message, route = entry.message, entry.message.route
        content = self._redactor.content(route.resource, route.operation, content_of(message.content))
        return Delivered(
            time, entry.span, entry.cause, entry.trace, entry.sender, str(entry.module), entry.way.value,
            entry.outcome.value, "" if entry.reason is None else entry.reason.value, entry.depth, entry.waited,
            entry.handled, RecordedMessage.of(message, content),
        )  # fmt: skip


def content_of(content: Any) -> bytes:
    """The JSON text of a message's content, whatever its form."""
    if isinstance(content, msgspec.Raw):
        return bytes(content) or b"null"
    try:
        return msgspec.json.encode(content)
    except (TypeError, ValueError, BeehiveError):
        return msgspec.json.encode(f"a {type(content).__name__} without JSON form")


def size_of(entry: Kept) -> int:
    """Bytes of memory that an entry keeps, roughly."""
    if isinstance(entry, Delivery):
        return ENTRY_BYTES + _content_bytes(entry.message.content)
    return ENTRY_BYTES if isinstance(entry, (Fired, ModuleFailed)) else entry.size


def _content_bytes(content: object) -> int:
    """Of a text, and of a list of texts: the objects that a store answers with are most of what a busy node keeps."""
    if isinstance(content, (msgspec.Raw, bytes, str)):
        return len(content)
    if isinstance(content, (list, tuple)):
        return sum(len(each) for each in content if isinstance(each, (msgspec.Raw, bytes, str)))
    return 0


def _fired(time: float, entry: Fired) -> Record:
    return TimerFired(
        time, entry.span, entry.cause, entry.trace, str(entry.module), entry.name, entry.seconds, entry.periodic,
        entry.handled,
    )  # fmt: skip
