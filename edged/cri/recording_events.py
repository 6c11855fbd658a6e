"""The runtime's stream of events, as a recorder keeps it (`beehive.trace.entries.Entry`).

Kept is what edged makes use of: that a stream began, was opened and ended, and of each event what happened to which
container of which pod. An event begins a chain of causes: what edged does because of it is recorded as its effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from beehive.causes import Cause, resumed
from beehive.trace.format import CriEvent
from edged.cri.errors import CriError
from protos.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

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
"""What the events of a stream are called in a trace."""


class Ended(msgspec.Struct, frozen=True):
    """Why a stream has ended, in a trace."""

    error: str
    """Class of the error."""
    operation: str
    code: str
    """gRPC's, by name."""
    details: str


class StreamEntry(msgspec.Struct, frozen=True, gc=False):
    """Something about the stream, or of it."""

    time: float
    span: int
    kind: str
    event: pb.ContainerEventResponse | None = None
    error: Exception | None = None

    @property
    def size(self) -> int:
        """Bytes of memory that it keeps, roughly."""
        return 1000

    def record(self, time: float, redactor: Redactor) -> CriEvent:
        """As it is written; the subject is the pod's uid, or the container's id where no pod is named."""
        subject, detail = "", b"null"
        if self.event is not None:
            subject = self.event.pod_sandbox_status.metadata.uid or self.event.container_id
            detail = _json(self.event)
        elif self.error is not None:
            detail = msgspec.json.encode(_ended(self.error))
        return CriEvent(time, self.span, 0, self.span, self.kind, subject, redactor.json(detail))


class StreamEar:
    """Hears one stream.

    Args:
        monotonic: gives the times.
        next_span: numbers what happens, see `beehive.causes`.
        add: takes each entry.
    """

    def __init__(
        self, monotonic: Callable[[], float], next_span: Callable[[], int], add: Callable[[StreamEntry], None]
    ) -> None:
        self._monotonic = monotonic
        self._next_span = next_span
        self._add = add

    def listening(self) -> None:
        """The stream is asked for."""
        self._tell(LISTENING)

    def opened(self, then: Callable[[], None]) -> Callable[[], None]:
        """Hears that it is opened, and hands it on."""

        def heard() -> None:
            self._tell(OPENED)
            then()

        return heard

    def happened(
        self, then: Callable[[pb.ContainerEventResponse], None]
    ) -> Callable[[pb.ContainerEventResponse], None]:
        """Hears each event, and hands it on as the cause of what follows."""

        def heard(event: pb.ContainerEventResponse) -> None:
            span = self._tell(KINDS.get(event.container_event_type, "unknown"), event=outline(event))
            with resumed(Cause(span, span)):
                then(event)

        return heard

    def ended(self, error: Exception) -> None:
        """It is over."""
        self._tell(ENDED, error=error)

    def _tell(
        self, kind: str, *, event: pb.ContainerEventResponse | None = None, error: Exception | None = None
    ) -> int:
        span = self._next_span()
        self._add(StreamEntry(self._monotonic(), span, kind, event, error))
        return span


def outline(event: pb.ContainerEventResponse) -> pb.ContainerEventResponse:
    """The event without the states of containers, which are several kilobytes of a large pod."""
    short = pb.ContainerEventResponse(
        container_id=event.container_id, container_event_type=event.container_event_type, created_at=event.created_at
    )
    if event.HasField("pod_sandbox_status"):
        status = event.pod_sandbox_status
        short.pod_sandbox_status.id = status.id
        short.pod_sandbox_status.state = status.state
        short.pod_sandbox_status.metadata.CopyFrom(status.metadata)
        short.pod_sandbox_status.labels.update(status.labels)
    return short


def _json(event: pb.ContainerEventResponse) -> bytes:
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - only when a trace is written

    return msgspec.json.encode(MessageToDict(event, preserving_proto_field_name=True))


def _ended(error: Exception) -> Ended:
    if isinstance(error, CriError):
        return Ended(type(error).__name__, error.operation, error.code.name, error.details)
    return Ended(type(error).__name__, "", "", "")
