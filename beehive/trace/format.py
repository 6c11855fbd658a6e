"""The format of a trace: one header, then records, each in a frame of its own.

A frame on disk is one msgpack `bin 32` object (0xc6 and four bytes of length, big-endian) whose bytes are one record,
itself msgpack: an array that begins with the record's tag. So any msgpack library can read the stream, a reader can
skip a record without decoding it, and a file that was cut can be read up to the last whole frame.

Fields are positional. New ones are appended with a default; an old reader ignores them, and a new reader fills in the
default. Any other change raises `FORMAT`.

`time` is in monotonic seconds since the header's origin: the wall clock was `header.began + time`, unless a `Note` of
kind `clock` reports a jump. `span`, `cause` and `trace` are numbers of the bus, unique within one run and 0 for
unknown (see `beehive.trace_context`).
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

from beehive.message import Header as MessageHeader
from beehive.message import Message, Route

FORMAT: Final = 2
"""Number of this format; a reader refuses higher ones. In format 1 every record held its contents; format 2 has large
contents once, see `beehive.trace.contents`."""

FRAME_BYTES: Final = 64 * 1024 * 1024
"""Bytes that a record may have. KubeEdge's frames have at most 12 MiB."""

SIMULATED: Final = "edgecore simulate"
"""Program in the header of a simulated run, in which many things happen at one moment of virtual time."""

APART: Final = 1e-6
"""Seconds between two records of such a moment; a float of the time since 1970 has steps of 0.24 µs."""


class Direction(StrEnum):
    """The direction of a frame, seen from the node."""

    IN = "in"
    OUT = "out"


class NoteKind(StrEnum):
    """The subject of a note; later versions may add others."""

    BEGUN = "begun"
    """The run began here: nothing of it is missing before. Traces of version 0.2.0 and before have no such note."""
    CLOCK = "clock"
    """The wall clock jumped; `data` is the seconds."""
    FAILURE = "failure"
    """A module failed; `text` is the error."""
    LINK = "link"
    """The link to the cloud went up or down."""
    FOREIGN = "foreign"
    """A line of another program's capture that is not a frame; `data` is the line."""
    TURN = "turn"
    """A module took an answer, or the result of another thread (`beehive.delivery.TurnTaken`); `time` is when it did,
    `data` when the work began, in seconds since the origin, if that is known."""
    WAITING = "waiting"
    """Items waited in a module's inbox at a dump, and have no records; `data` is their number."""
    LOST = "lost"
    """Records were left out, because the recorder could not keep up; `data` is their number."""


class TraceHeader(msgspec.Struct, frozen=True, array_like=True, tag="header"):
    """The first record. Another header follows where a later run appended to the file."""

    format: int
    program: str
    """Name and version of the program that wrote the trace."""
    node: str
    began: float
    """Wall clock of the origin of time, seconds since the Unix epoch."""
    seed: int | None = None
    """Seed of the run's randomness; None if it was the operating system's."""
    configuration: dict[str, Any] = {}
    """The configuration of the run, without secrets."""
    prefix: int = 0
    """Upper 64 bits of the run's W3C trace ids."""
    part: int = 1
    """Number of this file in a rotated trace."""
    why: str = ""
    """Why it was written: `record`, or the reason of the flight recorder's dump."""


