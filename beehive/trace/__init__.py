"""Traces: what came into the modules of a node from outside, recorded, so that it can be shown, explained and replayed.

Start at `format`; `reader.read` and `writer.open_writer` are the two ends. Nothing of it is imported by the bus.
"""

from beehive.trace.errors import TraceError
from beehive.trace.format import (
    AnyRecord,
    Change,
    CriCall,
    CriEvent,
    Delivered,
    Direction,
    Header,
    LinkFrame,
    Note,
    NoteKind,
    Record,
    RecordedMessage,
    StoreCommit,
    TimerFired,
)
from beehive.trace.reader import TraceReader, read
from beehive.trace.writer import DirectoryWriter, FileWriter, Writer, open_writer

__all__ = [
    "AnyRecord",
    "Change",
    "CriCall",
    "CriEvent",
    "Delivered",
    "Direction",
    "DirectoryWriter",
    "FileWriter",
    "Header",
    "LinkFrame",
    "Note",
    "NoteKind",
    "Record",
    "RecordedMessage",
    "StoreCommit",
    "TimerFired",
    "TraceError",
    "TraceReader",
    "Writer",
    "open_writer",
    "read",
]
