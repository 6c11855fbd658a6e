"""A container runtime in memory, for tests of edged alone: the same contract as a real one, time from the clock.

Containers run until the test ends them (`end`), are stopped (`obeys` says after how long they heed the stop signal), or
have a command that says so itself: `["exit", "3"]` ends at once with that code. Calls can be made to fail once or more
(`fail`), before or after they took effect, and to take time (`latency`) on both sides of their effect. The contract's
tests run over it as over containerd.
"""

import contextlib
import copy
import functools
import itertools
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

import grpc
import pykka

from beehive import Clock, Runtime
from edged.cri.contract import ContainerId, ExecResult, ImageRef, SandboxId
from edged.cri.errors import AlreadyExistsError, ConnectionClosedError, CriError, NotFoundError
from protos.cri.v1 import api_pb2 as pb

P = ParamSpec("P")
T = TypeVar("T")

_KILLED = 137


class _Shared(Generic[T]):
    """An attribute that all clients of one runtime have in common."""

    def __init__(self, default: T) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, client: "FakeRuntime", owner: type) -> T:
        value: T = client.shared.get(self._name, self._default)
        return value

    def __set__(self, client: "FakeRuntime", value: T) -> None:
        client.shared[self._name] = value


def _call(
    method: "Callable[Concatenate[FakeRuntime, P], T]",
) -> "Callable[Concatenate[FakeRuntime, P], T]":
    """A call of the contract: it is counted, takes its time, and fails when it was told to."""

    @functools.wraps(method)
    def called(self: "FakeRuntime", *args: P.args, **kwargs: P.kwargs) -> T:
        error = self._begin(method.__name__)
        result = method(self, *args, **kwargs)
        self._finish(error)
        return result

    return cast("Callable[Concatenate[FakeRuntime, P], T]", called)


