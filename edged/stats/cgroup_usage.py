"""Resource usage of a pod's control group as edged's statistics have it."""

from collections.abc import Iterable

from edged.api import Nanoseconds
from edged.cgroups.hierarchies import Hierarchy
from edged.cgroups.names import CgroupPath
from edged.cgroups.usage import UsageFiles
from edged.stats.usage import ResourceUsage


class CgroupUsage:
    """Reads the resource usage of control groups.

    Args:
        hierarchies: of the machine, the unified one with its controllers.
    """

    def __init__(self, hierarchies: Iterable[Hierarchy]) -> None:
        self._files = UsageFiles(hierarchies)

    def read(self, path: CgroupPath, at: Nanoseconds) -> ResourceUsage | None:
        """Return the current usage; None for a missing cgroup, or one without controllers."""
        usage = self._files.read(path)
        return None if usage is None else ResourceUsage(at, *usage)
