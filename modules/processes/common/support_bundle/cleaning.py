"""A trace for strangers: what the recorder has hidden stays hidden, and values that may be secret are hidden, too."""

from pathlib import Path

import msgspec

from beehive.decoding import decode_json
from beehive.names import Operation
from beehive.trace.format import (
    Change,
    CriCall,
    CriEvent,
    Delivered,
    LinkFrame,
    Note,
    Record,
    StoreCommit,
)
from beehive.trace.reader import read
from beehive.trace.redact import Redactor
from beehive.trace.writer import FileWriter


def write_clean(source: Path, target: Path, redactor: Redactor) -> None:
    """Write a trace again, for `edgecore trace show` and `explain`; a replay differs where it decides by a value.

    Args:
        source: the trace.
        target: a new file.
        redactor: hides values, see `beehive.trace.redact`.

    Raises:
        TraceError: the trace cannot be read, or the new one not be written.
    """
    with read(source) as trace:
        header = msgspec.structs.replace(
            trace.header,
            configuration=decode_json(redactor.json(msgspec.json.encode(trace.header.configuration))),
        )
        writer = FileWriter(target, header)
        try:
            writer.write(clean(record, redactor) for record in trace)
        finally:
            writer.close()


def clean(record: Record, redactor: Redactor) -> Record:
    """Return a record without values."""
    replace = msgspec.structs.replace
    match record:
        case Delivered(message=message):
            content = redactor.content(message.resource, message.operation, message.content)
            return replace(record, message=replace(message, content=content), reason=redactor.text(record.reason))
        case CriCall():
            request, answer = (redactor.json(text) if text else text for text in (record.request, record.answer))
            return replace(record, request=request, answer=answer, detail=redactor.text(record.detail))
        case CriEvent():
            return replace(record, detail=redactor.json(record.detail))
        case LinkFrame():
            return replace(record, frame=redactor.frame(record.frame))
        case StoreCommit():
            changes = tuple(_changed(each, redactor) for each in record.changes)
            return replace(record, changes=changes, error=redactor.text(record.error))
        case Note():
            return replace(record, text=redactor.text(record.text))
    return record


def _changed(change: Change, redactor: Redactor) -> Change:
    if not change.value:
        return change
    value = redactor.content(change.key, Operation.UPDATE, change.value)
    return msgspec.structs.replace(change, value=value)
