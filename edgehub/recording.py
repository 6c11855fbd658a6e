"""Records the frames of links for a trace. The process wraps its factory of links in `RecordingLinks`."""

from typing import Final

import msgspec

from beehive.trace.entries import EntrySink
from beehive.trace.format import Direction, LinkFrame, Note, NoteKind, Record
from beehive.trace.redact import Redactor
from beehive.trace_context import own_context
from edgehub.errors import LinkError
from edgehub.link import Link, LinkEvents, LinkFactory

CONFIRMED: Final = "confirmed"
"""Kind of the notes about confirmed frames; `data` is the connection and the number of frames."""


class FrameEntry(msgspec.Struct, frozen=True, gc=False):
    """A frame, sent or received (`beehive.trace.entries.Entry`)."""

    time: float
    span: int
    cause: int
    trace: int
    direction: Direction
    connection: int
    frame: bytes

    @property
    def size(self) -> int:
        """Rough size in memory, in bytes."""
        return 300 + len(self.frame)

    def record(self, time: float, redactor: Redactor) -> Record:
        """Return the redacted record for the file."""
        return LinkFrame(
            time, self.span, self.cause, self.trace, self.direction, self.connection, len(self.frame),
            redactor.frame(self.frame),
        )  # fmt: skip


class LinkEntry(msgspec.Struct, frozen=True):
    """The beginning or the end of a link."""

    time: float
    connection: int
    error: LinkError | None

    @property
    def size(self) -> int:
        """Rough size in memory, in bytes."""
        return 500

    def record(self, time: float, redactor: Redactor) -> Record:
        """Return the redacted record for the file."""
        text = "up" if self.error is None else redactor.text(f"down: {self.error}")
        return Note(time, 0, 0, 0, NoteKind.LINK, "websocket", text, self.connection)


class ConfirmedEntry(msgspec.Struct, frozen=True, gc=False):
    """Frames confirmed by the cloud."""

    time: float
    connection: int
    frames: int

    @property
    def size(self) -> int:
        """Rough size in memory, in bytes."""
        return 200

    def record(self, time: float, redactor: Redactor) -> Record:  # noqa: ARG002 - it holds no secret
        """Return the redacted record for the file."""
        return Note(time, 0, 0, 0, CONFIRMED, "websocket", f"{self.frames} read", [self.connection, self.frames])


LinkRecord = FrameEntry | LinkEntry | ConfirmedEntry


class RecordingLinks:
    """A factory of links that report every frame to a recorder.

    A received frame begins a trace: every message that this node derives from it belongs to that trace. Frames with
    secrets go to the redactor first, so that the recorder finds the secrets in later records too.

    Args:
        make: makes the wrapped links.
        sink: takes each `LinkRecord`, on the thread that runs the link or sends.
    """

    def __init__(self, make: LinkFactory, sink: EntrySink) -> None:
        self._make = make
        self._sink = sink
        self._connections = 0

    def __call__(self) -> Link:
        """Return a new link."""
        self._connections += 1
        return _RecordedLink(self._make(), self._sink, self._connections)


class _RecordedLink(Link):
    def __init__(self, link: Link, sink: EntrySink, number: int) -> None:
        self._link = link
        self._sink = sink
        self._number = number

    def run(self, events: LinkEvents) -> LinkError:
        error = self._link.run(_RecordedEvents(events, self._sink, self._number))
        self._sink.add(LinkEntry(self._sink.monotonic(), self._number, error))
        return error

    def send(self, frame: bytes) -> None:
        context, span = own_context(), self._sink.next_span()
        now, trace = self._sink.monotonic(), context.trace or span
        self._sink.add(FrameEntry(now, span, context.span, trace, Direction.OUT, self._number, frame))
        self._link.send(frame)

    def check(self) -> None:
        self._link.check()

    def close(self) -> None:
        self._link.close()


class _RecordedEvents:
    def __init__(self, events: LinkEvents, sink: EntrySink, number: int) -> None:
        self._events = events
        self._sink = sink
        self._number = number
        self.skipped = events.skipped

    def confirmed(self, frames: int) -> None:
        self._sink.add(ConfirmedEntry(self._sink.monotonic(), self._number, frames))
        self._events.confirmed(frames)

    def opened(self) -> None:
        self._begin()
        self._sink.add(LinkEntry(self._sink.monotonic(), self._number, None))
        self._events.opened()

    def received(self, frame: bytes) -> None:
        span = self._begin()
        if _may_be_secret(frame):
            self._sink.redactor.frame(frame)
        now = self._sink.monotonic()
        self._sink.add(FrameEntry(now, span, 0, span, Direction.IN, self._number, frame))
        self._events.received(frame)

    def _begin(self) -> int:
        """Begin a new trace: an event from outside does not belong to the thread's present trace."""
        context, span = own_context(), self._sink.next_span()
        context.span = context.trace = span
        return span


def _may_be_secret(frame: bytes) -> bool:
    """Return whether a frame has one of the texts that mark frames with secrets; it looks for the rarest first."""
    if b"/serviceaccounttoken" in frame:
        return True
    return b"ecret" in frame and (b"/secret/" in frame or b'"Secret"' in frame)
