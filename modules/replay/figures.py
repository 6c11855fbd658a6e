"""The machine's figures in a replay: the recorded ones where the trace has them."""

from pathlib import Path
from typing import Final, TypeVar

import msgspec

from beehive.clock import Clock
from beehive.trace import Note
from edged.cri.contract import ContainerRuntime
from edged.eviction.consumption import PodUsage
from edged.node.machine import Figures, FileSystem, Machine, Usage
from edged.node.recording import FIGURES

T = TypeVar("T")
NEAR: Final = 1.0
"""Seconds by which a look may come early."""
GIBIBYTE: Final = 1 << 30
_MACHINE: Final = Machine(
    machine_id="replay",
    system_uuid="replay",
    boot_id="replay",
    kernel="0",
    os_image="Replay",
    architecture="amd64",
    cpus=1,
    memory=4 * GIBIBYTE,
    storage=64 * GIBIBYTE,
    addresses=("192.0.2.1",),
)
_DISK: Final = FileSystem(32 * GIBIBYTE, 64 * GIBIBYTE, 2_000_000, 4_000_000)
_USAGE: Final = Usage(2 * GIBIBYTE, 4 * GIBIBYTE, _DISK, None, 16_000, 32_000)


class RecordedFigures(Figures):
    """See the module's docstring.

    Args:
        clock: of the replay.
        notes: of the trace, in their order.
    """

    def __init__(self, clock: Clock, notes: list[Note]) -> None:
        super().__init__()
        self._clock = clock
        self._machines = [(n.time, msgspec.convert(n.data, Machine)) for n in notes if n.text == FIGURES.machine]
        self._usages = [(n.time, msgspec.convert(n.data, Usage)) for n in notes if n.text == FIGURES.usage]
        self._pods = [(n.time, msgspec.convert(n.data, tuple[PodUsage, ...])) for n in notes if n.text == FIGURES.pods]

    @property
    def known(self) -> bool:
        """Whether the trace has any."""
        return bool(self._machines)

    @property
    def address(self) -> str:
        """What the node reported as its first address in the beginning."""
        return (self._machines[0][1] if self._machines else _MACHINE).addresses[0]

    def machine(self, root: Path, node_ip: str = "") -> Machine:  # noqa: ARG002 - as the kernel's
        return self._latest(self._machines, _MACHINE)

    def usage(self, root: Path, images: Path | None = None) -> Usage:  # noqa: ARG002
        return self._latest(self._usages, _USAGE)

    def pods(self, runtime: ContainerRuntime, *, anew: bool = False) -> tuple[PodUsage, ...]:  # noqa: ARG002
        return self._latest(self._pods, ())

    def _latest(self, told: list[tuple[float, T]], default: T) -> T:
        """What was told last until now; what was told a moment later is meant when a look comes a little early."""
        now = self._clock.monotonic() + NEAR
        return next((figures for time, figures in reversed(told) if time <= now), told[0][1] if told else default)
