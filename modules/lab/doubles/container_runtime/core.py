"""The state of the fake runtime, and its calls, which take time and fail on demand."""

import contextlib
import copy
import functools
import itertools
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

import grpc
import pykka

from beehive import Clock, Runtime
from beehive.inbox import Queue
from edged.cri.contract import ExecResult
from edged.cri.errors import ConnectionClosedError, CriError, NotFoundError
from protos.cri.v1 import api_pb2 as pb

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound="FakeCore")

KILLED = 137
"""Exit code after SIGKILL."""


class Shared(Generic[T]):
    """An attribute that all clients of one runtime share."""

    def __init__(self, default: T) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, client: "FakeCore", owner: type) -> T:
        value: T = client.shared.get(self._name, self._default)
        return value

    def __set__(self, client: "FakeCore", value: T) -> None:
        client.shared[self._name] = value


def call(
    method: "Callable[Concatenate[R, P], T]",
) -> "Callable[Concatenate[R, P], T]":
    """Decorate a call of the contract: it is counted, takes time, and fails on demand."""

    @functools.wraps(method)
    def called(self: R, *args: P.args, **kwargs: P.kwargs) -> T:
        error = self._begin(method.__name__)
        result = method(self, *args, **kwargs)
        self._finish(error)
        return result

    return cast("Callable[Concatenate[R, P], T]", called)


