"""The events of sandboxes and containers, with their statuses, so that clients need not query them."""

from collections.abc import Sequence
from typing import Protocol

from beehive.clock import Clock
from modules.runtimes.cri_server.event_stream import EventHub
from modules.runtimes.cri_server.model import RuntimeContainer, Sandbox
from modules.runtimes.cri_server.records import SandboxId
from modules.runtimes.cri_server.views import container_status, sandbox_status
from protos.cri.v1 import api_pb2 as cri


class _Pods(Protocol):
    def find_sandbox(self, sandbox_id: str) -> Sandbox | None: ...

    def containers(self, of: SandboxId | None = None) -> Sequence[RuntimeContainer]: ...


class Announcer:
    """Publishes events to the readers of the event stream; makes none while nobody reads."""

    def __init__(self, registry: _Pods, hub: EventHub, clock: Clock) -> None:
        self._registry = registry
        self._hub = hub
        self._clock = clock

    def container(self, kind: cri.ContainerEventType.ValueType, container: RuntimeContainer) -> None:
        """Publish an event of a container."""
        self._announce(kind, container.id, container.sandbox_id)

    def sandbox(self, kind: cri.ContainerEventType.ValueType, sandbox: Sandbox) -> None:
        """Publish an event of a sandbox; as in containerd, it carries the sandbox's id as container id."""
        self._announce(kind, sandbox.id, sandbox.id)

    def _announce(self, kind: cri.ContainerEventType.ValueType, subject: str, sandbox_id: SandboxId) -> None:
        if not self._hub.has_readers:
            return
        sandbox = self._registry.find_sandbox(sandbox_id)
        event = cri.ContainerEventResponse(
            container_id=subject,
            container_event_type=kind,
            created_at=self._clock.now_ns(),
            pod_sandbox_status=sandbox_status(sandbox) if sandbox else None,
            containers_statuses=[container_status(each) for each in self._registry.containers(sandbox_id)],
        )
        self._hub.publish(event)
