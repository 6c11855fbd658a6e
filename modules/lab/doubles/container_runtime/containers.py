"""The containers of the fake runtime."""

from collections.abc import Sequence

import grpc
import pykka

from edged.cri.contract import ContainerId, ExecResult, SandboxId
from edged.cri.errors import AlreadyExistsError, CriError, UnimplementedError
from modules.lab.doubles.container_runtime.core import KILLED, FakeCore, call, not_found
from protos.cri.v1 import api_pb2 as pb


class FakeContainers(FakeCore):
    """The methods on containers."""

    @call
    def create_container(
        self, sandbox_id: SandboxId, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig
    ) -> ContainerId:
        with self._lock:
            if sandbox_id not in self.sandboxes:
                raise not_found("CreateContainer", sandbox_id)
            if self.sandboxes[sandbox_id].state != pb.SANDBOX_READY:
                raise CriError("CreateContainer", sandbox_id, grpc.StatusCode.UNKNOWN, "the sandbox does not run")
            if any(c.metadata == config.metadata for c in self._containers_of_pod(sandbox_id)):
                name = config.metadata.name
                raise AlreadyExistsError("CreateContainer", name, grpc.StatusCode.ALREADY_EXISTS, "name is reserved")
            if config.image.image.removeprefix("sha256:") not in self._images:
                raise not_found("CreateContainer", config.image.image)
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
            self.sandbox_of[status.id] = sandbox_id
            self._announce(pb.CONTAINER_CREATED_EVENT, status.id, sandbox_id)
        return ContainerId(status.id)

    @call
    def start_container(self, container_id: ContainerId) -> None:
        with self._lock:
            container = self._container("StartContainer", container_id)
            sandbox = self.sandboxes[self.sandbox_of[container_id]]
            if container.state != pb.CONTAINER_CREATED or sandbox.state != pb.SANDBOX_READY:
                raise CriError("StartContainer", container_id, grpc.StatusCode.UNKNOWN, "it cannot be started now")
            container.state = pb.CONTAINER_RUNNING
            container.started_at = self._clock.now_ns()
            self._announce(pb.CONTAINER_STARTED_EVENT, container_id, self.sandbox_of[container_id])
            command = self.configs[container_id].command
            if command[:1] == ["exit"] and len(command) == 2 and command[1].isdecimal():
                self._exit(container, int(command[1][:3]), "")

    @call
    def stop_container(self, container_id: ContainerId, grace_seconds: int) -> None:
        with self._lock:
            container = self.containers.get(container_id)
            ended: pykka.Future[None] = self._actors.future()
            if container is None or container.state != pb.CONTAINER_RUNNING:
                ended.set()
            else:
                self._ended.setdefault(container_id, []).append(ended)
                obeys = self.obeys <= grace_seconds
                code = 0 if obeys else KILLED
                seconds = self.obeys if obeys else float(grace_seconds)
                self._clock.after(seconds, lambda: self._exit_later(container_id, code))
        self._wait(ended)

    @call
    def remove_container(self, container_id: ContainerId) -> None:
        with self._lock:
            if container_id in self.containers:
                self._exit(self.containers[container_id], KILLED, "Error")
                self._forget(container_id)

    @call
    def list_containers(self, container_filter: pb.ContainerFilter | None = None) -> Sequence[pb.Container]:
        wanted = container_filter or pb.ContainerFilter()
        selector = dict(wanted.label_selector)
        with self._lock:
            return [
                pb.Container(
                    id=c.id,
                    pod_sandbox_id=self.sandbox_of[c.id],
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
                and (not wanted.pod_sandbox_id or self.sandbox_of[c.id] == wanted.pod_sandbox_id)
                and all(c.labels.get(name) == value for name, value in selector.items())
            ]

    @call
    def container_status(self, container_id: ContainerId, *, verbose: bool = False) -> pb.ContainerStatusResponse:  # noqa: ARG002
        with self._lock:
            copy = pb.ContainerStatus()
            copy.CopyFrom(self._container("ContainerStatus", container_id))
            return pb.ContainerStatusResponse(status=copy)

    @call
    def exec_sync(self, container_id: ContainerId, command: Sequence[str], timeout_seconds: int) -> ExecResult:  # noqa: ARG002
        with self._lock:
            name = self._running("ExecSync", container_id).metadata.name
        return self.on_exec(name, command)

    @call
    def reopen_container_log(self, container_id: ContainerId) -> None:
        with self._lock:
            self._running("ReopenContainerLog", container_id)

    def _running(self, operation: str, container_id: str) -> pb.ContainerStatus:
        """Return the status of a container. Raises NotFoundError, and CriError if it does not run."""
        container = self._container(operation, container_id)
        if container.state != pb.CONTAINER_RUNNING:
            raise CriError(operation, container_id, grpc.StatusCode.UNKNOWN, "it is not running")
        return container

    def stats_of(self, container_id: ContainerId) -> pb.ContainerStats:
        """Return the stats of one container."""
        container = self._container("ListContainerStats", container_id)
        attributes = pb.ContainerAttributes(id=container.id, metadata=container.metadata, labels=container.labels)
        return pb.ContainerStats(attributes=attributes)

    @call
    def list_container_stats(self, stats_filter: pb.ContainerStatsFilter | None = None) -> Sequence[pb.ContainerStats]:
        wanted = stats_filter or pb.ContainerStatsFilter()
        with self._lock:
            ids = [c.id for c in self.containers.values() if not wanted.id or c.id == wanted.id]
        return [self.stats_of(ContainerId(each)) for each in ids]

    @call
    def list_metric_descriptors(self) -> Sequence[pb.MetricDescriptor]:
        raise UnimplementedError("ListMetricDescriptors", "", grpc.StatusCode.UNIMPLEMENTED, "there are no metrics")

    @call
    def list_pod_sandbox_metrics(self) -> Sequence[pb.PodSandboxMetrics]:
        return []
