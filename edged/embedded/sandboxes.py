"""The CRI operations on pod sandboxes: names that containers belong to, without a process; all share the host's
network.
"""

import contextlib
import socket
from pathlib import Path

import msgspec

from beehive.clock import Clock
from edged.embedded.announcer import Announcer
from edged.embedded.containers import EmbeddedContainers
from edged.embedded.errors import BadRequestError
from edged.embedded.model import EmbeddedSandbox
from edged.embedded.records import BootId, SandboxId, SandboxRecord
from edged.embedded.registry import Registry
from edged.embedded.state import RECORD, StateDirectory, discard, publish, write_record
from protos.cri.v1 import api_pb2 as cri

_SOMEWHERE = ("192.0.2.1", 9)
"""An address of the documentation range (RFC 5737): connecting a UDP socket to it sends nothing."""


class EmbeddedSandboxes:
    """Runs, stops and removes pod sandboxes.

    Stopping and removing may be repeated, and succeed for a missing sandbox, as CRI demands.
    """

    def __init__(
        self,
        state: StateDirectory,
        registry: Registry,
        containers: EmbeddedContainers,
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
        """Reserve the pod's name and attempt. Raises BadRequestError, NameReservedError."""
        _check(request)
        sandbox_id = SandboxId(f"{self._clock.random.getrandbits(256):064x}")
        record = SandboxRecord(self._clock.now_ns(), node_ip(), self._boot_id)
        sandbox = EmbeddedSandbox(sandbox_id, self._state.sandboxes / sandbox_id, request, record)
        self._registry.add_sandbox(sandbox)
        try:
            publish(sandbox.directory, request, record)
            if request.config.log_directory:
                Path(request.config.log_directory).mkdir(parents=True, exist_ok=True)
        except OSError:
            self._registry.remove_sandbox(sandbox_id)
            discard(sandbox.directory)
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


def current_boot_id() -> BootId:
    """Return the id of this boot of the machine."""
    return BootId(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())


def node_ip() -> str:
    """Return the machine's source address towards others, the IP of every pod here; 127.0.0.1 without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _check(request: cri.RunPodSandboxRequest) -> None:
    metadata = request.config.metadata
    attempt = f'run sandbox "{metadata.namespace}/{metadata.name}"'
    if not (metadata.name and metadata.namespace and metadata.uid):
        raise BadRequestError(attempt, "name, namespace and uid of the pod are needed")
    if request.runtime_handler:
        reason = f'there is no runtime handler "{request.runtime_handler}"'
        raise BadRequestError(attempt, reason, "leave runtimeClassName out of the pod")
    if request.config.log_directory and not request.config.log_directory.startswith("/"):
        raise BadRequestError(attempt, f'the log directory "{request.config.log_directory}" is not absolute')