class Base(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first fields of every record."""

    time: float
    span: int
    cause: int
    trace: int


class RecordedMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message whose content is the redacted JSON text."""

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
        """Return the message as on the bus, with undecoded content."""
        header = MessageHeader(
            self.id, self.parent_id, self.timestamp, self.resourceversion, sync=self.sync, type=self.type
        )
        route = Route(self.source, self.destination, self.group, self.operation, self.resource)
        return Message(header, route, msgspec.Raw(self.content))

    @classmethod
    def of(cls, message: Message, content: bytes) -> "RecordedMessage":
        """Make the recorded form of a message with the redacted `content`."""
        header, route = message.header, message.route
        return cls(
            header.msg_id, header.parent_msg_id, header.timestamp, header.resourceversion, header.sync, header.type,
            route.source, route.destination, route.group, route.operation, route.resource, content,
        )  # fmt: skip


class Delivered(Base, frozen=True, array_like=True, gc=False, tag="delivered"):
    """A delivery on the bus; `time` is its end."""

    sender: str
    """Name of the module or actor that sent it; `message.source` is the sender that the message itself names."""
    module: str
    """The receiving module. For an answer: the actor that asked."""
    way: str
    """A `beehive.DeliveryMode`."""
    outcome: str
    """A `beehive.Outcome`."""
    reason: str
    """A `beehive.DropReason`, or empty."""
    depth: int
    """Items that waited in the module's inbox when it was put there."""
    waited: float
    """Seconds in the inbox."""
    handled: float
    """Seconds in the handler."""
    message: RecordedMessage

    @property
    def sent(self) -> float:
        """When it was put into the inbox, in seconds since the origin."""
        return self.time - self.handled - self.waited


class TimerFired(Base, frozen=True, array_like=True, gc=False, tag="timer"):
    """A timer of a module ran; `time` is when its function returned."""

    module: str
    name: str
    """Qualified name of its function."""
    seconds: float
    """The delay or the period that it was set to."""
    periodic: bool
    handled: float
    """Seconds in the function."""
    waited: float = 0.0
    """Seconds from when it was set until the function began: a busy machine runs it late. 0 for a period, and in
    traces of earlier versions.
    """


class CriCall(Base, frozen=True, array_like=True, gc=False, tag="cri"):
    """A call of the container runtime; `time` is its end."""

    sender: str
    """Name of the calling actor."""
    method: str
    """Name of the method of `edged.cri.ContainerRuntime`."""
    request: bytes
    """JSON object of the arguments, messages in protobuf's JSON form with CRI's field names; redacted."""
    answer: bytes
    """JSON value in the same form; empty if the call failed."""
    error: str
    """Class of the error, or empty."""
    detail: str
    """Text of the error, redacted."""
    seconds: float
    """Duration of the call."""


SYNCED: Final = "synced"
"""Kind of a `CriEvent` that the runtime did not cause: edged took the result of a worker's job."""


class CriEvent(Base, frozen=True, array_like=True, gc=False, tag="event"):
    """An event of the container runtime, or a change of a pod that a relist found."""

    kind: str
    subject: str
    """Uid of the pod."""
    detail: bytes
    """JSON value; redacted."""


class LinkFrame(Base, frozen=True, array_like=True, gc=False, tag="frame"):
    """A frame of the link to the cloud."""

    direction: Direction
    connection: int
    """Number of the connection in the run."""
    size: int
    """Bytes of the frame on the wire."""
    frame: bytes
    """The redacted JSON text; a frame that is not a message is a JSON string, redacted whole."""


class Change(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One row that a commit wrote (`put`) or removed (`delete`)."""

    operation: str
    key: str
    kind: str
    value: bytes
    """The redacted row; empty if it was removed."""
    uid: str = ""
    """The column `uid` of a row of an earlier run, which a token's text does not have."""


class StoreCommit(Base, frozen=True, array_like=True, gc=False, tag="commit"):
    """A commit of the store, or its opening; `changes` are then rows of earlier runs."""

    operation: str
    """`opened`, `commit`, `rollback`, or `refused` for a change that the database did not accept."""
    seconds: float
    error: str
    changes: tuple[Change, ...]


class Note(Base, frozen=True, array_like=True, gc=False, tag="note"):
    """Another event of interest to a reader."""

    kind: str
    module: str
    text: str
    data: Any = None


Record = Delivered | TimerFired | CriCall | CriEvent | LinkFrame | StoreCommit | Note
"""A record after the header."""


class Content(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="content"):
    """A large content, which later records refer to."""

    key: bytes
    """Hash of the content."""
    data: bytes
    """The content, or its pieces, see `beehive.trace.contents`."""


AnyRecord = TraceHeader | Content | Record
"""The content of a frame."""


def traceparent(header: TraceHeader, trace: int, span: int) -> str:
    """Return the W3C `traceparent` (Trace Context, level 1) of a span."""
    return f"00-{header.prefix & 0xFFFFFFFFFFFFFFFF:016x}{trace:016x}-{span:016x}-01"
