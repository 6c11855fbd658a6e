"""The CRI methods that runtimes with isolated containers answer in the same way."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from modules.runtimes.cri_server.errors import WrongStateError
from modules.runtimes.cri_server.methods import CriMethods, EngineParts, Method, OnEnd
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.cri_server.registry import ContainerT
from modules.runtimes.oci.network import NetworkStatus
from modules.runtimes.oci.network.attachment import read_attachment
from modules.runtimes.oci.stats import UsageMeter
from modules.runtimes.oci.streaming import StreamingServer
from protos.cri.v1 import api_pb2 as cri

Update = Callable[[str, cri.LinuxContainerResources], None]
"""Changes the limits of a container, by its id."""


def network_condition(network: NetworkStatus) -> cri.RuntimeCondition:
    """Return the condition NetworkReady of a runtime."""
    return cri.RuntimeCondition(
        type="NetworkReady", status=network.ready, reason=network.reason, message=network.message
    )


def cgroup_config(*, systemd: bool) -> cri.RuntimeConfigResponse:
    """Return the answer to RuntimeConfig: the cgroup driver."""
    driver = cri.SYSTEMD if systemd else cri.CGROUPFS
    return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=driver))


def network_details(sandbox: Sandbox, namespaces: Mapping[str, Path | None]) -> dict[str, Any]:
    """Return what a verbose status says of a sandbox's network and namespaces.

    Args:
        sandbox: any.
        namespaces: files of those that are not the machine's, by their types in the OCI runtime specification.
    """
    try:
        attachment = read_attachment(sandbox.directory)
    except (OSError, ValueError):  # damaged: the sandbox is detached without it
        attachment = None
    found = [{"type": kind, "path": str(path)} for kind, path in namespaces.items() if path is not None]
    result = {"cniResult": attachment.result} if attachment is not None else {}
    return {**result, "runtimeSpec": {"linux": {"namespaces": found}}}


class IsolatedMethods(CriMethods[Sandbox, ContainerT]):
    """Streams, usage and limits of containers that have control groups and namespaces of their own.

    Args:
        parts: of the engine.
        streaming: serves the streams.
        stats: measures containers.
        update: changes their limits.
    """

    def __init__(
        self, parts: EngineParts[Sandbox, ContainerT], streaming: StreamingServer, stats: UsageMeter, update: Update
    ) -> None:
        super().__init__(parts)
        self._streaming = streaming
        self._stats = stats
        self._update = update

    def table(self) -> dict[str, Method]:
        """Return the unary methods by name."""
        return super().table() | {"Exec": self._exec, "Attach": self._attach, "PortForward": self._port_forward}

    def watching(self) -> dict[str, Callable[[Any, OnEnd], Any]]:
        """Return ExecSync."""
        return {"ExecSync": self._exec_sync}

    @abstractmethod
    def _exec_sync(self, request: cri.ExecSyncRequest, on_cancel: OnEnd) -> cri.ExecSyncResponse: ...

    def _exec(self, request: cri.ExecRequest) -> cri.ExecResponse:
        self._check_running(request.container_id)
        return cri.ExecResponse(url=self._streaming.exec_url(request))

    def _attach(self, request: cri.AttachRequest) -> cri.AttachResponse:
        self._check_running(request.container_id)
        return cri.AttachResponse(url=self._streaming.attach_url(request))

    def _port_forward(self, request: cri.PortForwardRequest) -> cri.PortForwardResponse:
        sandbox = self._registry.sandbox(request.pod_sandbox_id)
        if sandbox.record.stopped:
            raise WrongStateError(f"forward ports of sandbox {sandbox.id}", "it is not ready")
        return cri.PortForwardResponse(url=self._streaming.port_forward_url(request))

    def _check_running(self, container_id: str) -> None:
        self._parts.watcher.settle()
        container = self._registry.container(container_id)
        if container.state != cri.CONTAINER_RUNNING:
            raise WrongStateError(f"stream from container {container.id}", "it is not running")

    def _update_resources(self, request: cri.UpdateContainerResourcesRequest) -> cri.UpdateContainerResourcesResponse:
        self._update(request.container_id, request.linux)
        return cri.UpdateContainerResourcesResponse()

    def _stats_of(self, containers: Sequence[ContainerT]) -> list[cri.ContainerStats]:
        return [self._stats.of_container(each) for each in containers]

    def _stats_of_pods(self, sandboxes: Sequence[Sandbox]) -> list[cri.PodSandboxStats]:
        return [self._stats.of_pod(each, self._registry.containers(each.id)) for each in sandboxes]
