"""What a trace is made of: one header, then records, each in a frame of its own.

A frame on disk is one msgpack `bin 32` object (0xc6 and four bytes of length, big-endian) whose bytes are one record,
itself msgpack: an array that begins with the record's tag. So any msgpack library can read the stream, a reader can
skip a record without decoding it, and of a file that was cut somewhere everything before the cut can be read.

Fields are positional. New ones are appended with a default; an old reader ignores them, a new one fills them in. A
change that does not fit this raises `FORMAT`.

`time` is monotonic seconds since the header's origin: the wall clock was `header.began + time`, unless a `Note` of kind
`clock` says that it jumped. `span`, `cause` and `trace` are numbers of the bus, unique within one run and 0 for none:
what happened, what it was sent or set in the course of, and the first cause of all (see `beehive.causes`).
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

from beehive.message import Header as MessageHeader
from beehive.message import Message, Route

FORMAT: Final = 2
"""Number of this format; a reader refuses what is higher. In the first every record had its contents in itself; the
second has large ones once, see `beehive.trace.contents`."""

FRAME_BYTES: Final = 64 * 1024 * 1024
"""Longest record that is written or read. KubeEdge's frames end at 12 MiB."""


class Direction(StrEnum):
    """Which way a frame went, seen from the node."""

    IN = "in"
    OUT = "out"


class NoteKind(StrEnum):
    """What a note is about; others may come later."""

    CLOCK = "clock"
    """The wall clock jumped; `data` is the seconds."""
    FAILURE = "failure"
    """A module failed; `text` says why."""
    LINK = "link"
    """The link to the cloud went up or down."""
    FOREIGN = "foreign"
    """A line of another program's capture that is no frame; `data` is the line."""
    LOST = "lost"
    """Records were left out, for the recorder could not keep up; `data` is how many."""


class Header(msgspec.Struct, frozen=True, array_like=True, tag="header"):
    """The first record. It comes again where a file was appended to by another run."""

    format: int
    program: str
    """Name and version of what wrote it."""
    node: str
    began: float
    """Wall clock of the origin of time, seconds since the Unix epoch."""
    seed: int | None = None
    """What the run's randomness was drawn from; None when that was the system."""
    configuration: dict[str, Any] = {}
    """Of the run, without secrets."""
    prefix: int = 0
    """Upper 64 bits of the run's W3C trace ids."""
    part: int = 1
    """Number of this file among those of a rotated trace."""
    why: str = ""
    """What it was written for: `record`, or what made the flight recorder write."""


class Base(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What every record begins with."""

    time: float
    span: int
    cause: int
    trace: int


class RecordedMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message, its content being the JSON text after redaction."""

    id: str
    parent_id: str
    timestamp: int
    resourceversion: str
    sync: bool
    type: str
    source: str
    destination: str
    group: str
    operation: str
    resource: str
    content: bytes

    def message(self) -> Message:
        """As the bus has it; its content undecoded."""
        header = MessageHeader(
            self.id, self.parent_id, self.timestamp, self.resourceversion, sync=self.sync, type=self.type
        )
        route = Route(self.source, self.destination, self.group, self.operation, self.resource)
        return Message(header, route, msgspec.Raw(self.content))

    @classmethod
    def of(cls, message: Message, content: bytes) -> "RecordedMessage":
        """The recorded form of a message with the redacted `content`."""
        header, route = message.header, message.route
        return cls(
            header.msg_id, header.parent_msg_id, header.timestamp, header.resourceversion, header.sync, header.type,
            route.source, route.destination, route.group, route.operation, route.resource, content,
        )  # fmt: skip


class Delivered(Base, frozen=True, array_like=True, gc=False, tag="delivered"):
    """A delivery on the bus that has come to an end; `time` is when."""

    sender: str
    """Module in whose turn it was sent, or actor outside of any; `message.source` is what the message says."""
    module: str
    """To whom. Of an answer: who asked."""
    way: str
    """A `beehive.Way`."""
    outcome: str
    """A `beehive.Outcome`."""
    reason: str
    """A `beehive.DropReason`, or empty."""
    depth: int
    """Items waiting in the module's inbox when it was put there."""
    waited: float
    """Seconds in the inbox."""
    handled: float
    """Seconds in the handler."""
    message: RecordedMessage

    @property
    def sent(self) -> float:
        """When it was put into the inbox."""
        return self.time - self.handled - self.waited


class TimerFired(Base, frozen=True, array_like=True, gc=False, tag="timer"):
    """A timer of a module ran; `time` is when its function returned."""

    module: str
    name: str
    """Qualified name of its function."""
    seconds: float
    """What it was set to."""
    periodic: bool
    handled: float
    """Seconds in the function."""


class CriCall(Base, frozen=True, array_like=True, gc=False, tag="cri"):
    """A call of the container runtime that has ended; `time` is when."""

    sender: str
    """Actor that called."""
    method: str
    """Name of the method of `edged.cri.ContainerRuntime`."""
    request: bytes
    """JSON object of the arguments, messages in protobuf's JSON form with CRI's field names; redacted."""
    answer: bytes
    """JSON value likewise; empty when the call failed."""
    error: str
    """Class of the error, or empty."""
    detail: str
    """Text of the error, redacted."""
    seconds: float
    """How long it took."""


class CriEvent(Base, frozen=True, array_like=True, gc=False, tag="event"):
    """What edged learnt about a pod from the runtime without asking for it: a relist found a change."""

    kind: str
    subject: str
    """Uid of the pod."""
    detail: bytes
    """JSON value; redacted."""


class LinkFrame(Base, frozen=True, array_like=True, gc=False, tag="frame"):
    """A frame of the link to the cloud."""

    direction: Direction
    connection: int
    """Counts the connections of the run."""
    size: int
    """Bytes of the frame as it was on the wire."""
    frame: bytes
    """The JSON text after redaction; what is no message stands as it came, as a JSON string, redacted whole."""


class Change(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One row that a commit wrote (`put`) or removed (`delete`)."""

    operation: str
    key: str
    kind: str
    value: bytes
    """Redacted; empty when removed."""


class StoreCommit(Base, frozen=True, array_like=True, gc=False, tag="commit"):
    """The store was made durable, or was opened: then its changes are all rows it had."""

    operation: str
    """`opened`, `commit`, `rollback`, or `refused`: one change that the database did not take."""
    seconds: float
    error: str
    changes: tuple[Change, ...]


class Note(Base, frozen=True, array_like=True, gc=False, tag="note"):
    """Something else that a reader should know."""

    kind: str
    module: str
    text: str
    data: Any = None


Record = Delivered | TimerFired | CriCall | CriEvent | LinkFrame | StoreCommit | Note
"""What follows the header."""


class Content(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="content"):
    """A large content, which the records after it refer to."""

    key: bytes
    """Its hash."""
    data: bytes
    """As it is, or in pieces, see `beehive.trace.contents`."""


AnyRecord = Header | Content | Record
"""All that a frame may hold."""


def traceparent(header: Header, trace: int, span: int) -> str:
    """The W3C form (Trace Context, level 1) of a place in the causes."""
    return f"00-{header.prefix & 0xFFFFFFFFFFFFFFFF:016x}{trace:016x}-{span:016x}-01"
