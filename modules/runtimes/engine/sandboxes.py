"""The CRI operations on pod sandboxes."""

import logging
from pathlib import Path
from typing import Generic

import msgspec

from modules.runtimes.engine.containers import Containers
from modules.runtimes.engine.driver import Driver, EngineParts
from modules.runtimes.engine.errors import BadRequestError, RequestRefusedError
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.records import SandboxId, SandboxRecord, current_boot_id
from modules.runtimes.engine.registry import ContainerT
from modules.runtimes.engine.state import RECORD, discard, publish, write_record
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)


class Sandboxes(Generic[ContainerT]):
    """Runs, stops and removes pod sandboxes.

    Stopping and removing may be repeated, and succeed for a missing sandbox, as CRI demands.
    """

    def __init__(
        self, parts: EngineParts[ContainerT], driver: Driver[ContainerT], containers: Containers[ContainerT]
    ) -> None:
        self._directory = parts.state.sandboxes
        self._registry = parts.registry
        self._announcer = parts.announcer
        self._clock = parts.clock
        self._driver = driver
        self._containers = containers
        self._boot_id = current_boot_id()

    def run(self, request: cri.RunPodSandboxRequest) -> SandboxId:
        """Reserve the pod's name and attempt, and set the sandbox up.

        The record of a sandbox that the driver has to set up is not ready until that is done: a crash before leaves a
        sandbox that is removed later.

        Raises:
            RequestRefusedError: it is wrong, its name is reserved, or it cannot be set up.
        """
        self._driver.check_sandbox(request)
        check_sandbox(request)
        sandbox_id, ip = self._driver.new_sandbox_id(request), self._driver.node_address()
        record = SandboxRecord(self._clock.now_ns(), ip, self._boot_id, stopped=not ip)
        sandbox = Sandbox(sandbox_id, self._directory / sandbox_id, request, record)
        try:
            self._registry.add_sandbox(sandbox)
            publish(sandbox.directory, request, record)
            if request.config.log_directory:
                Path(request.config.log_directory).mkdir(parents=True, exist_ok=True)
            if not ip:
                self._set_up(sandbox)
        except BaseException:
            self._give_up(sandbox)
            raise
        self._announcer.sandbox(cri.CONTAINER_CREATED_EVENT, sandbox)
        self._announcer.sandbox(cri.CONTAINER_STARTED_EVENT, sandbox)
        return sandbox_id

    def stop(self, sandbox_id: str) -> None:
        """Kill its running containers, and let none start from now on."""
        sandbox = self._registry.find_sandbox(sandbox_id)
        if sandbox is None:
            return
        first_time = not sandbox.record.stopped
        if first_time:
            sandbox.mark_stopped()
        for container in self._registry.containers(sandbox.id):
            self._containers.settle_and_kill(container)
        self._driver.stop_sandbox(sandbox)
        if first_time:
            self._announcer.sandbox(cri.CONTAINER_STOPPED_EVENT, sandbox)

    def remove(self, sandbox_id: str) -> None:
        """Stop the sandbox, remove its containers, and forget it."""
        sandbox = self._registry.find_sandbox(sandbox_id)
        if sandbox is None:
            return
        self.stop(sandbox_id)
        for container in self._registry.containers(sandbox.id):
            self._containers.remove(container.id)
        self._registry.remove_sandbox(sandbox.id)
        discard(sandbox.directory)
        self._announcer.sandbox(cri.CONTAINER_DELETED_EVENT, sandbox)

    def _set_up(self, sandbox: Sandbox) -> None:
        addresses = self._driver.run_sandbox(sandbox)
        changes = {"ip": addresses.ip, "additional_ips": addresses.additional, "stopped": False}
        record = msgspec.structs.replace(sandbox.record, **changes)
        write_record(sandbox.directory / RECORD, record)
        sandbox.record = record

    def _give_up(self, sandbox: Sandbox) -> None:
        """Remove a sandbox that could not be set up; if that fails too, it stays as a sandbox that is not ready."""
        try:
            self._driver.stop_sandbox(sandbox)
        except (RequestRefusedError, OSError) as error:
            _log.warning("a sandbox that could not be made stays until it is removed: %s", error)
            return
        self._registry.remove_sandbox(sandbox.id)
        discard(sandbox.directory)


def check_sandbox(request: cri.RunPodSandboxRequest) -> None:
    metadata = request.config.metadata
    attempt = f'run sandbox "{metadata.namespace}/{metadata.name}"'
    if not (metadata.name and metadata.namespace and metadata.uid):
        raise BadRequestError(attempt, "name, namespace and uid of the pod are needed")
    if request.runtime_handler:
        reason = f'there is no runtime handler "{request.runtime_handler}"'
        raise BadRequestError(attempt, reason, "leave runtimeClassName out of the pod")
    if request.config.log_directory and not request.config.log_directory.startswith("/"):
        raise BadRequestError(attempt, f'the log directory "{request.config.log_directory}" is not absolute')
