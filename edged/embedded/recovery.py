"""Finding again what an earlier edgecore had made, whatever a loss of power or a failing disk has left of it.

What can be read is taken over. What cannot is set aside, and the start goes on: a sandbox or container that says
neither whose it is nor what it is called, and of two with one name the older one. Nothing runs on unseen: of a
container that is not taken over, or whose sandbox is not, the processes are ended, and its pod is started anew.
"""

from pathlib import Path

import msgspec

from edged.embedded.errors import AlreadyExistsError
from edged.embedded.model import Container, Sandbox
from edged.embedded.records import BootId, ContainerId, ContainerRecord, SandboxId, SandboxRecord
from edged.embedded.registry import Registry
from edged.embedded.sandboxes import current_boot_id
from edged.embedded.shepherds import Shepherds
from edged.embedded.state import RECORD, REQUEST, StateDirectory, entries, read_record, read_request
from protos.cri.v1 import api_pb2 as cri

_UNREADABLE = "its record or request cannot be read"
_NAME_TAKEN = "a newer one has its name"
_NO_SANDBOX = "its sandbox is not there"


class Recovery:
    """Fills a registry from a state directory, once, before anything is asked."""

    def __init__(self, state: StateDirectory, registry: Registry, shepherds: Shepherds) -> None:
        self._state = state
        self._registry = registry
        self._shepherds = shepherds
        self._boot_id = current_boot_id()

    def run(self) -> None:
        """Find everything."""
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
            except AlreadyExistsError:
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

    def _take_over(self, container: Container) -> None:
        sandbox = self._registry.find_sandbox(container.sandbox_id)
        if sandbox is None:
            self._give_up(container.directory, _NO_SANDBOX)
            return
        try:
            self._registry.adopt_container(container)
        except AlreadyExistsError:
            self._give_up(container.directory, _NAME_TAKEN)
            return
        self._shepherds.find(container, rebooted=sandbox.record.boot_id != self._boot_id)

    def _give_up(self, directory: Path, why: str) -> None:
        """One whose processes do not even die by SIGKILL stays where it is: the next start tries again."""
        if self._shepherds.end_unknown(directory):
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


def _container(directory: Path) -> Container | None:
    record = read_record(directory / RECORD, ContainerRecord)
    request = cri.CreateContainerRequest()
    if record is None or not read_request(directory / REQUEST, request):
        return None
    if not (request.pod_sandbox_id and request.config.metadata.name and request.config.command):
        return None
    return Container(ContainerId(directory.name), directory, request, record)