class FakeCore:
    """One client of the runtime, with the state that all of them share.

    Args:
        actors: source of time and futures.
        images: names of images that are present; others are pulled on request.
    """

    def __init__(self, actors: Runtime, images: Iterable[str] = ()) -> None:
        self._actors = actors
        self._clock: Clock = actors.clock
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._images = set(images)
        self._ended: dict[str, list[pykka.Future[None]]] = {}
        self._failures: dict[str, deque[tuple[CriError, bool]]] = {}
        self._closed = False
        self._under_way: dict[pykka.Future[None], None] = {}
        self._streams: list[Queue] = []
        """Event streams of all clients."""
        self._own_streams: list[Queue] = []
        self.shared: dict[str, Any] = {}
        self.sandboxes: dict[str, pb.PodSandboxStatus] = {}
        self.containers: dict[str, pb.ContainerStatus] = {}
        self.sandbox_configs: dict[str, pb.PodSandboxConfig] = {}
        self.configs: dict[str, pb.ContainerConfig] = {}
        self.sandbox_of: dict[str, str] = {}
        self.locked: dict[str, tuple[str, str]] = {}
        """User and password that an image's registry requires, by the image's full name."""
        self.image_sizes: dict[str, int] = {}
        """Bytes of an image by its name; 0 by default."""
        self.calls: Counter[str] = Counter()
        """Number of calls by name."""

    obeys = Shared(0.0)
    """Seconds from the stop signal to a container's end; infinity if it ignores the signal."""
    images_directory = Shared("")
    """Directory of images; if empty, the runtime reports none."""
    sandbox_image = Shared("")
    """Image of sandboxes in the runtime's configuration."""
    pull_seconds = Shared(0.0)
    """Seconds that a pull takes."""
    on_exec: Shared[Callable[[str, Sequence[str]], ExecResult]] = Shared(
        lambda _name, _command: ExecResult(b"", b"", 0)
    )
    """Result of a command in a container, from the container's name and the command."""
    serves_events = Shared(True)  # noqa: FBT003 - the default value
    """Whether it has a stream of events, as containerd has since 1.7."""
    latency = Shared(0.0)
    """Largest time of a call in seconds before its effect, and again after it; drawn from the clock."""

    def connect(self) -> Self:
        """Return another client of the same runtime, which can be closed by itself."""
        client = copy.copy(self)
        client._closed, client._under_way, client._own_streams = False, {}, []
        return client

    def fail(self, operation: str, error: CriError, *, times: int = 1, took_effect: bool = False) -> None:
        """Make the next calls of an operation (`run_pod_sandbox`) fail; with `took_effect` after their effect."""
        self._failures.setdefault(operation, deque()).extend([(error, took_effect)] * times)

    def recover(self) -> None:
        """End all failures."""
        self._failures.clear()

    def end(self, name: str, exit_code: int, *, reason: str = "") -> None:
        """End every running container of that name."""
        with self._lock:
            for container in [c for c in self.containers.values() if c.metadata.name == name]:
                self._exit(container, exit_code, reason)

    def end_sandbox(self, sandbox_id: str) -> None:
        """End a sandbox with its containers."""
        with self._lock:
            sandbox = self.sandboxes[sandbox_id]
            was_ready, sandbox.state = sandbox.state == pb.SANDBOX_READY, pb.SANDBOX_NOTREADY
            for container in self._containers_of(sandbox_id):
                self._exit(container, KILLED, "Error")
            if was_ready:
                self._announce(pb.CONTAINER_STOPPED_EVENT, sandbox_id, sandbox_id)

    def running(self) -> list[str]:
        """Return the names of the running containers, sorted."""
        return sorted(c.metadata.name for c in self.containers.values() if c.state == pb.CONTAINER_RUNNING)

    def close(self) -> None:
        """Make the calls under way on this client fail; their effects go on in the runtime."""
        self._closed = True
        for waiting in list(self._under_way):
            with contextlib.suppress(queue.Full):
                waiting.fail(closed("Call"))  # type: ignore[attr-defined]

    def _begin(self, operation: str) -> CriError | None:
        """Count the call; raise a failure before the effect, return one after it."""
        if self._closed:
            raise closed(operation)
        self.calls[operation] += 1
        self._spend_time()
        failures = self._failures.get(operation)
        if not failures:
            return None
        error, took_effect = failures.popleft()
        if took_effect:
            return error
        raise error

    def _finish(self, error: CriError | None) -> None:
        self._spend_time()
        if error is not None:
            raise error

    def _spend_time(self) -> None:
        if self.latency:
            self._pause(self._clock.random.uniform(0, self.latency))

    def _pause(self, seconds: float) -> None:
        waiting: pykka.Future[None] = self._actors.future()
        self._clock.after(seconds, lambda: settle(waiting))
        self._wait(waiting)

    def _wait(self, waiting: "pykka.Future[None]") -> None:
        self._under_way[waiting] = None
        try:
            waiting.get()
        finally:
            self._under_way.pop(waiting, None)

    def _container(self, operation: str, container_id: str) -> pb.ContainerStatus:
        if container_id not in self.containers:
            raise not_found(operation, container_id)
        return self.containers[container_id]

    def _containers_of(self, sandbox_id: str) -> list[pb.ContainerStatus]:
        return [c for c in self.containers.values() if self.sandbox_of[c.id] == sandbox_id]

    def _containers_of_pod(self, sandbox_id: str) -> list[pb.ContainerStatus]:
        """Return the containers in all sandboxes of one pod: names are unique among them, as in containerd."""
        uid = self.sandboxes[sandbox_id].metadata.uid
        return [c for c in self.containers.values() if self.sandboxes[self.sandbox_of[c.id]].metadata.uid == uid]

    def _exit_later(self, container_id: str, exit_code: int) -> None:
        with self._lock:
            if container_id in self.containers:
                self._exit(self.containers[container_id], exit_code, "")

    def _exit(self, container: pb.ContainerStatus, exit_code: int, reason: str) -> None:
        if container.state == pb.CONTAINER_RUNNING:
            container.state = pb.CONTAINER_EXITED
            container.exit_code = exit_code
            container.finished_at = self._clock.now_ns()
            container.reason = reason or ("Completed" if exit_code == 0 else "Error")
            self._announce(pb.CONTAINER_STOPPED_EVENT, container.id, self.sandbox_of[container.id])
        for waiter in self._ended.pop(container.id, []):
            settle(waiter)

    def _forget(self, container_id: str) -> None:
        self.containers.pop(container_id, None)
        self.configs.pop(container_id, None)
        self._announce(pb.CONTAINER_DELETED_EVENT, container_id, self.sandbox_of.pop(container_id, ""))

    def _announce(self, kind: pb.ContainerEventType.ValueType, subject: str, sandbox_id: str) -> None:
        """Send an event to the open streams; as in containerd, with the statuses of the whole pod."""
        if not self._streams:
            return
        event = pb.ContainerEventResponse(
            container_id=subject,
            container_event_type=kind,
            created_at=self._clock.now_ns(),
            pod_sandbox_status=self.sandboxes.get(sandbox_id),
            containers_statuses=self._containers_of(sandbox_id),
        )
        self._deliver(event)

    def _deliver(self, event: pb.ContainerEventResponse) -> None:
        """Send an event to the streams."""
        raise NotImplementedError


def not_found(operation: str, on: str) -> NotFoundError:
    """Return the error for a missing sandbox, container or image."""
    return NotFoundError(operation, on, grpc.StatusCode.NOT_FOUND, "there is no such thing")


def closed(operation: str) -> ConnectionClosedError:
    """Return the error of a closed client."""
    return ConnectionClosedError(operation, "", grpc.StatusCode.CANCELLED, "closed")


def settle(waiting: "pykka.Future[None]") -> None:
    """Resolve the future, unless it is resolved already."""
    with contextlib.suppress(queue.Full):
        waiting.set(None)
