"""The events of sandboxes and containers (GetContainerEvents), which spare the client from relisting."""

import queue
import threading
from collections.abc import Iterator
from typing import Any

from beehive.clock import Clock
from modules.runtimes.engine.errors import TooManyError
from modules.runtimes.engine.model import RuntimeContainer, Sandbox
from modules.runtimes.engine.records import SandboxId
from modules.runtimes.engine.registry import Registry
from modules.runtimes.engine.views import container_status, sandbox_status
from protos.cri.v1 import api_pb2 as cri

_BACKLOG = 1000
"""Largest number of events that wait for one reader. A slower reader is disconnected, and has to list again anyway."""

STREAM_LIMIT = 4
"""Largest number of readers; each occupies a thread of the server."""


class EventHub:
    """The hub that passes each event on to every open stream."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: set[EventStream] = set()

    def publish(self, event: cri.ContainerEventResponse) -> None:
        """Pass `event` on; never waits."""
        with self._lock:
            for stream in self._streams:
                stream.put(event)

    @property
    def has_readers(self) -> bool:
        """Whether any stream is open, so that events are needed."""
        return bool(self._streams)

    @property
    def takes_containers(self) -> bool:
        """Whether an open stream wants the statuses of containers."""
        with self._lock:
            return any(stream.takes_containers for stream in self._streams)

    def subscribe(self, *, takes_containers: bool = True) -> "EventStream":
        """Return a stream of the events from now on, which need no statuses of containers unless it takes them. Raises
        TooManyError.
        """
        with self._lock:
            if len(self._streams) >= STREAM_LIMIT:
                raise TooManyError("stream container events", f"{STREAM_LIMIT} streams are open already")
            stream = EventStream(self, takes_containers=takes_containers)
            self._streams.add(stream)
            return stream

    def close(self) -> None:
        """End all streams."""
        with self._lock:
            for stream in self._streams:
                stream.close()

    def unsubscribe(self, stream: "EventStream") -> None:
        """Forget a stream that has ended."""
        with self._lock:
            self._streams.discard(stream)


class EventStream:
    """The queued events of one reader."""

    def __init__(self, hub: EventHub, *, takes_containers: bool) -> None:
        self.takes_containers = takes_containers
        self._queue: queue.SimpleQueue[cri.ContainerEventResponse | None] = queue.SimpleQueue()
        self._hub = hub
        self._overrun = False

    def put(self, event: cri.ContainerEventResponse) -> None:
        """Add an event, or disconnect the reader if too many events wait for it."""
        if self._queue.qsize() < _BACKLOG:
            self._queue.put(event)
        elif not self._overrun:
            self._overrun = True
            self.close()

    def close(self) -> None:
        """End the stream after the events queued so far."""
        self._queue.put(None)

    def leave(self) -> None:
        """End the stream for a reader that has gone, also one that has not begun to read."""
        self._hub.unsubscribe(self)
        self.close()

    def __iter__(self) -> Iterator[cri.ContainerEventResponse]:
        """Yield events as they come, until closed. Raises TooManyError for a disconnected reader."""
        try:
            while (event := self._queue.get()) is not None:
                yield event
        finally:
            self._hub.unsubscribe(self)
        if self._overrun:
            reason = f"the reader was more than {_BACKLOG} events behind"
            raise TooManyError("stream container events", reason, "list, then stream again")


class Announcer:
    """The publisher of events with the statuses of their pods, so that clients need not ask; makes none while nobody
    reads.
    """

    def __init__(self, registry: Registry[Any], hub: EventHub, clock: Clock) -> None:
        self._registry = registry
        self._hub = hub
        self._clock = clock

    def started(self, container: RuntimeContainer) -> None:
        """Publish the start of a container."""
        self.container(cri.CONTAINER_STARTED_EVENT, container)

    def stopped(self, container: RuntimeContainer) -> None:
        """Publish the end of a container."""
        self.container(cri.CONTAINER_STOPPED_EVENT, container)

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
        containers = self._registry.containers(sandbox_id) if self._hub.takes_containers else ()
        event = cri.ContainerEventResponse(
            container_id=subject,
            container_event_type=kind,
            created_at=self._clock.now_ns(),
            pod_sandbox_status=sandbox_status(sandbox) if sandbox else None,
            containers_statuses=[container_status(each) for each in containers],
        )
        self._hub.publish(event)
