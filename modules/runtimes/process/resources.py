"""UpdateContainerResources, as far as a container without cgroups has resources to update."""

import contextlib
from pathlib import Path

from modules.runtimes.engine.errors import NotProvidedError
from modules.runtimes.shim.procfs import all_processes, descendants
from modules.runtimes.shim.protocol import Pid
from protos.cri.v1 import api_pb2 as cri


def check_resources(current: cri.LinuxContainerResources, wanted: cri.LinuxContainerResources, attempt: str) -> None:
    """Raise NotProvidedError if anything but the OOM score changes: all other resources need control groups."""
    others = cri.LinuxContainerResources()
    others.CopyFrom(wanted)
    others.oom_score_adj = current.oom_score_adj
    if others not in (current, cri.LinuxContainerResources(oom_score_adj=current.oom_score_adj)):
        raise NotProvidedError(attempt, "this runtime enforces no CPU or memory limits, so there are none to change")


def set_oom_score(main_pid: int, score: int) -> None:
    """Set the OOM score of all processes of a container, found by its main process."""
    processes = all_processes()
    main = processes.get(Pid(main_pid))
    for stat in descendants(main.parent, processes) if main else ():
        with contextlib.suppress(OSError):  # it has ended, or lowering takes CAP_SYS_RESOURCE
            Path(f"/proc/{stat.pid}/oom_score_adj").write_text(str(score))
