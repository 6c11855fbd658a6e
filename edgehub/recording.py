"""A link that is another one, and tells a recorder of every frame.

It is put around each link by who assembles the process. A frame that comes in begins a trace: all that follows from it
on this node is in its course. Secrets are learnt where they enter, so that they are found again wherever they turn up.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from beehive.causes import own
from beehive.clock import Clock
from beehive.trace.format import Direction, LinkFrame, Note, NoteKind, Record
from beehive.trace.redact import Redactor
from edgehub.errors import LinkError
from edgehub.link import Link, LinkEvents, LinkFactory

CONFIRMED: Final = "confirmed"
"""Kind of the notes that say how many more frames the cloud has read; `data` is the connection and the number."""

_MAY_BE_SECRET = (b"/secret/", b"/serviceaccounttoken", b'"Secret"')
"""What stands in frames that bring secrets."""


class FrameEntry(msgspec.Struct, frozen=True, gc=False):
    """A frame (`beehive.trace.entries.Entry`)."""

    time: float
    span: int
    cause: int
    trace: int
    direction: Direction
    connection: int
    frame: bytes

    @property
    def size(self) -> int:
        """Bytes of memory that it keeps, roughly."""
        return 300 + len(self.frame)

    def record(self, time: float, redactor: Redactor) -> Record:
        """As it is written."""
        return LinkFrame(
            time, self.span, self.cause, self.trace, self.direction, self.connection, len(self.frame),
            redactor.frame(self.frame),
        )  # fmt: skip


class LinkEntry(msgspec.Struct, frozen=True):
    """The link came up, or ended."""

    time: float
    connection: int
    error: LinkError | None

    @property
    def size(self) -> int:
        """Bytes of memory that it keeps, roughly."""
        return 500

    def record(self, time: float, redactor: Redactor) -> Record:
        """As it is written."""
        text = "up" if self.error is None else redactor.text(f"down: {self.error}")
        return Note(time, 0, 0, 0, NoteKind.LINK, "websocket", text, self.connection)


class ConfirmedEntry(msgspec.Struct, frozen=True, gc=False):
    """The cloud is known to have read some of what was sent."""

    time: float
    connection: int
    frames: int

    @property
    def size(self) -> int:
        """Bytes of memory that it keeps, roughly."""
        return 200

    def record(self, time: float, redactor: Redactor) -> Record:  # noqa: ARG002 - there is nothing secret in it
        """As it is written."""
        return Note(time, 0, 0, 0, CONFIRMED, "websocket", f"{self.frames} read", [self.connection, self.frames])


LinkRecord = FrameEntry | LinkEntry | ConfirmedEntry


class RecordingLinks:
    """Makes recorded links.

    Args:
        make: makes the links.
        clock: that times are taken from.
        next_span: numbers the frames, see `beehive.causes`.
        add: takes each entry, on the thread that runs the link or sends.
        learn: takes a frame that may bring secrets.
    """

    def __init__(
        self,
        make: LinkFactory,
        clock: Clock,
        next_span: Callable[[], int],
        add: Callable[[LinkRecord], None],
        learn: Callable[[bytes], object],
    ) -> None:
        self._make = make
        self.clock = clock
        self.next_span = next_span
        self.add = add
        self.learn = learn
        self._connections = 0

    def __call__(self) -> Link:
        """A new link."""
        self._connections += 1
        return _RecordedLink(self._make(), self, self._connections)


class _RecordedLink(Link):
    def __init__(self, link: Link, links: RecordingLinks, number: int) -> None:
        self._link = link
        self._links = links
        self._number = number

    def run(self, events: LinkEvents) -> LinkError:
        error = self._link.run(_RecordedEvents(events, self._links, self._number))
        self._links.add(LinkEntry(self._links.clock.monotonic(), self._number, error))
        return error

    def send(self, frame: bytes) -> None:
        turn, span = own(), self._links.next_span()
        now = self._links.clock.monotonic()
        self._links.add(FrameEntry(now, span, turn.span, turn.trace or span, Direction.OUT, self._number, frame))
        self._link.send(frame)

    def check(self) -> None:
        self._link.check()

    def close(self) -> None:
        self._link.close()


class _RecordedEvents:
    def __init__(self, events: LinkEvents, links: RecordingLinks, number: int) -> None:
        self._events = events
        self._links = links
        self._number = number
        self.skipped = events.skipped

    def confirmed(self, frames: int) -> None:
        links = self._links
        links.add(ConfirmedEntry(links.clock.monotonic(), self._number, frames))
        self._events.confirmed(frames)

    def opened(self) -> None:
        self._begin()
        self._links.add(LinkEntry(self._links.clock.monotonic(), self._number, None))
        self._events.opened()

    def received(self, frame: bytes) -> None:
        span = self._begin()
        if any(mark in frame for mark in _MAY_BE_SECRET):
            self._links.learn(frame)
        now = self._links.clock.monotonic()
        self._links.add(FrameEntry(now, span, 0, span, Direction.IN, self._number, frame))
        self._events.received(frame)

    def _begin(self) -> int:
        """Nothing that comes from outside is in the course of what this thread was told."""
        turn, span = own(), self._links.next_span()
        turn.span = turn.trace = span
        return span
