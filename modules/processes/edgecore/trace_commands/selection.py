"""Filters of `edgecore trace show`, which decide about one record at a time."""

from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from beehive.decoding import json_decoder
from beehive.trace import (
    CriCall,
    CriEvent,
    Delivered,
    LinkFrame,
    Note,
    Record,
    StoreCommit,
    TimerFired,
    TraceError,
)

KIND: Final[dict[type[Record], str]] = {
    Delivered: "messages",
    TimerFired: "timers",
    CriCall: "cri",
    CriEvent: "events",
    LinkFrame: "frames",
    StoreCommit: "commits",
    Note: "notes",
}
"""Names of the kinds of records for `--only`."""

CLOUD, RUNTIME, STORE = "cloud", "runtime", "store"
"""Other parties of a record than modules, as in `--module`."""


class Head(msgspec.Struct, frozen=True):
    """Common properties of records of all kinds."""

    actors: tuple[str, ...]
    """Names of the modules that take part; also cloud, runtime and store."""
    operation: str
    resources: tuple[str, ...]
    ids: tuple[str, ...] = ()


class _Header(msgspec.Struct):
    msg_id: str = ""
    parent_msg_id: str = ""


class _Route(msgspec.Struct):
    operation: str = ""
    resource: str = ""


class Envelope(msgspec.Struct):
    """Header and route of a message in a frame."""

    header: _Header = msgspec.field(default_factory=_Header)
    route: _Route = msgspec.field(default_factory=_Route)


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Config(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Image(msgspec.Struct):
    image: str = ""


class _Request(msgspec.Struct):
    """The parts of a CRI request that identify its object."""

    config: _Config = msgspec.field(default_factory=_Config)
    sandbox_config: _Config = msgspec.field(default_factory=_Config)
    image: _Image | None = None
    sandbox_id: str = ""
    container_id: str = ""


_envelope = json_decoder(Envelope)
_request = json_decoder(_Request)


class Filter(msgspec.Struct, frozen=True):
    """Conditions of the command line; an empty field matches every record."""

    module: str = ""
    resource: str = ""
    operation: str = ""
    id: str = ""
    begin: float = float("-inf")
    end: float = float("inf")
    kinds: frozenset[str] = frozenset()

    def matches(self, record: Record) -> bool:
        """Return whether a record is shown; cheap conditions are checked first."""
        if not self.begin <= record.time <= self.end or (self.kinds and KIND[type(record)] not in self.kinds):
            return False
        if not (self.module or self.resource or self.operation or self.id):
            return True
        head = head_of(record)
        return (
            (not self.module or self.module in head.actors)
            and (not self.operation or self.operation == head.operation)
            and (not self.resource or any(self._is_about(resource) for resource in head.resources))
            and (not self.id or any(one.startswith(self.id) for one in head.ids))
        )

    def _is_about(self, resource: str) -> bool:
        return fnmatchcase(resource, self.resource) if "*" in self.resource else self.resource in resource


def head_of(record: Record) -> Head:
    """Return a record's common properties."""
    match record:
        case Delivered(message=message):
            actors = (module_of(record.sender), message.source, module_of(record.module))
            return Head(actors, message.operation, (message.resource,), (message.id, message.parent_id))
        case LinkFrame():
            envelope = envelope_of(record.frame)
            header, route = envelope.header, envelope.route
            return Head((CLOUD, "websocket"), route.operation, (route.resource,), (header.msg_id, header.parent_msg_id))
        case CriCall():
            return Head((module_of(record.sender), RUNTIME), record.method, (subject_of(record.request),))
        case StoreCommit():
            return Head(("metamanager", STORE), record.operation, tuple(change.key for change in record.changes))
        case TimerFired():
            return Head((record.module,), "timer", ())
        case CriEvent():
            return Head(("edged", RUNTIME), record.kind, (record.subject,))
        case Note():
            return Head((record.module,), record.kind, ())


def module_of(actor: str) -> str:
    """Return the module of an actor: its name up to the slash."""
    return actor.partition("/")[0]


def envelope_of(frame: bytes) -> Envelope:
    """Return header and route of a frame; empty if the frame is no message."""
    try:
        return _envelope.decode(frame)
    except (msgspec.DecodeError, UnicodeError):
        return Envelope()


def subject_of(request: bytes) -> str:
    """Return the object of a CRI call: a pod and its container, an image, or an id."""
    try:
        asked = _request.decode(request)
    except (msgspec.DecodeError, UnicodeError):
        return ""
    pod, container = asked.sandbox_config.metadata, asked.config.metadata
    if not pod.name:
        pod, container = container, pod
    if pod.name:
        return f"{pod.namespace}/pod/{pod.name}" + (f"/{container.name}" if container.name else "")
    return (asked.image.image if asked.image else "") or asked.container_id or asked.sandbox_id


def seconds_of(text: str, began: float) -> float:
    """Return a time on the command line as seconds since the trace began.

    A time of day without a date is the first one after the beginning.

    Raises:
        TraceError: the text is no time.
    """
    try:
        return float(text)
    except ValueError:
        pass
    begin = datetime.fromtimestamp(began, UTC)
    try:
        if "-" in text:
            moment = datetime.fromisoformat(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        else:
            moment = datetime.fromisoformat(f"{begin:%Y-%m-%d}T{text}").replace(tzinfo=UTC)
            if moment < begin.replace(microsecond=0):
                moment += timedelta(days=1)
    except ValueError:
        hint = "seconds since it began, HH:MM:SS, or 2027-01-15T08:00:00Z are wanted"
        raise TraceError("cannot read the time", text, hint) from None
    return (moment - begin).total_seconds()
