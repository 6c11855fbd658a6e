"""Takes over the sandboxes and containers of an earlier edgecore, even after a loss of power or with a failing disk.

Readable entries are taken over. Others are set aside and the start goes on: a sandbox or container whose name or pod is
missing, and the older of two with one name. No process goes on unnoticed: if a container or its sandbox is not taken
over, its processes are killed, and edged starts the pod again.
"""

from pathlib import Path
from typing import Generic

import msgspec

from modules.runtimes.engine.driver import Driver, EngineParts
from modules.runtimes.engine.errors import NameReservedError
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.records import (
    BootId,
    ContainerId,
    ContainerRecord,
    SandboxId,
    SandboxRecord,
    current_boot_id,
)
from modules.runtimes.engine.registry import ContainerT
from modules.runtimes.engine.state import RECORD, REQUEST, entries, read_container_request, read_record, read_request
from protos.cri.v1 import api_pb2 as cri

_UNREADABLE = "its record or request cannot be read"
_NAME_TAKEN = "a newer one has its name"
_NO_SANDBOX = "its sandbox is not there"


class Recovery(Generic[ContainerT]):
    """Fills a registry from a state directory, once, before the server answers requests."""

    def __init__(self, parts: EngineParts[ContainerT], driver: Driver[ContainerT]) -> None:
        self._state = parts.state
        self._registry = parts.registry
        self._driver = driver
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
            container = self._read(directory)
            if container is None:
                self._give_up(directory, _UNREADABLE)
            else:
                found.append(container)
        for container in sorted(found, key=lambda each: each.record.created_at, reverse=True):
            self._take_over(container)

    def _read(self, directory: Path) -> ContainerT | None:
        """Return the container of a directory; None when its files cannot be read."""
        record, request = read_record(directory / RECORD, ContainerRecord), read_container_request(directory)
        if record is None or request is None:
            return None
        return self._driver.container(ContainerId(directory.name), directory, request, record)

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
        self._driver.adopt(container, rebooted=sandbox.record.boot_id != self._boot_id)

    def _give_up(self, directory: Path, why: str) -> None:
        """Kill the processes and set the directory aside. If they survive SIGKILL, it stays where it is: the next start
        tries again.
        """
        if self._driver.end_unknown(directory):
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
