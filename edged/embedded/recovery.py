"""Takes over the sandboxes and containers of an earlier edgecore, even after a loss of power or with a failing disk.

Readable entries are taken over. Others are set aside and the start goes on: a sandbox or container whose name or pod is
missing, and the older of two with one name. Nothing runs on unseen: the processes of a container that is not taken
over, or whose sandbox is not, are killed, and its pod is started anew.
"""

from pathlib import Path

import msgspec

from edged.embedded.errors import NameReservedError
from edged.embedded.model import EmbeddedContainer, EmbeddedSandbox
from edged.embedded.records import BootId, ContainerId, ContainerRecord, SandboxId, SandboxRecord
from edged.embedded.registry import Registry
from edged.embedded.sandboxes import current_boot_id
from edged.embedded.shim_manager import ShimManager
from edged.embedded.state import RECORD, REQUEST, StateDirectory, entries, read_record, read_request
from protos.cri.v1 import api_pb2 as cri

_UNREADABLE = "its record or request cannot be read"
_NAME_TAKEN = "a newer one has its name"
_NO_SANDBOX = "its sandbox is not there"


class Recovery:
    """Fills a registry from a state directory, once, before the server answers requests."""

    def __init__(self, state: StateDirectory, registry: Registry, shims: ShimManager) -> None:
        self._state = state
        self._registry = registry
        self._shims = shims
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
            container = _container(directory)
            if container is None:
                self._give_up(directory, _UNREADABLE)
            else:
                found.append(container)
        for container in sorted(found, key=lambda each: each.record.created_at, reverse=True):
            self._take_over(container)

    def _take_over(self, container: EmbeddedContainer) -> None:
        sandbox = self._registry.find_sandbox(container.sandbox_id)
        if sandbox is None:
            self._give_up(container.directory, _NO_SANDBOX)
            return
        try:
            self._registry.adopt_container(container)
        except NameReservedError:
            self._give_up(container.directory, _NAME_TAKEN)
            return
        self._shims.find(container, rebooted=sandbox.record.boot_id != self._boot_id)

    def _give_up(self, directory: Path, why: str) -> None:
        """Kill the processes and set the directory aside. If they survive SIGKILL, it stays where it is: the next start
        tries again.
        """
        if self._shims.end_unknown(directory):
            self._state.set_aside(directory, why)


def _sandbox(directory: Path, boot_id: BootId) -> EmbeddedSandbox | None:
    record = read_record(directory / RECORD, SandboxRecord)
    request = cri.RunPodSandboxRequest()
    if record is None or not read_request(directory / REQUEST, request):
        return None
    metadata = request.config.metadata
    if not (metadata.name and metadata.namespace and metadata.uid):
        return None
    if record.boot_id != boot_id:
        record = msgspec.structs.replace(record, stopped=True)
    return EmbeddedSandbox(SandboxId(directory.name), directory, request, record)


def _container(directory: Path) -> EmbeddedContainer | None:
    record = read_record(directory / RECORD, ContainerRecord)
    request = cri.CreateContainerRequest()
    if record is None or not read_request(directory / REQUEST, request):
        return None
    if not (request.pod_sandbox_id and request.config.metadata.name and request.config.command):
        return None
    return EmbeddedContainer(ContainerId(directory.name), directory, request, record)
