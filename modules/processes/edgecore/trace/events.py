"""Converts records to events, one at a time; pure."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.names import ModuleName
from beehive.resource import trim_node
from beehive.trace.format import (
    SYNCED,
    AnyRecord,
    CriCall,
    CriEvent,
    Delivered,
    Direction,
    LinkFrame,
    Note,
    NoteKind,
    RecordedMessage,
    StoreCommit,
    TimerFired,
)
from modules.processes.edgecore.trace.event import CLOUD, RUNTIME, STORE, Event, EventKind
from modules.processes.edgecore.trace.names import by_labels

_HUB: Final = str(ModuleName.EDGEHUB)
_REST: Final = msgspec.Raw(b"null")
_FOR_REPLAYS: Final = (SYNCED, NoteKind.TURN)


class _Wire(msgspec.Struct):
    """The message in a frame."""

    header: dict[str, Any] = {}
    route: dict[str, Any] = {}
    content: msgspec.Raw = _REST


def events_of(records: Iterable[AnyRecord]) -> Iterator[Event]:
    """Yield an event for each record except headers."""
    for record in records:
        event = event_of(record)
        if event is not None:
            yield event


def event_of(record: AnyRecord) -> Event | None:
    """Return the event of one record; None for a header, and for a record that only a replay needs."""
    match record:
        case Delivered():
            return _of_delivery(record)
        case LinkFrame():
            return _of_frame(record)
        case CriCall():
            return _of_call(record)
        case StoreCommit():
            return _of_commit(record)
        case CriEvent(kind=kind) | Note(kind=kind) if kind in _FOR_REPLAYS:
            return None
        case TimerFired() | CriEvent() | Note():
            return _of_other(record)
        case _:
            return None


def _of_delivery(record: Delivered) -> Event:
    message = record.message
    taken = record.time - record.handled
    return Event(
        EventKind.MESSAGE,
        sent=record.sent,
        taken=taken,
        end=record.time,
        source=_lane(record.sender) or message.source or record.module,
        target=_lane(record.module),
        verb=message.operation,
        about=trim_node(message.resource),
        id=message.id,
        parent=message.parent_id,
        span=record.span,
        cause=record.cause,
        route=_route_of(record),
        outcome=record.outcome,
        reason=record.reason,
        depth=record.depth,
        size=len(message.content),
        body=_message_body(message),
    )


def _route_of(record: Delivered) -> str:
    """Return the delivery mode, with the actors that sent and received it if they are parts of a module."""
    source = f" from {record.sender}" if "/" in record.sender else ""
    target = f" to {record.module}" if "/" in record.module else ""
    return f"{record.way}{source}{target}"


_HELPERS_OF_EDGED: Final = frozenset({"caller", "hook", "server"})
"""Threads of edged that call the runtime and are no actors: they get nothing, so a lane of theirs would be empty."""


def _lane(actor: str) -> str:
    """Return the module that an actor belongs to: `edged` for `edged/worker-1`, and for its helpers."""
    return str(ModuleName.EDGED) if actor in _HELPERS_OF_EDGED else actor.partition("/")[0]


def _message_body(message: RecordedMessage) -> bytes:
    """Return the message in KubeEdge's wire format, with the recorded content."""
    return msgspec.json.encode(message.message())


def _of_frame(record: LinkFrame) -> Event:
    wire = _wire(record.frame)
    header, route = wire.header, wire.route
    incoming = record.direction == Direction.IN
    return Event(
        EventKind.FRAME,
        sent=record.time,
        taken=record.time,
        end=record.time,
        source=CLOUD if incoming else _HUB,
        target=_HUB if incoming else CLOUD,
        verb=str(route.get("operation", "")) or "frame",
        about=trim_node(str(route.get("resource", ""))),
        id=str(header.get("msg_id", "")),
        parent=str(header.get("parent_msg_id", "")),
        span=record.span,
        cause=record.cause,
        route=f"connection {record.connection}",
        size=record.size,
        body=record.frame,
    )


def _wire(frame: bytes) -> _Wire:
    try:
        return decode_json(frame, _Wire)
    except (msgspec.DecodeError, UnicodeError):
        return _Wire()


