"""The machine's figures, told to a recorder whenever edged is told of others: they come from outside of it too."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from beehive.clock import Clock
from beehive.trace.format import Note, Record
from beehive.trace.redact import Redactor
from edged.cri.contract import ContainerRuntime
from edged.eviction.consumption import PodUsage
from edged.node.machine import Figures, Machine, Usage


class _Names(NamedTuple):
    kind: str
    """Of the notes."""
    machine: str
    """Their texts."""
    usage: str
    pods: str


FIGURES: Final = _Names("figures", "machine", "usage", "pods")


class FiguresEntry(msgspec.Struct, frozen=True):
    """What edged was told (`beehive.trace.entries.Entry`)."""

    time: float
    text: str
    data: Any

    @property
    def size(self) -> int:
        """Bytes of memory that it keeps, roughly."""
        return 1000

    def record(self, time: float, redactor: Redactor) -> Record:  # noqa: ARG002 - there is nothing secret in it
        """As it is written."""
        return Note(time, 0, 0, 0, FIGURES.kind, "edged", self.text, msgspec.to_builtins(self.data))


class RecordingFigures(Figures):
    """See the module's docstring.

    Args:
        figures: that are asked.
        clock: that times are taken from.
        add: takes each entry.
    """

    def __init__(self, figures: Figures, clock: Clock, add: Callable[[FiguresEntry], None]) -> None:
        super().__init__()
        self._figures = figures
        self._clock = clock
        self._add = add
        self._told: dict[str, Any] = {}

    def machine(self, root: Path, node_ip: str = "") -> Machine:
        """See `Figures`."""
        machine = self._figures.machine(root, node_ip)
        self._tell(FIGURES.machine, machine)
        return machine

    def usage(self, root: Path, images: Path | None = None) -> Usage:
        """See `Figures`."""
        usage = self._figures.usage(root, images)
        self._tell(FIGURES.usage, usage)
        return usage

    def pods(self, runtime: ContainerRuntime, *, anew: bool = False) -> tuple[PodUsage, ...]:
        """See `Figures`."""
        pods = self._figures.pods(runtime, anew=anew)
        self._tell(FIGURES.pods, pods)
        return pods

    def _tell(self, text: str, figures: Machine | Usage | tuple[PodUsage, ...]) -> None:
        if self._told.get(text) != figures:
            self._told[text] = figures
            self._add(FiguresEntry(self._clock.monotonic(), text, figures))
