"""The control group of a pod's first process: a child of the pod's, like its containers' groups."""

import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from edged.cgroups.errors import CgroupError
from edged.cgroups.knobs import CONTROLLERS
from edged.cgroups.names import CgroupPath
from edged.cgroups.opening import machine_hierarchies
from edged.cgroups.tree import CgroupFiles

_log = logging.getLogger(__name__)

_FILE: Final = "group"
"""File with the path of the control group, in the directory of the sandbox's namespaces."""
_PROCESSES: Final = "cgroup.procs"


def enter_control_group(directory: Path, group: str, pid: int) -> None:
    """Move a process into a control group, which is made. If that fails, it stays in edgecore's, with a line in the
    log.

    Args:
        directory: of the sandbox's namespaces; `leave_control_group` finds the group there.
        group: its path below the mount of each hierarchy.
        pid: of the process.
    """
    hierarchies = machine_hierarchies()
    used = [each for each in hierarchies if set(each.controllers) & set(CONTROLLERS)]
    try:
        (directory / _FILE).write_text(group)
        CgroupFiles(hierarchies).make(CgroupPath(group))
        for each in used:
            (each.mount / group.strip("/") / _PROCESSES).write_text(str(pid))
    except (CgroupError, OSError) as error:
        _log.warning("the first process of a pod counts for edgecore, not for its pod: %s", error)


def leave_control_group(directory: Path) -> None:
    """Remove the control group of a first process that has ended; there may be none."""
    try:
        group = (directory / _FILE).read_text()
    except OSError:
        return
    if group:
        with suppress(CgroupError):  # the removal of the pod's own group removes it, too
            CgroupFiles(machine_hierarchies()).remove(CgroupPath(group))
