"""A recorded run, in memory and in order: what a replay takes its inputs from and is compared with."""

import re
from pathlib import Path
from typing import Final, TypeGuard
from zlib import crc32

import msgspec

from beehive.trace import (
    CriCall,
    CriEvent,
    Delivered,
    Header,
    LinkFrame,
    Note,
    Record,
    StoreCommit,
    TraceError,
    TraceReader,
    read,
)
from edged.cri.errors import ConnectionClosedError
from edged.cri.recording_events import ENDED
from edged.server.snapshots import ACTOR as SERVER
from edgehub.errors import ClosedHereError
from modules.edgecore.version import KUBELET_VERSION
from modules.replay.errors import ReplayError

_AGENT_VERSION: Final = re.compile(rb'"kubeletVersion":"([^"]+)"')

_CLOSED_HERE: Final = str(ClosedHereError())
_CLOSED: Final = ConnectionClosedError.__name__.encode()
_APART: Final = 1e-7
"""Seconds between two records."""

RECORDED: Final = "record"
"""What headers of whole runs are written for; others begin somewhere in the middle."""

FOREIGN: Final = "foreign capture"
"""Program of a header that was made for another program's capture."""


def _is_closed(record: Record) -> TypeGuard[CriCall]:
    """Whether a call failed because edged was stopping."""
    return isinstance(record, CriCall) and record.error == ConnectionClosedError.__name__


def _of_edged(call: CriCall) -> bool:
    """Whether edged made a call, and not somebody who asked the local server something."""
    return call.sender != SERVER


class Recorded(msgspec.Struct, frozen=True):
    """One run.

    Its times are those of the trace.
    """

    header: Header
    records: tuple[Record, ...]
    runs: int = 1
    """How many runs the trace has; this is the first."""
    damage: tuple[str, ...] = ()
    """Where and why files could not be read, or not to their end."""

    @property
    def foreign(self) -> bool:
        """Whether another program was recorded: there are only frames."""
        return self.header.program == FOREIGN

    @property
    def end(self) -> float:
        """When it ended: when its process was told to stop, if it was. What a module hears from what it has closed
        itself says nothing of the world.
        """
        last = max((record.time for record in self.records), default=0.0)
        closed = [call.time - call.seconds for call in self.records if _is_closed(call)]
        ups = [note.time for note in self.notes("link") if note.text == "up"]
        closed += [
            note.time for note in self.notes("link") if _CLOSED_HERE in note.text and note.time > max(ups, default=0.0)
        ]
        return min([last, *closed])

    def seed(self) -> int:
        """What a replay draws from. Not the run's own seed: ids must be others than those that were recorded, also of a
        run that was a replay itself.
        """
        return crc32("".join(one.message.id for one in self.delivered()).encode(), self.header.seed or 0)

    def agent_version(self) -> str:
        """The version that the node reported as its agent's; that of today when it reported none."""
        texts = (one.message.content for one in self.records if isinstance(one, Delivered))
        found = next(filter(None, map(_AGENT_VERSION.search, texts)), None)
        return KUBELET_VERSION if found is None else found.group(1).decode()

    def delivered(self) -> list[Delivered]:
        """Deliveries on the bus, in the order in which they were sent."""
        found = [record for record in self.records if isinstance(record, Delivered)]
        return sorted(found, key=lambda record: record.span)

    def calls(self) -> list[CriCall]:
        """Calls of the container runtime, in the order in which they began."""
        found = [one for one in self.records if isinstance(one, CriCall) and not _is_closed(one) and _of_edged(one)]
        return sorted(found, key=lambda record: record.time - record.seconds)

    def cut_off(self) -> list[CriCall]:
        """Calls that edged made and, because it was stopping, did not wait for."""
        return [one for one in self.records if _is_closed(one)]

    def events(self) -> list[CriEvent]:
        """What the runtime told by itself, and what edged learnt of it, in their order; not that edged was stopping."""
        found = [record for record in self.records if isinstance(record, CriEvent)]
        return [one for one in found if one.kind != ENDED or _CLOSED not in one.detail]

    def frames(self) -> list[LinkFrame]:
        """Frames of the link, in their order."""
        return [record for record in self.records if isinstance(record, LinkFrame)]

    def commits(self) -> list[StoreCommit]:
        """Commits of the store, in their order."""
        return [record for record in self.records if isinstance(record, StoreCommit)]

    def notes(self, kind: str) -> list[Note]:
        """Notes of a kind, in their order."""
        return [record for record in self.records if isinstance(record, Note) and record.kind == kind]


def load(path: Path) -> Recorded:
    """Read a trace's first run, or the captures in a directory as one life of a node.

    Raises:
        TraceError: it cannot be read.
        ReplayError: it begins somewhere in the middle of a run.
    """
    found = sorted(path.glob("*.jsonl")) if path.is_dir() else []
    if found:
        return captures(found)
    with read(path) as trace:
        records = tuple(record for record in _of_first_run(trace))
        header = trace.header
        damage = (trace.damage,) if trace.damage else ()
    if header.program != FOREIGN and header.why != RECORDED:
        hint = "only what `edgecore run --record` wrote begins where a run does"
        raise ReplayError("cannot replay the trace", f"{path} was written for: {header.why or 'nothing said'}", hint)
    if not records:
        raise ReplayError("cannot replay the trace", f"{path} has no records", "record a run that does something")
    return Recorded(header, records, len(trace.runs), damage)


def captures(paths: list[Path]) -> Recorded:
    """Captures that follow each other in time, whatever their names are.

    Raises:
        TraceError: one cannot be read.
    """
    found: list[Record] = []
    headers, damage = _headers_of(paths)
    first = min(headers.values(), key=lambda header: header.began)
    for path in sorted(headers, key=lambda path: headers[path].began):
        with read(path) as trace:
            later = trace.header.began - first.began
            found += [msgspec.structs.replace(record, time=record.time + later) for record in trace]
            damage += [trace.damage] if trace.damage else []
    records = _one_after_the_other(sorted(found, key=lambda record: record.time))
    return Recorded(first, tuple(records), damage=tuple(damage))


def _headers_of(paths: list[Path]) -> tuple[dict[Path, Header], list[str]]:
    """The headers of captures, and of other files among them why they are none. One capture there must be."""
    found: dict[Path, Header] = {}
    errors: list[TraceError] = []
    for path in paths:
        try:
            with read(path) as trace:
                found[path] = trace.header
        except TraceError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return found, list(map(str, errors))


def _of_first_run(trace: TraceReader) -> list[Record]:
    found = []
    for record in trace:
        if len(trace.runs) > 1:
            break
        found.append(record)
    return _one_after_the_other(sorted(found, key=lambda record: (record.time, record.span)))


def _one_after_the_other(records: list[Record]) -> list[Record]:
    """The records with times of which no two are the same: in simulation much happens at one moment, and yet in an
    order, in which it must happen again. Spans say which: what is caused has a higher one than its cause.
    """
    found, last = [], float("-inf")
    for record in records:
        last = max(record.time, last + _APART)
        found.append(record if last == record.time else msgspec.structs.replace(record, time=last))
    return found
