"""The pod sandboxes of the fake runtime."""

from collections.abc import Sequence

import grpc

from edged.cri.contract import SandboxId
from edged.cri.errors import AlreadyExistsError
from modules.lab.doubles.container_runtime.core import FakeCore, call, not_found
from protos.cri.v1 import api_pb2 as pb


class FakeSandboxes(FakeCore):
    """The methods on pod sandboxes."""

    @call
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
            self.sandbox_configs[status.id] = config
            self._announce(pb.CONTAINER_CREATED_EVENT, status.id, status.id)
            self._announce(pb.CONTAINER_STARTED_EVENT, status.id, status.id)
        return SandboxId(status.id)

    @call
    def stop_pod_sandbox(self, sandbox_id: SandboxId) -> None:
        if sandbox_id in self.sandboxes:
            self.end_sandbox(sandbox_id)

    @call
    def remove_pod_sandbox(self, sandbox_id: SandboxId) -> None:
        with self._lock:
            for container in self._containers_of(sandbox_id):
                self._forget(container.id)
            self.sandbox_configs.pop(sandbox_id, None)
            if self.sandboxes.pop(sandbox_id, None) is not None:
                self._announce(pb.CONTAINER_DELETED_EVENT, sandbox_id, sandbox_id)

    @call
    def pod_sandbox_status(self, sandbox_id: SandboxId, *, verbose: bool = False) -> pb.PodSandboxStatusResponse:  # noqa: ARG002
        with self._lock:
            if sandbox_id not in self.sandboxes:
                raise not_found("PodSandboxStatus", sandbox_id)
            return pb.PodSandboxStatusResponse(status=self.sandboxes[sandbox_id])

    @call
    def list_pod_sandboxes(self, sandbox_filter: pb.PodSandboxFilter | None = None) -> Sequence[pb.PodSandbox]:
        wanted = sandbox_filter or pb.PodSandboxFilter()
        selector = dict(wanted.label_selector)
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
                and all(s.labels.get(name) == value for name, value in selector.items())
            ]
