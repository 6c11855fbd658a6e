"""What of this machine is used, for the checks of jobs."""

import os
import time
from pathlib import Path
from typing import Final

from edged.stats.procfs_usage import ProcfsUsage, file_system
from modules.apimachinery.types import Nanoseconds
from modules.edge.taskmanager.checks import MachineReading
from modules.processes.edgecore.config import EdgeCoreConfig

_SECOND: Final = 1e9
_AT: Final = Nanoseconds(0)


class MachineUsage:
    """The reader of this machine (`CheckedMachine`): its memory, its processors, and the disks of `/` and of edged.

    What a file system keeps for root is neither used nor there to be used, as for `df` and KubeEdge (gopsutil).

    Args:
        config: of the node.
    """

    def __init__(self, config: EdgeCoreConfig) -> None:
        self._directories = dict.fromkeys((Path("/"), config.modules.edged.root_directory))

    def read(self) -> MachineReading:
        """Return the present usage."""
        node = ProcfsUsage().node(_AT)
        disks = {}
        for directory in self._directories:
            found = file_system(directory, _AT)
            if found is not None and found.capacity_bytes:
                used = found.used_bytes or 0
                disks[str(directory)] = used / max(used + (found.available_bytes or 0), 1)
        memory = (node.working_set or 0) / node.limit if node.limit else 0.0
        busy = (node.cpu or 0) / _SECOND
        return MachineReading(time.monotonic(), busy, os.cpu_count() or 1, memory, disks)