def _of_call(record: CriCall) -> Event:
    begun = record.time - record.seconds
    request = record.request or b"null"
    answer = record.answer or b"null"
    details = {"request": msgspec.Raw(request), "answer": msgspec.Raw(answer)}
    if record.error:
        details |= {"error": msgspec.Raw(msgspec.json.encode(f"{record.error}: {record.detail}"))}
    return Event(
        EventKind.CALL,
        sent=begun,
        taken=begun,
        end=record.time,
        source=_lane(record.sender) or str(ModuleName.EDGED),
        target=RUNTIME,
        verb=record.method,
        about=_subject(request),
        span=record.span,
        cause=record.cause,
        route=f"from {record.sender}" if record.sender else "",
        outcome=record.error or "ok",
        reason=record.detail,
        size=len(request) + len(answer),
        body=msgspec.json.encode(details),
    )


def _subject(request: bytes) -> str:
    """Return the subject of a request: the pod and container by its labels, or its image, or an id."""
    try:
        arguments = decode_json(request)
    except (msgspec.DecodeError, UnicodeError):
        return ""
    if not isinstance(arguments, dict):
        return ""
    return _by_labels(arguments) or _by_image(arguments) or _by_id(arguments)


def _by_labels(arguments: dict[str, Any]) -> str:
    """Return the pod and container by the labels of a request; a pod without a container is followed by the image."""
    for part in arguments.values():
        if name := by_labels(part.get("labels") if isinstance(part, dict) else None):
            return name if " " in name else f"{name} {_by_image(arguments)}".rstrip()
    return ""


def _by_image(arguments: dict[str, Any]) -> str:
    image = arguments.get("image")
    return str(image.get("image", "")) if isinstance(image, dict) else ""


def _by_id(arguments: dict[str, Any]) -> str:
    return next((str(value) for key, value in arguments.items() if key.endswith("_id")), "")


def _of_commit(record: StoreCommit) -> Event:
    begun = record.time - record.seconds
    changes = record.changes
    about = changes[0].key if len(changes) == 1 else f"{len(changes)} rows"
    details = [
        {"operation": change.operation, "key": change.key, "kind": change.kind, "value": _value(change.value)}
        for change in changes
    ]
    return Event(
        EventKind.COMMIT,
        sent=begun,
        taken=begun,
        end=record.time,
        source=str(ModuleName.METAMANAGER),
        target=STORE,
        verb=record.operation,
        about=about,
        span=record.span,
        cause=record.cause,
        outcome="failed" if record.error else "ok",
        reason=record.error,
        size=sum(len(change.value) for change in changes),
        body=msgspec.json.encode(details),
    )


def _value(text: bytes) -> Any:
    """Return a row's value decoded as JSON, or as text if it is not JSON."""
    try:
        return decode_json(text)
    except (msgspec.DecodeError, UnicodeError):
        return text.decode(errors="replace")


def _of_other(record: TimerFired | CriEvent | Note) -> Event:
    if isinstance(record, TimerFired):
        begun = record.time - record.handled
        details: Any = {"function": record.name, "seconds": record.seconds, "periodic": record.periodic}
        ends = (begun, begun, record.time)
        name = record.name.partition(".<locals>")[0]
        return Event(EventKind.TIMER, *ends, record.module, record.module, "timer", name,
                     span=record.span, cause=record.cause, outcome="ok", body=msgspec.json.encode(details))  # fmt: skip
    at = (record.time, record.time, record.time)
    if isinstance(record, CriEvent):
        return Event(EventKind.CHANGE, *at, RUNTIME, str(ModuleName.EDGED), record.kind, record.subject,
                     span=record.span, cause=record.cause, outcome="ok", body=record.detail or b"null")  # fmt: skip
    source, target = _ends(record)
    outcome = "failed" if record.kind == NoteKind.FAILURE else "ok"
    return Event(EventKind.NOTE, *at, source, target, record.kind, record.text, span=record.span, cause=record.cause,
                 outcome=outcome, reason=record.text, body=msgspec.json.encode(record.data))  # fmt: skip


def _ends(note: Note) -> tuple[str, str]:
    """Return the source and the target of a note: a line of a capture has a direction, other notes one module."""
    direction = note.data.get("dir") if isinstance(note.data, dict) else ""
    if note.kind == NoteKind.FOREIGN and direction:
        return (_HUB, CLOUD) if direction == "edge->cloud" else (CLOUD, _HUB)
    lane = note.module or _HUB
    return lane, lane
