"""Traces: records of all inputs of a node's modules, which can be shown, explained and replayed.

Start reading at `format`; `reader.read` and `writer.open_writer` are its two ends, which this file does not import: a
node loads them with the first file that it writes. The bus imports none of it.
"""

from beehive.errors import TraceError
from beehive.trace.format import (
    AnyRecord,
    Change,
    CriCall,
    CriEvent,
    Delivered,
    Direction,
    LinkFrame,
    Note,
    NoteKind,
    Record,
    RecordedMessage,
    StoreCommit,
    TimerFired,
    TraceHeader,
)

__all__ = [
    "AnyRecord",
    "Change",
    "CriCall",
    "CriEvent",
    "Delivered",
    "Direction",
    "LinkFrame",
    "Note",
    "NoteKind",
    "Record",
    "RecordedMessage",
    "StoreCommit",
    "TimerFired",
    "TraceError",
    "TraceHeader",
]