class FakeRuntime:
    """See the module's docstring. It is the runtime and one client of it; `connect` gives others.

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
        self._under_way: set[pykka.Future[None]] = set()
        self.shared: dict[str, Any] = {}
        self.sandboxes: dict[str, pb.PodSandboxStatus] = {}
        self.containers: dict[str, pb.ContainerStatus] = {}
        self.configs: dict[str, pb.ContainerConfig] = {}
        self.homes: dict[str, str] = {}
        self.calls: Counter[str] = Counter()
        """How often each call was made."""

    obeys = _Shared(0.0)
    """Seconds after which a container ends that is asked to stop; infinity for one that ignores it."""
    pull_seconds = _Shared(0.0)
    """How long a pull takes."""
    on_exec: _Shared[Callable[[str, Sequence[str]], ExecResult]] = _Shared(
        lambda _name, _command: ExecResult(b"", b"", 0)
    )
    """What a command in a container comes to, by the container's name and the command.."""
    latency = _Shared(0.0)
    """Seconds that a call takes at most before its effect, and again after it; how many is drawn from the clock."""

    def connect(self) -> "FakeRuntime":
        """Another client of the same runtime, with an end of its own."""
        client = copy.copy(self)
        client._closed, client._under_way = False, set()
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
            self.sandboxes[sandbox_id].state = pb.SANDBOX_NOTREADY
            for container in self._inmates(sandbox_id):
                self._exit(container, _KILLED, "Error")

    def running(self) -> list[str]:
        """Names of the running containers, sorted."""
        return sorted(c.metadata.name for c in self.containers.values() if c.state == pb.CONTAINER_RUNNING)

    @_call
    def version(self) -> pb.VersionResponse:
        return pb.VersionResponse(version="0.1.0", runtime_name="fake", runtime_version="1.0", runtime_api_version="v1")

    @_call
    def status(self, *, verbose: bool = False) -> pb.StatusResponse:  # noqa: ARG002 - the contract's signature
        conditions = [pb.RuntimeCondition(type=kind, status=True) for kind in ("RuntimeReady", "NetworkReady")]
        return pb.StatusResponse(status=pb.RuntimeStatus(conditions=conditions))

    @_call
    def run_pod_sandbox(self, config: pb.PodSandboxConfig, runtime_handler: str = "") -> SandboxId:
        with self._lock:
            if any(s.metadata == config.metadata for s in self.sandboxes.values()):
                raise AlreadyExistsError(
                    "RunPodSandbox", config.metadata.name, grpc.StatusCode.ALREADY_EXISTS, "name is reserved"
                )
            number = next(self._numbers)
            status = pb.PodSandboxStatus(
                id=f"sandbox-{number}",
                metadata=config.metadata,
                state=pb.SANDBOX_READY,
                created_at=self._clock.now_ns(),
                network=pb.PodSandboxNetworkStatus(ip=f"10.0.{number // 250}.{number % 250 + 1}"),
                labels=config.labels,
                annotations=config.annotations,
                runtime_handler=runtime_handler,
            )
            options = config.linux.security_context.namespace_options
            status.linux.namespaces.options.CopyFrom(options)
            if options.network == pb.NODE:
                status.network.ip = ""
            self.sandboxes[status.id] = status
        return SandboxId(status.id)

    @_call
    def stop_pod_sandbox(self, sandbox_id: SandboxId) -> None:
        if sandbox_id in self.sandboxes:
            self.end_sandbox(sandbox_id)

    @_call
    def remove_pod_sandbox(self, sandbox_id: SandboxId) -> None:
        with self._lock:
            for container in self._inmates(sandbox_id):
                self._forget(container.id)
            self.sandboxes.pop(sandbox_id, None)

    @_call
    def pod_sandbox_status(self, sandbox_id: SandboxId, *, verbose: bool = False) -> pb.PodSandboxStatusResponse:  # noqa: ARG002
        with self._lock:
            if sandbox_id not in self.sandboxes:
                raise _not_found("PodSandboxStatus", sandbox_id)
            return pb.PodSandboxStatusResponse(status=self.sandboxes[sandbox_id])

    @_call
    def list_pod_sandboxes(self, sandbox_filter: pb.PodSandboxFilter | None = None) -> Sequence[pb.PodSandbox]:
        wanted = sandbox_filter or pb.PodSandboxFilter()
        with self._lock:
            return [
                pb.PodSandbox(
                    id=s.id,
                    metadata=s.metadata,
                    state=s.state,
                    created_at=s.created_at,
                    labels=s.labels,
                    annotations=s.annotations,
                    runtime_handler=s.runtime_handler,
                )
                for s in self.sandboxes.values()
                if (not wanted.id or s.id.startswith(wanted.id))
                and (not wanted.HasField("state") or s.state == wanted.state.state)
                and wanted.label_selector.items() <= s.labels.items()
            ]

    @_call
    def create_container(
        self, sandbox_id: SandboxId, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig
    ) -> ContainerId:
        with self._lock:
            if sandbox_id not in self.sandboxes:
                raise _not_found("CreateContainer", sandbox_id)
            if self.sandboxes[sandbox_id].state != pb.SANDBOX_READY:
                raise CriError("CreateContainer", sandbox_id, grpc.StatusCode.UNKNOWN, "the sandbox does not run")
            if any(c.metadata == config.metadata for c in self._inmates_of_pod(sandbox_id)):
                name = config.metadata.name
                raise AlreadyExistsError("CreateContainer", name, grpc.StatusCode.ALREADY_EXISTS, "name is reserved")
            if config.image.image.removeprefix("sha256:") not in self._images:
                raise _not_found("CreateContainer", config.image.image)
            log = f"{sandbox_config.log_directory}/{config.log_path}" if config.log_path else ""
            status = pb.ContainerStatus(
                id=f"container-{next(self._numbers)}",
                metadata=config.metadata,
                state=pb.CONTAINER_CREATED,
                created_at=self._clock.now_ns(),
                image=config.image,
                image_ref=f"sha256:{config.image.image.removeprefix('sha256:')}",
                labels=config.labels,
                annotations=config.annotations,
                mounts=config.mounts,
                log_path=log,
            )
            self.containers[status.id] = status
            self.configs[status.id] = config
            self.homes[status.id] = sandbox_id
        return ContainerId(status.id)

    @_call
    def start_container(self, container_id: ContainerId) -> None:
        with self._lock:
            container = self._container("StartContainer", container_id)
            sandbox = self.sandboxes[self.homes[container_id]]
            if container.state != pb.CONTAINER_CREATED or sandbox.state != pb.SANDBOX_READY:
                raise CriError("StartContainer", container_id, grpc.StatusCode.UNKNOWN, "it cannot be started now")
            container.state = pb.CONTAINER_RUNNING
            container.started_at = self._clock.now_ns()
            command = self.configs[container_id].command
            if list(command[:1]) == ["exit"]:
                self._exit(container, int(command[1]), "")

    @_call
    def stop_container(self, container_id: ContainerId, grace_seconds: int) -> None:
        with self._lock:
            container = self.containers.get(container_id)
            ended: pykka.Future[None] = self._actors.future()
            if container is None or container.state != pb.CONTAINER_RUNNING:
                ended.set()
            else:
                self._ended.setdefault(container_id, []).append(ended)
                obeys = self.obeys <= grace_seconds
                code = 0 if obeys else _KILLED
                seconds = self.obeys if obeys else float(grace_seconds)
                self._clock.after(seconds, lambda: self._exit_later(container_id, code))
        self._wait(ended)

    @_call
    def remove_container(self, container_id: ContainerId) -> None:
        with self._lock:
            if container_id in self.containers:
                self._exit(self.containers[container_id], _KILLED, "Error")
                self._forget(container_id)

    @_call
    def list_containers(self, container_filter: pb.ContainerFilter | None = None) -> Sequence[pb.Container]:
        wanted = container_filter or pb.ContainerFilter()
        with self._lock:
            return [
                pb.Container(
                    id=c.id,
                    pod_sandbox_id=self.homes[c.id],
                    metadata=c.metadata,
                    image=c.image,
                    image_ref=c.image_ref,
                    state=c.state,
                    created_at=c.created_at,
                    labels=c.labels,
                    annotations=c.annotations,
                )
                for c in self.containers.values()
                if (not wanted.id or c.id.startswith(wanted.id))
                and (not wanted.HasField("state") or c.state == wanted.state.state)
                and (not wanted.pod_sandbox_id or self.homes[c.id] == wanted.pod_sandbox_id)
                and wanted.label_selector.items() <= c.labels.items()
            ]

    @_call
    def container_status(self, container_id: ContainerId, *, verbose: bool = False) -> pb.ContainerStatusResponse:  # noqa: ARG002
        with self._lock:
            copy = pb.ContainerStatus()
            copy.CopyFrom(self._container("ContainerStatus", container_id))
            return pb.ContainerStatusResponse(status=copy)

    @_call
    def exec_sync(self, container_id: ContainerId, command: Sequence[str], timeout_seconds: int) -> ExecResult:  # noqa: ARG002
        with self._lock:
            name = self._container("ExecSync", container_id).metadata.name
        return self.on_exec(name, command)

    @_call
    def reopen_container_log(self, container_id: ContainerId) -> None:
        self._container("ReopenContainerLog", container_id)

    @_call
    def update_container_resources(self, container_id: ContainerId, resources: pb.LinuxContainerResources) -> None:
        with self._lock:
            self.configs[self._container("UpdateContainerResources", container_id).id].linux.resources.MergeFrom(
                resources
            )

    @_call
    def container_stats(self, container_id: ContainerId) -> pb.ContainerStats:
        container = self._container("ContainerStats", container_id)
        attributes = pb.ContainerAttributes(id=container.id, metadata=container.metadata, labels=container.labels)
        return pb.ContainerStats(attributes=attributes)

    @_call
    def list_container_stats(self, stats_filter: pb.ContainerStatsFilter | None = None) -> Sequence[pb.ContainerStats]:
        wanted = stats_filter or pb.ContainerStatsFilter()
        with self._lock:
            ids = [c.id for c in self.containers.values() if not wanted.id or c.id == wanted.id]
        return [self.container_stats(ContainerId(each)) for each in ids]

    @_call
    def image_status(self, image: pb.ImageSpec) -> pb.Image | None:
        name = image.image.removeprefix("sha256:")
        return pb.Image(id=f"sha256:{name}", repo_tags=[name], spec=image) if name in self._images else None

    @_call
    def pull_image(
        self,
        image: pb.ImageSpec,
        auth: pb.AuthConfig | None = None,  # noqa: ARG002
        sandbox_config: pb.PodSandboxConfig | None = None,  # noqa: ARG002
    ) -> ImageRef:
        if self.pull_seconds:
            self._pause(self.pull_seconds)
        self._images.add(image.image)
        return ImageRef(f"sha256:{image.image}")

    @_call
    def list_images(self, image_filter: pb.ImageFilter | None = None) -> Sequence[pb.Image]:
        name = image_filter.image.image if image_filter is not None else ""
        return [
            pb.Image(id=f"sha256:{image}", repo_tags=[image]) for image in sorted(self._images) if name in ("", image)
        ]

    @_call
    def remove_image(self, image: pb.ImageSpec) -> None:
        self._images.discard(image.image)

    @_call
    def image_fs_info(self) -> Sequence[pb.FilesystemUsage]:
        return []

    def close(self) -> None:
        """Calls that are under way on this client fail; what they began goes on in the runtime."""
        self._closed = True
        for waiting in list(self._under_way):
            with contextlib.suppress(queue.Full):
                waiting.fail(_closed("Call"))  # type: ignore[attr-defined]

    def _begin(self, operation: str) -> CriError | None:
        """Count the call; raises a failure that comes first, gives one that comes after the effect."""
        if self._closed:
            raise _closed(operation)
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
        self._clock.after(seconds, lambda: _settle(waiting))
        self._wait(waiting)

    def _wait(self, waiting: "pykka.Future[None]") -> None:
        self._under_way.add(waiting)
        try:
            waiting.get()
        finally:
            self._under_way.discard(waiting)

    def _container(self, operation: str, container_id: str) -> pb.ContainerStatus:
        if container_id not in self.containers:
            raise _not_found(operation, container_id)
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
        for waiter in self._ended.pop(container.id, []):
            _settle(waiter)

    def _forget(self, container_id: str) -> None:
        self.containers.pop(container_id, None)
        self.configs.pop(container_id, None)
        self.homes.pop(container_id, None)


def _not_found(operation: str, on: str) -> NotFoundError:
    return NotFoundError(operation, on, grpc.StatusCode.NOT_FOUND, "there is no such thing")


def _closed(operation: str) -> ConnectionClosedError:
    return ConnectionClosedError(operation, "", grpc.StatusCode.CANCELLED, "closed")


def _settle(waiting: "pykka.Future[None]") -> None:
    with contextlib.suppress(queue.Full):
        waiting.set(None)
