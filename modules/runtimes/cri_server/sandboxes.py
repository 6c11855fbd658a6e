"""The CRI operations on pod sandboxes: names that containers belong to, without a process."""

import contextlib
import logging
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Generic

import msgspec

from beehive.clock import Clock
from modules.runtimes.cri_server.announcer import Announcer
from modules.runtimes.cri_server.container_operations import ContainerOperations
from modules.runtimes.cri_server.errors import BadRequestError, RequestRefusedError
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.cri_server.records import SandboxId, SandboxRecord, current_boot_id
from modules.runtimes.cri_server.registry import ContainerT, Registry
from modules.runtimes.cri_server.state import RECORD, StateDirectory, discard, publish, write_record
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)


class SandboxOperations(ABC, Generic[ContainerT]):
    """Runs, stops and removes pod sandboxes.

    Stopping and removing may be repeated, and succeed for a missing sandbox, as CRI demands.
    """

    def __init__(
        self,
        state: StateDirectory,
        registry: Registry[Sandbox, ContainerT],
        containers: ContainerOperations[ContainerT],
        announcer: Announcer,
        clock: Clock,
    ) -> None:
        self._state = state
        self._registry = registry
        self._containers = containers
        self._announcer = announcer
        self._clock = clock
        self._boot_id = current_boot_id()

    def run(self, request: cri.RunPodSandboxRequest) -> SandboxId:
        """Reserve the pod's name and attempt, and set the sandbox up. Raises BadRequestError, NameReservedError."""
        check_sandbox(request)
        sandbox_id = self._new_id(request)
        sandbox = Sandbox(sandbox_id, self._state.sandboxes / sandbox_id, request, self._first_record())
        try:
            self._registry.add_sandbox(sandbox)
            publish(sandbox.directory, request, sandbox.record)
            if request.config.log_directory:
                Path(request.config.log_directory).mkdir(parents=True, exist_ok=True)
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
            sandbox.record = msgspec.structs.replace(sandbox.record, stopped=True)
            with contextlib.suppress(OSError):  # a full disk; nothing starts in it as long as this edgecore knows that
                write_record(sandbox.directory / RECORD, sandbox.record)
        for container in self._registry.containers(sandbox.id):
            self._containers.settle_and_kill(container)
        self._release(sandbox)
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

    def _give_up(self, sandbox: Sandbox) -> None:
        """Remove a sandbox that could not be set up; if that fails too, it stays as a sandbox that is not ready."""
        try:
            self._release(sandbox)
        except (RequestRefusedError, OSError) as error:
            _log.warning("a sandbox that could not be made stays until it is removed: %s", error)
            return
        self._registry.remove_sandbox(sandbox.id)
        discard(sandbox.directory)

    def _new_id(self, request: cri.RunPodSandboxRequest) -> SandboxId:  # noqa: ARG002 - of a pod, where others give ids
        """Return the id of a new sandbox."""
        return SandboxId(f"{self._clock.random.getrandbits(256):064x}")

    @abstractmethod
    def _first_record(self) -> SandboxRecord:
        """Return the record of a new sandbox."""

    def _set_up(self, sandbox: Sandbox) -> None:
        """Set up the resources that the sandbox has outside its directory."""

    def _release(self, sandbox: Sandbox) -> None:
        """Release the resources that the sandbox has outside its directory, when none of its containers runs. May be
        repeated.
        """


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
