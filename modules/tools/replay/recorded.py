"""A recorded run in memory: the inputs of a replay and the outputs to compare with."""

import re
from pathlib import Path
from typing import Final, TypeGuard
from zlib import crc32

import msgspec

from beehive.trace import (
    CriCall,
    CriEvent,
    Delivered,
    LinkFrame,
    Note,
    Record,
    StoreCommit,
    TraceError,
    TraceHeader,
    TraceReader,
    read,
)
from edged.cri.contract import SERVER_ACTOR
from edged.cri.errors import ConnectionClosedError
from edged.cri.recording_events import ENDED
from edgehub.errors import ClosedHereError
from modules.processes.edgecore.version import KUBELET_VERSION
from modules.tools.replay.errors import ReplayError

_AGENT_VERSION: Final = re.compile(rb'"kubeletVersion":"([^"]+)"')

_CLOSED_HERE: Final = str(ClosedHereError())
_CLOSED: Final = ConnectionClosedError.__name__.encode()
_APART: Final = 1e-7
"""Seconds between two records."""

RECORDED: Final = "record"
"""Reason in the header of a trace of a whole run; other traces begin in the middle of one."""

FOREIGN: Final = "foreign capture"
"""Program in the header of a capture of another program."""


def _is_closed(record: Record) -> TypeGuard[CriCall]:
    """Whether a call failed because edged was stopping."""
    return isinstance(record, CriCall) and record.error == ConnectionClosedError.__name__


def _of_edged(call: CriCall) -> bool:
    """Whether edged made a call, and not a client of its local server."""
    return call.sender != SERVER_ACTOR


class Recorded(msgspec.Struct, frozen=True):
    """One recorded run; times are seconds of the trace."""

    header: TraceHeader
    records: tuple[Record, ...]
    runs: int = 1
    """Number of runs in the trace; this is the first one."""
    damage: tuple[str, ...] = ()
    """Damaged files, each with the place and the reason of the damage."""

    @property
    def foreign(self) -> bool:
        """Whether the trace is a capture of another program, which has only frames."""
        return self.header.program == FOREIGN

    @property
    def end(self) -> float:
        """The end of the run: when the process was stopped, if it was, else the last record.

        A module's errors from a connection that it closed itself are no events of the run.
        """
        last = max((record.time for record in self.records), default=0.0)
        closed = [call.time - call.seconds for call in self.records if _is_closed(call)]
        ups = [note.time for note in self.notes("link") if note.text == "up"]
        closed += [
            note.time for note in self.notes("link") if _CLOSED_HERE in note.text and note.time > max(ups, default=0.0)
        ]
        return min([last, *closed])

    def seed(self) -> int:
        """Return the seed of a replay. It differs from the run's own seed, so that generated ids differ from the
        recorded ones, even if the recorded run was itself a replay.
        """
        return crc32("".join(one.message.id for one in self.delivered()).encode(), self.header.seed or 0)

    def agent_version(self) -> str:
        """Return the kubelet version that the node reported; today's if it reported none."""
        texts = (one.message.content for one in self.records if isinstance(one, Delivered))
        found = next(filter(None, map(_AGENT_VERSION.search, texts)), None)
        return KUBELET_VERSION if found is None else found.group(1).decode()

    def delivered(self) -> list[Delivered]:
        """Return the deliveries on the bus in the order in which they were sent."""
        found = [record for record in self.records if isinstance(record, Delivered)]
        return sorted(found, key=lambda record: record.span)

    def calls(self) -> list[CriCall]:
        """Return edged's calls of the container runtime in the order in which they began."""
        found = [one for one in self.records if isinstance(one, CriCall) and not _is_closed(one) and _of_edged(one)]
        return sorted(found, key=lambda record: record.time - record.seconds)

    def cut_off(self) -> list[CriCall]:
        """Return the calls that edged did not wait for because it was stopping."""
        return [one for one in self.records if _is_closed(one)]

    def events(self) -> list[CriEvent]:
        """Return the runtime's events, and edged's reads of them, in their order; without the end of the stream when
        edged stopped.
        """
        found = [record for record in self.records if isinstance(record, CriEvent)]
        return [one for one in found if one.kind != ENDED or _CLOSED not in one.detail]

    def frames(self) -> list[LinkFrame]:
        """Return the frames of the link in their order."""
        return [record for record in self.records if isinstance(record, LinkFrame)]

    def commits(self) -> list[StoreCommit]:
        """Return the commits of the store in their order."""
        return [record for record in self.records if isinstance(record, StoreCommit)]

    def notes(self, kind: str) -> list[Note]:
        """Return the notes of a kind in their order."""
        return [record for record in self.records if isinstance(record, Note) and record.kind == kind]


def load(path: Path) -> Recorded:
    """Read a trace's first run, or the captures in a directory as one run of a node.

    Raises:
        TraceError: the trace cannot be read.
        ReplayError: the trace begins in the middle of a run.
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
    """Read captures and put them in the order of their times, whatever their names.

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


def _headers_of(paths: list[Path]) -> tuple[dict[Path, TraceHeader], list[str]]:
    """Return the headers of captures, and the errors of other files. Raises TraceError if no file is a capture."""
    found: dict[Path, TraceHeader] = {}
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
    """Give the records different times. In simulation many things happen at one moment, in an order that a replay has
    to keep; a span has a higher number than its cause.
    """
    found, last = [], float("-inf")
    for record in records:
        last = max(record.time, last + _APART)
        found.append(record if last == record.time else msgspec.structs.replace(record, time=last))
    return found
