"""Records simulated nodes as `edgecore run --record` does, so that a failing run can be shown, explained and
replayed.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from beehive.delivery import DeliveryMode, DeliveryRecord, HiveEvent, TurnTaken
from beehive.hive import Hive
from beehive.simulation import EPOCH
from beehive.trace.entries import AnyEntry, EntrySink, RecorderNote, Serialiser
from beehive.trace.format import (
    APART,
    FORMAT,
    SIMULATED,
    CriCall,
    Delivered,
    NoteKind,
    Record,
    StoreCommit,
    TimerFired,
    TraceHeader,
)
from beehive.trace.redact import Redactor
from beehive.trace.writer import FileWriter
from edged.cri.contract import ContainerRuntime
from edged.cri.recording import recording
from edged.host import Host
from edged.node.recording import RecordingMachineInfo, recorded_ends
from edgehub.link import LinkFactory
from edgehub.outbox.manager import WRITTEN
from edgehub.outbox.recording import OUTBOX
from edgehub.outbox.recording import recording as recorded_outbox
from edgehub.outbox.store import OpenOutbox
from edgehub.recording import RecordingLinks
from metamanager.recording import RecordingStore
from metamanager.store import Store


class ProcessRecorder:
    """The recorder of one process of a node; the node's trace has a header for each process.

    Args:
        hive: the process's hive, not yet started.
        node: name of the node.
        seed: seed of the run.
        configuration: configuration of the node.
    """

    def __init__(self, hive: Hive, node: str, seed: int, configuration: dict[str, Any]) -> None:
        self._hive = hive
        self._redactor = Redactor()
        self._entries: list[tuple[AnyEntry, int]] = []
        """Each with its number among the spans when it was added, at the end of what it is about."""
        clock = hive.clock
        self._sink = EntrySink(clock, self._redactor, hive.next_span, self._add)
        self._origin = clock.monotonic()
        self._header = TraceHeader(
            FORMAT, SIMULATED, node, clock.now(), seed, configuration, int(clock.now() - EPOCH) + 1,
            why="record",
        )  # fmt: skip
        self.delivered: Callable[[DeliveryRecord], None] = self._add
        hive.taps.append(self)
        hive.watchers.append(self._happened)

    def _add(self, entry: AnyEntry) -> None:
        self._entries.append((entry, self._hive.next_span()))

    def _happened(self, happened: HiveEvent) -> None:
        self._add(happened)
        if isinstance(happened, TurnTaken) and happened.name == WRITTEN:
            self._add(RecorderNote(happened.time, OUTBOX, WRITTEN))

    def clock_jumped(self, seconds: float) -> None:
        """Record a jump of the machine's wall clock."""
        text = f"the wall clock jumped by {seconds:+.3f} s"
        self._add(RecorderNote(self._hive.clock.monotonic(), NoteKind.CLOCK, text, seconds))

    def store(self, store: Store) -> Store:
        """Wrap a store so that it is recorded."""
        return RecordingStore(store, self._sink)

    def runtime(self, runtime: ContainerRuntime) -> ContainerRuntime:
        """Wrap a container runtime so that it is recorded."""
        return recording(runtime, self._sink)

    def host(self, host: Host) -> Host:
        """Wrap what edged gets from its machine so that it is recorded."""
        return replace(
            host,
            machine_info=RecordingMachineInfo(host.machine_info, self._sink),
            noticed_end=recorded_ends(self._sink),
        )

    def links(self, make: LinkFactory) -> LinkFactory:
        """Wrap a link factory so that its links are recorded."""
        return RecordingLinks(make, self._sink)

    def outbox(self, open_outbox: OpenOutbox) -> OpenOutbox:
        """Wrap the opening of the outbox so that it is recorded."""
        return recorded_outbox(open_outbox, self._sink)

    def write(self, path: Path) -> None:
        """Append the records to a trace.

        Raises:
            TraceError: the trace could not be written.
        """
        serialiser = Serialiser(self._origin, self._redactor)
        spans = [_Span.of(serialiser.record(entry), number) for entry, number in self._entries]
        times = _one_after_the_other(point for span in spans for point in span.points)
        records = sorted((span.at(times) for span in spans), key=lambda record: record.time)
        with contextlib.closing(FileWriter(path, self._header)) as writer:
            writer.write(records)


_Point = tuple[float, int]
"""A time, and a number that tells its place among the points of one moment."""


class _Span(msgspec.Struct, frozen=True):
    """A record with the points in time that it names: when it was sent or begun, and when it ended."""

    record: Record
    begin: _Point
    end: _Point

    @classmethod
    def of(cls, record: Record, number: int) -> "_Span":
        """Return the points of a record: a span is drawn when something begins, `number` when it ended.

        No number is drawn when the handler of a message begins. Nothing else of its module happens until it ends.
        """
        end = record.time, number
        match record:
            case Delivered(way=DeliveryMode.RESPONSE):
                return cls(record, (record.time, record.span), (record.time, record.span))
            case Delivered():
                return cls(record, (record.sent, record.span), end)
            case TimerFired():
                return cls(record, (record.time - record.handled, record.span), end)
            case CriCall() | StoreCommit():
                return cls(record, (record.time - record.seconds, record.span), end)
            case _:
                place = record.time, record.span or number
                return cls(record, place, place)

    @property
    def points(self) -> tuple[_Point, _Point]:
        """Return both points."""
        return self.begin, self.end

    def at(self, times: Mapping[_Point, float]) -> Record:
        """Return the record with other times for its points."""
        record, begin, end = self.record, times[self.begin], times[self.end]
        match record:
            case Delivered():
                return replace(record, time=end, waited=end - begin - record.handled)
            case TimerFired():
                return replace(record, time=end, handled=end - begin)
            case CriCall() | StoreCommit():
                return replace(record, time=end, seconds=end - begin)
            case _:
                return replace(record, time=end)


def _one_after_the_other(points: Iterable[_Point]) -> dict[_Point, float]:
    """Return times of their own for points in time: many things happen at one moment of virtual time, and a replay
    repeats their order.
    """
    found: dict[_Point, float] = {}
    last = float("-inf")
    for point in sorted(set(points)):
        last = found[point] = max(point[0], last + APART)
    return found
