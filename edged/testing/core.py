"""What all parts of the runtime in memory stand on: its state, and calls that take time and fail when told to."""

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
R = TypeVar("R", bound="Core")

KILLED = 137
"""Exit code of what was ended by SIGKILL."""


class Shared(Generic[T]):
    """An attribute that all clients of one runtime have in common."""

    def __init__(self, default: T) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, client: "Core", owner: type) -> T:
        value: T = client.shared.get(self._name, self._default)
        return value

    def __set__(self, client: "Core", value: T) -> None:
        client.shared[self._name] = value


def call(
    method: "Callable[Concatenate[R, P], T]",
) -> "Callable[Concatenate[R, P], T]":
    """A call of the contract: it is counted, takes its time, and fails when it was told to."""

    @functools.wraps(method)
    def called(self: R, *args: P.args, **kwargs: P.kwargs) -> T:
        error = self._begin(method.__name__)
        result = method(self, *args, **kwargs)
        self._finish(error)
        return result

    return cast("Callable[Concatenate[R, P], T]", called)


class Core:
    """One client of the runtime, with what all of them have in common.

    Args:
        actors: gives time, and futures to wait on.
        images: names of images that are present; others are pulled when asked for.
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
        """Of events; all clients'."""
        self._own_streams: list[Queue] = []
        self.shared: dict[str, Any] = {}
        self.sandboxes: dict[str, pb.PodSandboxStatus] = {}
        self.containers: dict[str, pb.ContainerStatus] = {}
        self.sandbox_configs: dict[str, pb.PodSandboxConfig] = {}
        self.configs: dict[str, pb.ContainerConfig] = {}
        self.homes: dict[str, str] = {}
        self.locked: dict[str, tuple[str, str]] = {}
        """User and password that the registry of an image asks for, by the image's full name."""
        self.image_sizes: dict[str, int] = {}
        """Bytes of an image by its name; 0 unless set."""
        self.calls: Counter[str] = Counter()
        """How often each call was made."""

    obeys = Shared(0.0)
    """Seconds after which a container ends that is asked to stop; infinity for one that ignores it."""
    images_directory = Shared("")
    """Where images are; nothing: the runtime does not say."""
    sandbox_image = Shared("")
    """What its configuration names as the image of sandboxes."""
    pull_seconds = Shared(0.0)
    """How long a pull takes."""
    on_exec: Shared[Callable[[str, Sequence[str]], ExecResult]] = Shared(
        lambda _name, _command: ExecResult(b"", b"", 0)
    )
    """What a command in a container comes to, by the container's name and the command.."""
    serves_events = Shared(True)  # noqa: FBT003 - the default of what is shared
    """Whether it has a stream of events, as containerd has since 1.7."""
    latency = Shared(0.0)
    """Seconds that a call takes at most before its effect, and again after it; how many is drawn from the clock."""

    def connect(self) -> Self:
        """Another client of the same runtime, with an end of its own."""
        client = copy.copy(self)
        client._closed, client._under_way, client._own_streams = False, {}, []
        return client

    def fail(self, operation: str, error: CriError, *, times: int = 1, took_effect: bool = False) -> None:
        """Let the next calls of an operation (`run_pod_sandbox`) fail; `took_effect`: after they were carried out."""
        self._failures.setdefault(operation, deque()).extend([(error, took_effect)] * times)

    def recover(self) -> None:
        """Let no call fail any more."""
        self._failures.clear()

    def end(self, name: str, exit_code: int, *, reason: str = "") -> None:
        """Let every running container of that name end by itself."""
        with self._lock:
            for container in [c for c in self.containers.values() if c.metadata.name == name]:
                self._exit(container, exit_code, reason)

    def end_sandbox(self, sandbox_id: str) -> None:
        """Let a sandbox end by itself, and its containers with it."""
        with self._lock:
            sandbox = self.sandboxes[sandbox_id]
            was_ready, sandbox.state = sandbox.state == pb.SANDBOX_READY, pb.SANDBOX_NOTREADY
            for container in self._inmates(sandbox_id):
                self._exit(container, KILLED, "Error")
            if was_ready:
                self._announce(pb.CONTAINER_STOPPED_EVENT, sandbox_id, sandbox_id)

    def running(self) -> list[str]:
        """Names of the running containers, sorted."""
        return sorted(c.metadata.name for c in self.containers.values() if c.state == pb.CONTAINER_RUNNING)

    def close(self) -> None:
        """Calls that are under way on this client fail; what they began goes on in the runtime."""
        self._closed = True
        for waiting in list(self._under_way):
            with contextlib.suppress(queue.Full):
                waiting.fail(closed("Call"))  # type: ignore[attr-defined]

    def _begin(self, operation: str) -> CriError | None:
        """Count the call; raises a failure that comes first, gives one that comes after the effect."""
        if self._closed:
            raise closed(operation)
        self.calls[operation] += 1
        self._take_time()
        failures = self._failures.get(operation)
        if not failures:
            return None
        error, took_effect = failures.popleft()
        if took_effect:
            return error
        raise error

    def _finish(self, error: CriError | None) -> None:
        self._take_time()
        if error is not None:
            raise error

    def _take_time(self) -> None:
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

    def _inmates(self, sandbox_id: str) -> list[pb.ContainerStatus]:
        return [c for c in self.containers.values() if self.homes[c.id] == sandbox_id]

    def _inmates_of_pod(self, sandbox_id: str) -> list[pb.ContainerStatus]:
        """Containers of all sandboxes of one pod: names are unique among them, as containerd has it."""
        uid = self.sandboxes[sandbox_id].metadata.uid
        return [c for c in self.containers.values() if self.sandboxes[self.homes[c.id]].metadata.uid == uid]

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
            self._announce(pb.CONTAINER_STOPPED_EVENT, container.id, self.homes[container.id])
        for waiter in self._ended.pop(container.id, []):
            settle(waiter)

    def _forget(self, container_id: str) -> None:
        self.containers.pop(container_id, None)
        self.configs.pop(container_id, None)
        self._announce(pb.CONTAINER_DELETED_EVENT, container_id, self.homes.pop(container_id, ""))

    def _announce(self, kind: pb.ContainerEventType.ValueType, subject: str, sandbox_id: str) -> None:
        """Tell of it, if there is anybody who listens; as containerd, with the states of the whole pod."""
        if not self._streams:
            return
        event = pb.ContainerEventResponse(
            container_id=subject,
            container_event_type=kind,
            created_at=self._clock.now_ns(),
            pod_sandbox_status=self.sandboxes.get(sandbox_id),
            containers_statuses=self._inmates(sandbox_id),
        )
        self._deliver(event)

    def _deliver(self, event: pb.ContainerEventResponse) -> None:
        """Hand an event to those who listen."""
        raise NotImplementedError


def not_found(operation: str, on: str) -> NotFoundError:
    """There is no such sandbox, container or image."""
    return NotFoundError(operation, on, grpc.StatusCode.NOT_FOUND, "there is no such thing")


def closed(operation: str) -> ConnectionClosedError:
    """The client was closed."""
    return ConnectionClosedError(operation, "", grpc.StatusCode.CANCELLED, "closed")


def settle(waiting: "pykka.Future[None]") -> None:
    """Let who waits go on, unless it does already."""
    with contextlib.suppress(queue.Full):
        waiting.set(None)
