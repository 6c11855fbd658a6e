"""UpdateContainerResources, as far as a container without cgroups has resources to update."""

import contextlib
from pathlib import Path

from modules.runtimes.cri_server.errors import NotProvidedError
from modules.runtimes.cri_server.state import write_container_request
from modules.runtimes.process.model import EmbeddedContainer
from modules.runtimes.shim.procfs import all_processes, descendants
from modules.runtimes.shim.protocol import Pid
from protos.cri.v1 import api_pb2 as cri


def update_resources(container: EmbeddedContainer, wanted: cri.LinuxContainerResources) -> None:
    """Apply a new OOM score; all other resources need cgroups. Raises NotProvidedError if one of them changes."""
    current = container.config.linux.resources
    others = cri.LinuxContainerResources()
    others.CopyFrom(wanted)
    others.oom_score_adj = current.oom_score_adj
    if others not in (current, cri.LinuxContainerResources(oom_score_adj=current.oom_score_adj)):
        reason = "the embedded runtime enforces no CPU or memory limits, so there are none to change"
        raise NotProvidedError(f"update the resources of container {container.id}", reason)
    current.oom_score_adj = wanted.oom_score_adj
    write_container_request(container.directory, container.request)
    if container.state == cri.CONTAINER_RUNNING and container.run is not None:
        _set_oom_score(container.run.pid, wanted.oom_score_adj)


def _set_oom_score(main_pid: int, score: int) -> None:
    processes = all_processes()
    main = processes.get(Pid(main_pid))
    for stat in descendants(main.parent, processes) if main else ():
        with contextlib.suppress(OSError):  # it has ended, or lowering takes CAP_SYS_RESOURCE
            Path(f"/proc/{stat.pid}/oom_score_adj").write_text(str(score))
