"""Records the runtime's stream of events for a trace (`beehive.trace.entries.Entry`).

Recorded are the request, the opening and the end of a stream, and for each event its kind, container and pod. An event
begins a trace context: edged's actions after it are recorded as its effects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from beehive.trace.format import CriEvent
from beehive.trace_context import Cause, resumed
from edged.cri.errors import CriError
from protos.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from beehive.trace.entries import EntrySink
    from beehive.trace.redact import Redactor

LISTENING: Final = "events asked for"
OPENED: Final = "events opened"
ENDED: Final = "events ended"

KINDS: Final = {
    pb.CONTAINER_CREATED_EVENT: "created",
    pb.CONTAINER_STARTED_EVENT: "started",
    pb.CONTAINER_STOPPED_EVENT: "stopped",
    pb.CONTAINER_DELETED_EVENT: "deleted",
}
"""Names of the stream's events in a trace."""


class StreamEnd(msgspec.Struct, frozen=True):
    """The end of a stream, in a trace."""

    error: str
    """Class of the error."""
    operation: str
    code: str
    """Name of gRPC's status."""
    details: str


class StreamEntry(msgspec.Struct, frozen=True, gc=False):
    """One event, or the request, opening or end of the stream."""

    time: float
    span: int
    kind: str
    event: pb.ContainerEventResponse | None = None
    error: Exception | None = None

    @property
    def size(self) -> int:
        """Approximate bytes of memory."""
        return 1000

    def record(self, time: float, redactor: Redactor) -> CriEvent:
        """Return the entry in the form of a trace; the subject is the pod's uid, or the container's id when the event
        names no pod.
        """
        subject, detail = "", b"null"
        if self.event is not None:
            subject = self.event.pod_sandbox_status.metadata.uid or self.event.container_id
            detail = _json(self.event)
        elif self.error is not None:
            detail = msgspec.json.encode(_ended(self.error))
        return CriEvent(time, self.span, 0, self.span, self.kind, subject, redactor.json(detail))


class StreamRecorder:
    """The recorder of one stream."""

    def __init__(self, sink: EntrySink) -> None:
        self._sink = sink

    def listening(self) -> None:
        """Record the request for a stream."""
        self._add_entry(LISTENING)

    def opened(self, then: Callable[[], None]) -> Callable[[], None]:
        """Return a callback that records the opening and calls `then`."""

        def record() -> None:
            self._add_entry(OPENED)
            then()

        return record

    def happened(
        self, then: Callable[[pb.ContainerEventResponse], None]
    ) -> Callable[[pb.ContainerEventResponse], None]:
        """Return a callback that records each event and calls `then` in its trace context."""

        def record(event: pb.ContainerEventResponse) -> None:
            span = self._add_entry(KINDS.get(event.container_event_type, "unknown"), event=outline(event))
            with resumed(Cause(span, span)):
                then(event)

        return record

    def ended(self, error: Exception) -> None:
        """Record the end of the stream."""
        self._add_entry(ENDED, error=error)

    def _add_entry(
        self, kind: str, *, event: pb.ContainerEventResponse | None = None, error: Exception | None = None
    ) -> int:
        span = self._sink.next_span()
        self._sink.add(StreamEntry(self._sink.monotonic(), span, kind, event, error))
        return span


def outline(event: pb.ContainerEventResponse) -> pb.ContainerEventResponse:
    """Return the event without the states of containers, several kilobytes for a large pod."""
    short = pb.ContainerEventResponse(
        container_id=event.container_id, container_event_type=event.container_event_type, created_at=event.created_at
    )
    if event.HasField("pod_sandbox_status"):
        status = event.pod_sandbox_status
        short.pod_sandbox_status.id = status.id
        short.pod_sandbox_status.state = status.state
        short.pod_sandbox_status.metadata.CopyFrom(status.metadata)
        for key in status.labels:  # `update` of protobuf's maps is Python's
            short.pod_sandbox_status.labels[key] = status.labels[key]
    return short


def _json(event: pb.ContainerEventResponse) -> bytes:
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - only when a trace is written

    return msgspec.json.encode(MessageToDict(event, preserving_proto_field_name=True))


def _ended(error: Exception) -> StreamEnd:
    if isinstance(error, CriError):
        return StreamEnd(type(error).__name__, error.operation, error.code.name, error.details)
    return StreamEnd(type(error).__name__, "", "", "")
