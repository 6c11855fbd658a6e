"""Traces: records of all inputs of a node's modules, which can be shown, explained and replayed.

Start reading at `format`; `reader.read` and `writer.open_writer` are its two ends. The bus does not import it.
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
from beehive.trace.reader import TraceReader, read
from beehive.trace.writer import DirectoryWriter, FileWriter, Writer, open_writer
