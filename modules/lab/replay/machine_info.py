"""The machine's sizes and usage in a replay."""

from pathlib import Path
from typing import Final, TypeVar

from beehive.clock import Clock
from beehive.decoding import convert
from beehive.trace import Note
from edged.cri.contract import ContainerRuntime
from edged.eviction_api.usage import PodUsage
from edged.node.machine import FileSystem, MachineFacts, MachineInfo, MachineUsage
from edged.node.recording import MACHINE_NOTES

T = TypeVar("T")
NEAR: Final = 1.0
"""Seconds that a reading may come early."""
GIBIBYTE: Final = 1 << 30
_MACHINE: Final = MachineFacts(
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
_USAGE: Final = MachineUsage(2 * GIBIBYTE, 4 * GIBIBYTE, _DISK, None, 16_000, 32_000)


class RecordedMachineInfo(MachineInfo):
    """The recorded machine info where the trace has it, else a small default machine's.

    Args:
        clock: clock of the replay.
        notes: notes of the trace, in their order.
    """

    def __init__(self, clock: Clock, notes: list[Note]) -> None:
        super().__init__()
        self._clock = clock
        self._machines = [(n.time, convert(n.data, MachineFacts)) for n in notes if n.text == MACHINE_NOTES.machine]
        self._usages = [(n.time, convert(n.data, MachineUsage)) for n in notes if n.text == MACHINE_NOTES.usage]
        self._pods = [(n.time, convert(n.data, tuple[PodUsage, ...])) for n in notes if n.text == MACHINE_NOTES.pods]

    @property
    def known(self) -> bool:
        """Whether the trace has any machine info."""
        return bool(self._machines)

    @property
    def address(self) -> str:
        """The first address that the node reported."""
        return (self._machines[0][1] if self._machines else _MACHINE).addresses[0]

    def machine(self, root: Path, node_ip: str = "") -> MachineFacts:  # noqa: ARG002 - as the kernel's
        return self._latest(self._machines, _MACHINE)

    def usage(self, root: Path, images: Path | None = None) -> MachineUsage:  # noqa: ARG002
        return self._latest(self._usages, _USAGE)

    def pods(self, runtime: ContainerRuntime, *, anew: bool = False) -> tuple[PodUsage, ...]:  # noqa: ARG002
        return self._latest(self._pods, ())

    def _latest(self, recorded: list[tuple[float, T]], default: T) -> T:
        """Return the last value until now. A value recorded up to `NEAR` later counts too, for a reading that comes a
        little early.
        """
        now = self._clock.monotonic() + NEAR
        return next(
            (value for time, value in reversed(recorded) if time <= now), recorded[0][1] if recorded else default
        )
