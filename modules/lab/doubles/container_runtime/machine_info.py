"""A machine whose facts and usage a test sets."""

from pathlib import Path

from edged.cri.contract import ContainerRuntime
from edged.eviction_api.usage import PodUsage
from edged.node.machine import FileSystem, MachineFacts, MachineInfo, MachineUsage

GIBIBYTE = 1 << 30
PLENTY = MachineUsage(
    memory_available=4 * GIBIBYTE,
    memory=8 * GIBIBYTE,
    node_fs=FileSystem(50 * GIBIBYTE, 100 * GIBIBYTE, 2_000_000, 4_000_000),
    image_fs=None,
    pids_free=30_000,
    pids=32_000,
)
"""Usage without any pressure."""


class FakeMachineInfo(MachineInfo):
    """A MachineInfo with the usage in its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.left = PLENTY
        """Usage and free resources of the machine."""
        self.usages: tuple[PodUsage, ...] = ()
        """Usage of the pods."""

    def machine(self, root: Path, node_ip: str = "") -> MachineFacts:  # noqa: ARG002 - it is always the same
        return MachineFacts(
            machine_id="m", system_uuid="s", boot_id="b", kernel="6.1", os_image="Debian", architecture="amd64",
            cpus=4, memory=self.left.memory, storage=self.left.node_fs.capacity, addresses=(node_ip or "192.0.2.2",),
        )  # fmt: skip

    def usage(self, root: Path, images: Path | None = None) -> MachineUsage:  # noqa: ARG002
        return self.left

    def pods(self, runtime: ContainerRuntime, *, anew: bool = False) -> tuple[PodUsage, ...]:  # noqa: ARG002
        return self.usages
