"""Records simulated nodes as `edgecore run --record` does, so that a failing run can be shown, explained and
replayed.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from beehive.delivery import DeliveryMode, DeliveryRecord, HiveEvent, TurnTaken
from beehive.hive import Hive
from beehive.simulation import EPOCH
from beehive.trace.entries import AnyEntry, EntrySink, RecorderNote, Serialiser
from beehive.trace.format import APART, FORMAT, SIMULATED, NoteKind, Record, TraceHeader
from beehive.trace.redact import Redactor
from beehive.trace.writer import FileWriter
from edged.cri.contract import ContainerRuntime
from edged.cri.recording import recording
from edged.node.machine import MachineInfo
from edged.node.recording import RecordingMachineInfo
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
        self._entries: list[AnyEntry] = []
        clock = hive.clock
        self._sink = EntrySink(clock, self._redactor, hive.next_span, self._entries.append)
        self._origin = clock.monotonic()
        self._header = TraceHeader(
            FORMAT, SIMULATED, node, clock.now(), seed, configuration, int(clock.now() - EPOCH) + 1,
            why="record",
        )  # fmt: skip
        self.delivered: Callable[[DeliveryRecord], None] = self._delivered
        self._handled: dict[int, int] = {}
        """When messages that modules sent to themselves were handled, as numbers between the spans, by their spans."""
        hive.taps.append(self)
        hive.watchers.append(self._happened)

    def _delivered(self, entry: DeliveryRecord) -> None:
        if entry.sender == entry.module and entry.mode is DeliveryMode.SEND:
            self._handled[entry.span] = self._hive.next_span()
        self._entries.append(entry)

    def _happened(self, happened: HiveEvent) -> None:
        if not isinstance(happened, TurnTaken):  # in virtual time all of a moment happens at once, as in a replay
            self._entries.append(happened)
        elif happened.name == WRITTEN:
            self._entries.append(RecorderNote(happened.time, OUTBOX, WRITTEN))

    def clock_jumped(self, seconds: float) -> None:
        """Record a jump of the machine's wall clock."""
        text = f"the wall clock jumped by {seconds:+.3f} s"
        self._entries.append(RecorderNote(self._hive.clock.monotonic(), NoteKind.CLOCK, text, seconds))

    def store(self, store: Store) -> Store:
        """Wrap a store so that it is recorded."""
        return RecordingStore(store, self._sink)

    def runtime(self, runtime: ContainerRuntime) -> ContainerRuntime:
        """Wrap a container runtime so that it is recorded."""
        return recording(runtime, self._sink)

    def machine_info(self, machine_info: MachineInfo) -> MachineInfo:
        """Wrap the machine info so that it is recorded."""
        return RecordingMachineInfo(machine_info, self._sink)

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
        records = map(serialiser.record, sorted(self._entries, key=lambda entry: entry.time))
        in_order = sorted(records, key=lambda record: (record.time, self._handled.get(record.span, record.span)))
        with contextlib.closing(FileWriter(path, self._header)) as writer:
            writer.write(_one_after_the_other(in_order))


def _one_after_the_other(records: Iterable[Record]) -> Iterator[Record]:
    """Yield records with times of their own: many things happen at one moment of virtual time, in an order that spans
    do not tell of messages that waited in their sender's own inbox.
    """
    last = float("-inf")
    for record in records:
        last = max(record.time, last + APART)
        yield record if last == record.time else msgspec.structs.replace(record, time=last)
