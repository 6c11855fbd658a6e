"""Records the nodes of a run as `edgecore run --record` does: a failing run can be shown, explained and replayed.

A node's trace has a header for each life of its process.
"""

import contextlib
from pathlib import Path
from typing import Any

from beehive.delivery import Happened
from beehive.hive import Hive
from beehive.simulation import EPOCH
from beehive.trace.entries import Kept, Serialiser
from beehive.trace.format import FORMAT, Header
from beehive.trace.redact import Redactor
from beehive.trace.writer import FileWriter
from edged.cri.contract import ContainerRuntime
from edged.cri.recording import recording
from edged.node.machine import Figures
from edged.node.recording import RecordingFigures
from edgehub.link import LinkFactory
from edgehub.outbox.recording import recording as recorded_outbox
from edgehub.outbox.store import OpenOutbox
from edgehub.recording import RecordingLinks
from metamanager.recording import RecordingStore
from metamanager.store import Store


class LifeRecorder:
    """Keeps what happens in one life of a node's process.

    Args:
        hive: not started yet.
        node: its name.
        seed: of the run.
        configuration: of the node.
    """

    def __init__(self, hive: Hive, node: str, seed: int, configuration: dict[str, Any]) -> None:
        self._hive = hive
        self._redactor = Redactor()
        self._entries: list[Kept] = []
        clock = hive.clock
        self._origin = clock.monotonic()
        self._header = Header(
            FORMAT, "edgecore simulate", node, clock.now(), seed, configuration, int(clock.now() - EPOCH) + 1,
            why="record",
        )  # fmt: skip
        self.delivered = self._entries.append
        hive.taps.append(self)
        hive.watchers.append(self._happened)

    def _happened(self, happened: Happened) -> None:
        self._entries.append(happened)

    def store(self, store: Store) -> Store:
        """A store, recorded."""
        return RecordingStore(store, self._hive.clock, self._hive.next_span, self._entries.append, self._redactor.learn)

    def runtime(self, runtime: ContainerRuntime) -> ContainerRuntime:
        """A container runtime, recorded."""
        return recording(runtime, self._hive.clock, self._hive.next_span, self._entries.append)

    def figures(self, figures: Figures) -> Figures:
        """The machine's figures, recorded."""
        return RecordingFigures(figures, self._hive.clock, self._entries.append)

    def links(self, make: LinkFactory) -> LinkFactory:
        """Links, recorded."""
        return RecordingLinks(make, self._hive.clock, self._hive.next_span, self._entries.append, self._redactor.frame)

    def outbox(self, open_outbox: OpenOutbox) -> OpenOutbox:
        """Opens the outbox, recorded."""
        return recorded_outbox(open_outbox, self._hive.clock, self._entries.append)

    def write(self, path: Path) -> None:
        """Append this life to a trace.

        Raises:
            TraceError: it could not be written.
        """
        serialiser = Serialiser(self._origin, self._redactor)
        with contextlib.closing(FileWriter(path, self._header)) as writer:
            writer.write(map(serialiser.record, sorted(self._entries, key=lambda entry: entry.time)))
