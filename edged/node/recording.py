"""RecordingMachineInfo: writes the facts and usage of the machine into a recording."""

from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from beehive.trace.entries import EntrySink
from beehive.trace.format import Note, Record
from beehive.trace.redact import Redactor
from edged.cri.contract import ContainerRuntime
from edged.eviction_api.usage import PodUsage
from edged.node.machine import MachineFacts, MachineInfo, MachineUsage


class _Names(NamedTuple):
    kind: str
    """Kind of the notes."""
    machine: str
    """Texts of the notes."""
    usage: str
    pods: str


MACHINE_NOTES: Final = _Names("figures", "machine", "usage", "pods")


class MachineInfoEntry(msgspec.Struct, frozen=True):
    """Facts or usage that edged has received (`beehive.trace.entries.Entry`)."""

    time: float
    text: str
    data: Any

    @property
    def size(self) -> int:
        """Bytes of memory that the entry takes, roughly."""
        return 1000

    def record(self, time: float, redactor: Redactor) -> Record:  # noqa: ARG002 - there is nothing secret in it
        """Return the note of the entry."""
        return Note(time, 0, 0, 0, MACHINE_NOTES.kind, "edged", self.text, msgspec.to_builtins(self.data))


class RecordingMachineInfo(MachineInfo):
    """Records the facts and usage of the machine whenever edged receives others than before: a replay has no machine.

    Args:
        figures: the source.
        sink: takes a `MachineInfoEntry` for each of them.
    """

    def __init__(self, figures: MachineInfo, sink: EntrySink) -> None:
        super().__init__()
        self._figures = figures
        self._sink = sink
        self._told: dict[str, Any] = {}

    def machine(self, root: Path, node_ip: str = "") -> MachineFacts:
        """See `MachineInfo`."""
        machine = self._figures.machine(root, node_ip)
        self._tell(MACHINE_NOTES.machine, machine)
        return machine

    def usage(self, root: Path, images: Path | None = None) -> MachineUsage:
        """See `MachineInfo`."""
        usage = self._figures.usage(root, images)
        self._tell(MACHINE_NOTES.usage, usage)
        return usage

    def pods(self, runtime: ContainerRuntime, *, anew: bool = False) -> tuple[PodUsage, ...]:
        """See `MachineInfo`."""
        pods = self._figures.pods(runtime, anew=anew)
        self._tell(MACHINE_NOTES.pods, pods)
        return pods

    def _tell(self, text: str, figures: MachineFacts | MachineUsage | tuple[PodUsage, ...]) -> None:
        if self._told.get(text) != figures:
            self._told[text] = figures
            self._sink.add(MachineInfoEntry(self._sink.monotonic(), text, figures))
