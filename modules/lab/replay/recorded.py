"""A recorded run in memory: the inputs of a replay and the outputs to compare with."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
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
    NoteKind,
    Record,
    StoreCommit,
    TimerFired,
    TraceError,
    TraceHeader,
)
from beehive.trace.contents import content_bytes
from beehive.trace.format import APART, SIMULATED
from beehive.trace.reader import TraceReader, read
from edged.cri.contract import SERVER_ACTOR
from edged.cri.errors import ConnectionClosedError
from edged.cri.recording_events import ENDED
from edgehub.errors import ClosedHereError
from metamanager.recording import OPENED
from modules.lab.replay.errors import ReplayError
from modules.processes.common.version import KUBELET_VERSION

_AGENT_VERSION: Final = re.compile(rb'"kubeletVersion":"([^"]+)"')

MOST_BYTES: Final = 1 << 30
"""Bytes of the contents of a run: a trace of some kilobytes could stand for any number."""

_CLOSED_HERE: Final = str(ClosedHereError())
_CLOSED: Final = ConnectionClosedError.__name__.encode()
_APART: Final = 1e-7
"""Seconds between two records."""

RECORDED: Final = "record"
"""Reason in the header of a trace of a whole run; other traces begin in the middle of one."""

_NEXT: Final = 1.5 * APART
"""Seconds between the records of a moment of a simulated run, at most."""

FOREIGN: Final = "foreign capture"
"""Program in the header of a capture of another program."""


def _is_closed(record: Record) -> TypeGuard[CriCall]:
    """Return whether a call failed because edged was stopping."""
    return isinstance(record, CriCall) and record.error == ConnectionClosedError.__name__


def _of_edged(call: CriCall) -> bool:
    """Return whether edged made a call, and not a client of its local server."""
    return call.sender != SERVER_ACTOR


def _times_of(record: Record) -> tuple[float, ...]:
    """Return when a record ended, and when it was sent or began."""
    match record:
        case Delivered():
            return record.sent, record.time
        case TimerFired():
            return record.time - record.handled, record.time
        case CriCall() | StoreCommit():
            return record.time - record.seconds, record.time
        case _:
            return (record.time,)


class Recorded(msgspec.Struct, frozen=True):
    """One recorded run; times are seconds of the trace."""

    header: TraceHeader
    records: tuple[Record, ...]
    number: int = 1
    """Number of the run in the trace."""
    damage: tuple[str, ...] = ()
    """Damaged files, each with the place and the reason of the damage."""

    @property
    def foreign(self) -> bool:
        """Whether the trace is a capture of another program, which has only frames."""
        return self.header.program == FOREIGN

    @property
    def has_beginning(self) -> bool:
        """Whether it has all records from the start of the process on, and the rows that the store had then. Other
        runs, such as those in most files of the flight recorder, begin in the middle, in an unknown state.
        """
        unread = any(commit.operation == OPENED and commit.error for commit in self.commits())
        if unread or not self.records:
            return False
        is_old = self.header.why == RECORDED and self.header.part == 1
        return self.foreign or is_old or self.records[:1] == tuple(self.notes(NoteKind.BEGUN)[:1])

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
        """Return the deliveries on the bus in the order that they were sent."""
        found = [record for record in self.records if isinstance(record, Delivered)]
        return sorted(found, key=lambda record: record.span)

    def moments(self) -> Callable[[float], float]:
        """Return a function from a time to the beginning of its moment: the records of a simulated run have times one
        after the other, though many happened at once.
        """
        if self.header.program != SIMULATED:
            return lambda time: time
        begins: list[float] = []
        ends: list[float] = []
        for time in sorted(time for record in self.records for time in _times_of(record)):
            if not ends or time > ends[-1] + _NEXT:
                begins.append(time)
                ends.append(time)
            ends[-1] = time

        def begin(time: float) -> float:
            at = bisect_right(begins, time) - 1
            return begins[at] if at >= 0 and time <= ends[at] + _NEXT else time

        return begin

    def calls(self) -> list[CriCall]:
        """Return edged's calls of the container runtime in the order that they began."""
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
        ReplayError: the trace has no run from its beginning.
    """
    return next(load_runs(path))


def load_runs(path: Path) -> Iterator[Recorded]:
    """Read the runs of a trace, one after the other; a run that lacks its beginning is left out. A directory of
    captures is one run.

    Raises:
        TraceError: the trace cannot be read.
        ReplayError: the trace has no run from its beginning.
    """
    found = sorted(path.glob("*.jsonl")) if path.is_dir() else []
    if found:
        yield captures(found)
        return
    number = 0
    with read(path) as trace:
        for run in _split(trace):
            if run.has_beginning:
                number += 1
                yield run
    if not number:
        hint = "the state of the modules at its beginning is unknown; record with `edgecore run --record`"
        why = f"{path} (written for: {trace.header.why or 'nothing said'}) has no run from its beginning"
        raise ReplayError("cannot replay the trace", why, hint)


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


def _split(trace: TraceReader) -> Iterator[Recorded]:
    """Yield the runs of a trace, each with times since its own beginning."""
    found: list[Record] = []
    number, size = 1, 0
    for record in trace:
        if len(trace.runs) > number:
            yield _run(trace, number, found)
            number, found, size = len(trace.runs), [], 0
        found.append(record)
        size += content_bytes(record)
        if size > MOST_BYTES:
            hint = f"its contents have more than {MOST_BYTES >> 20} MiB, and a replay has them all in memory"
            raise ReplayError("cannot replay the trace", f"run {number}", hint)
    yield _run(trace, number, found)


def _run(trace: TraceReader, number: int, found: list[Record]) -> Recorded:
    header = trace.runs[number - 1]
    since = header.began - trace.header.began
    records = [msgspec.structs.replace(one, time=one.time - since) for one in found] if since else found
    in_order = _one_after_the_other(sorted(records, key=lambda record: (record.time, record.span)))
    damage = (trace.damage,) if trace.damage else ()
    return Recorded(header, tuple(in_order), number, damage)


def _one_after_the_other(records: list[Record]) -> list[Record]:
    """Give the records different times. In simulation many things happen at one moment, in an order that a replay has
    to keep; a span has a higher number than its cause.
    """
    found, last = [], float("-inf")
    for record in records:
        last = max(record.time, last + _APART)
        found.append(record if last == record.time else msgspec.structs.replace(record, time=last))
    return found
