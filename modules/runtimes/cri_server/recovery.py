"""Takes over the sandboxes and containers of an earlier edgecore, even after a loss of power or with a failing disk.

Readable entries are taken over. Others are set aside and the start goes on: a sandbox or container whose name or pod is
missing, and the older of two with one name. No process goes on unnoticed: if a container or its sandbox is not taken
over, its processes are killed, and edged starts the pod anew.
"""

from pathlib import Path
from typing import Generic, Protocol

import msgspec

from modules.runtimes.cri_server.errors import NameReservedError
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.cri_server.records import BootId, SandboxId, SandboxRecord, current_boot_id
from modules.runtimes.cri_server.registry import ContainerT, Registry
from modules.runtimes.cri_server.state import RECORD, REQUEST, StateDirectory, entries, read_record, read_request
from protos.cri.v1 import api_pb2 as cri

_UNREADABLE = "its record or request cannot be read"
_NAME_TAKEN = "a newer one has its name"
_NO_SANDBOX = "its sandbox is not there"


class _Keeper(Protocol[ContainerT]):
    def read(self, directory: Path) -> ContainerT | None:
        """Return the container of a directory; None when its files cannot be read."""

    def find(self, container: ContainerT, *, rebooted: bool = False) -> None:
        """Find the state of a container of an earlier edgecore."""

    def end_unknown(self, directory: Path) -> bool:
        """Kill the processes of a container without readable records; return whether all have ended."""


class Recovery(Generic[ContainerT]):
    """Fills a registry from a state directory, once, before the server answers requests.

    `keeper` knows the processes of this kind of container.
    """

    def __init__(
        self, state: StateDirectory, registry: Registry[Sandbox, ContainerT], keeper: _Keeper[ContainerT]
    ) -> None:
        self._state = state
        self._registry = registry
        self._keeper = keeper
        self._boot_id = current_boot_id()

    def run(self) -> None:
        """Take over all sandboxes, then all containers."""
        self._find_sandboxes()
        self._find_containers()

    def _find_sandboxes(self) -> None:
        found = []
        for directory in entries(self._state.sandboxes):
            sandbox = _sandbox(directory, self._boot_id)
            if sandbox is None:
                self._state.set_aside(directory, _UNREADABLE)
            else:
                found.append(sandbox)
        for sandbox in sorted(found, key=lambda each: each.record.created_at, reverse=True):
            try:
                self._registry.add_sandbox(sandbox)
            except NameReservedError:
                self._state.set_aside(sandbox.directory, _NAME_TAKEN)

    def _find_containers(self) -> None:
        found = []
        for directory in entries(self._state.containers):
            container = self._keeper.read(directory)
            if container is None:
                self._give_up(directory, _UNREADABLE)
            else:
                found.append(container)
        for container in sorted(found, key=lambda each: each.record.created_at, reverse=True):
            self._take_over(container)

    def _take_over(self, container: ContainerT) -> None:
        sandbox = self._registry.find_sandbox(container.sandbox_id)
        if sandbox is None:
            self._give_up(container.directory, _NO_SANDBOX)
            return
        try:
            self._registry.adopt_container(container)
        except NameReservedError:
            self._give_up(container.directory, _NAME_TAKEN)
            return
        self._keeper.find(container, rebooted=sandbox.record.boot_id != self._boot_id)

    def _give_up(self, directory: Path, why: str) -> None:
        """Kill the processes and set the directory aside. If they survive SIGKILL, it stays where it is: the next start
        tries again.
        """
        if self._keeper.end_unknown(directory):
            self._state.set_aside(directory, why)


def _sandbox(directory: Path, boot_id: BootId) -> Sandbox | None:
    record = read_record(directory / RECORD, SandboxRecord)
    request = cri.RunPodSandboxRequest()
    if record is None or not read_request(directory / REQUEST, request):
        return None
    metadata = request.config.metadata
    if not (metadata.name and metadata.namespace and metadata.uid):
        return None
    if record.boot_id != boot_id:
        record = msgspec.structs.replace(record, stopped=True)
    return Sandbox(SandboxId(directory.name), directory, request, record)
