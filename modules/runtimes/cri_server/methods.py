"""The CRI methods that both embedded runtimes answer in the same way, as tables by method name.

CRI methods without an entry are answered UNIMPLEMENTED with an explanation, so that a client learns that the limit is
this runtime's and not its own mistake.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol

from beehive.clock import Clock
from modules.runtimes.cri_server.event_stream import EventHub
from modules.runtimes.cri_server.inspection import container_info, sandbox_info
from modules.runtimes.cri_server.records import ContainerId, SandboxId
from modules.runtimes.cri_server.registry import ContainerT, Registry, SandboxT
from modules.runtimes.cri_server.views import (
    container_listing,
    container_matches,
    container_status,
    has_labels,
    sandbox_listing,
    sandbox_matches,
    sandbox_status,
)
from protos.cri.v1 import api_pb2 as cri

RUNTIME_VERSION = "0.1.0"
_CRI_VERSION = "v1"
_KUBELET_VERSION = "0.1.0"
"""The first field of Version since the first CRI; clients compare it with their own constant."""

Method = Callable[[Any], Any]

OnEnd = Callable[[Callable[[], None]], object]
"""Registers a callback for the end of a call, however it ends."""


class _Sandboxes(Protocol):
    def run(self, request: cri.RunPodSandboxRequest) -> SandboxId: ...

    def stop(self, sandbox_id: str) -> None: ...

    def remove(self, sandbox_id: str) -> None: ...


class _Containers(Protocol):
    def create(self, request: cri.CreateContainerRequest) -> ContainerId: ...

    def start(self, container_id: str) -> None: ...

    def stop(self, container_id: str, grace_seconds: float) -> None: ...

    def remove(self, container_id: str) -> None: ...

    def reopen_log(self, container_id: str) -> None: ...


class _Watcher(Protocol):
    def settle(self) -> None: ...


class EngineParts(NamedTuple, Generic[SandboxT, ContainerT]):
    """The parts of an engine that these methods need.

    `watcher` observes the ends of containers; its `settle` handles every container that has ended so far.
    """

    registry: Registry[SandboxT, ContainerT]
    sandboxes: _Sandboxes
    containers: _Containers
    watcher: _Watcher
    events: EventHub
    clock: Clock


class CriMethods(ABC, Generic[SandboxT, ContainerT]):
    """The methods of runtime.v1.RuntimeService, and by `images` those of runtime.v1.ImageService."""

    runtime_name: ClassVar[str]
    """Name of the runtime in the answer to Version."""

    why_not: ClassVar[Mapping[str, str]] = {}
    """Reasons why methods are not offered, by name; "" has the reason for all others."""

    def __init__(self, parts: EngineParts[SandboxT, ContainerT]) -> None:
        self._parts = parts
        self._sandboxes = parts.sandboxes
        self._containers = parts.containers
        self._registry = parts.registry

    def table(self) -> dict[str, Method]:
        """Return the unary methods by name."""
        return {
            "Version": self._version,
            "Status": self._status,
            "UpdateRuntimeConfig": lambda _: cri.UpdateRuntimeConfigResponse(),
            "RuntimeConfig": self._runtime_config,
            "RunPodSandbox": lambda request: cri.RunPodSandboxResponse(pod_sandbox_id=self._sandboxes.run(request)),
            "StopPodSandbox": self._stop_sandbox,
            "RemovePodSandbox": self._remove_sandbox,
            "PodSandboxStatus": self._sandbox_status,
            "ListPodSandbox": self._list_sandboxes,
            "CreateContainer": lambda request: cri.CreateContainerResponse(
                container_id=self._containers.create(request)
            ),
            "StartContainer": self._start_container,
            "StopContainer": self._stop_container,
            "RemoveContainer": self._remove_container,
            "ListContainers": self._list_containers,
            "ContainerStatus": self._container_status,
            "UpdateContainerResources": self._update_resources,
            "ReopenContainerLog": self._reopen_log,
            "ContainerStats": self._container_stats,
            "ListContainerStats": self._list_container_stats,
            "PodSandboxStats": self._sandbox_stats,
            "ListPodSandboxStats": self._list_sandbox_stats,
        }

    @abstractmethod
    def watching(self) -> dict[str, Callable[[Any, OnEnd], Any]]:
        """Return the unary methods that must notice a client that gives up."""

    @abstractmethod
    def images(self) -> dict[str, Callable[[Any, OnEnd], Any]]:
        """Return the methods of the ImageService."""

    def events(self, on_cancel: OnEnd) -> Iterator[cri.ContainerEventResponse]:
        """GetContainerEvents: events from now on, until the client cancels."""
        stream = self._parts.events.subscribe()
        on_cancel(stream.close)
        return iter(stream)

    # the runtime

    def _version(self, _: cri.VersionRequest) -> cri.VersionResponse:
        return cri.VersionResponse(
            version=_KUBELET_VERSION,
            runtime_name=self.runtime_name,
            runtime_version=RUNTIME_VERSION,
            runtime_api_version=_CRI_VERSION,
        )

    @abstractmethod
    def _status(self, request: cri.StatusRequest) -> cri.StatusResponse:
        """Status: the conditions of the runtime."""

    def _runtime_config(self, _: cri.RuntimeConfigRequest) -> cri.RuntimeConfigResponse:
        return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=cri.CGROUPFS))

    # sandboxes

    def _stop_sandbox(self, request: cri.StopPodSandboxRequest) -> cri.StopPodSandboxResponse:
        self._sandboxes.stop(request.pod_sandbox_id)
        return cri.StopPodSandboxResponse()

    def _remove_sandbox(self, request: cri.RemovePodSandboxRequest) -> cri.RemovePodSandboxResponse:
        self._sandboxes.remove(request.pod_sandbox_id)
        return cri.RemovePodSandboxResponse()

    def _sandbox_status(self, request: cri.PodSandboxStatusRequest) -> cri.PodSandboxStatusResponse:
        self._parts.watcher.settle()
        sandbox = self._registry.sandbox(request.pod_sandbox_id)
        return cri.PodSandboxStatusResponse(
            status=sandbox_status(sandbox),
            containers_statuses=[container_status(each) for each in self._registry.containers(sandbox.id)],
            timestamp=self._parts.clock.now_ns(),
            info=sandbox_info(sandbox, self._sandbox_details(sandbox)) if request.verbose else None,
        )

    def _sandbox_details(self, sandbox: SandboxT) -> dict[str, Any]:  # noqa: ARG002 - for other kinds of runtimes
        """Return what a verbose status says of a sandbox beside its configuration."""
        return {}

    def _list_sandboxes(self, request: cri.ListPodSandboxRequest) -> cri.ListPodSandboxResponse:
        found = [each for each in self._registry.sandboxes() if sandbox_matches(each, request.filter)]
        return cri.ListPodSandboxResponse(items=[sandbox_listing(each) for each in found])

    # containers

    def _start_container(self, request: cri.StartContainerRequest) -> cri.StartContainerResponse:
        self._containers.start(request.container_id)
        return cri.StartContainerResponse()

    def _stop_container(self, request: cri.StopContainerRequest) -> cri.StopContainerResponse:
        self._parts.watcher.settle()
        self._containers.stop(request.container_id, request.timeout)
        return cri.StopContainerResponse()

    def _remove_container(self, request: cri.RemoveContainerRequest) -> cri.RemoveContainerResponse:
        self._containers.remove(request.container_id)
        return cri.RemoveContainerResponse()

    def _list_containers(self, request: cri.ListContainersRequest) -> cri.ListContainersResponse:
        self._parts.watcher.settle()
        found = [each for each in self._registry.containers() if container_matches(each, request.filter)]
        return cri.ListContainersResponse(containers=[container_listing(each) for each in found])

    def _container_status(self, request: cri.ContainerStatusRequest) -> cri.ContainerStatusResponse:
        self._parts.watcher.settle()
        container = self._registry.container(request.container_id)
        info = container_info(container, self._container_details(container)) if request.verbose else None
        return cri.ContainerStatusResponse(status=container_status(container), info=info)

    def _container_details(self, container: ContainerT) -> dict[str, Any]:  # noqa: ARG002 - for other kinds of runtimes
        """Return what a verbose status says of a container beside its configuration and process."""
        return {"runtimeType": self.runtime_name}

    @abstractmethod
    def _update_resources(self, request: cri.UpdateContainerResourcesRequest) -> cri.UpdateContainerResourcesResponse:
        """UpdateContainerResources."""

    def _reopen_log(self, request: cri.ReopenContainerLogRequest) -> cri.ReopenContainerLogResponse:
        self._containers.reopen_log(request.container_id)
        return cri.ReopenContainerLogResponse()

    # stats

    @abstractmethod
    def _stats_of(self, containers: Sequence[ContainerT]) -> list[cri.ContainerStats]:
        """Measure containers."""

    @abstractmethod
    def _stats_of_pods(self, sandboxes: Sequence[SandboxT]) -> list[cri.PodSandboxStats]:
        """Measure pods with their containers."""

    def _container_stats(self, request: cri.ContainerStatsRequest) -> cri.ContainerStatsResponse:
        (stats,) = self._stats_of([self._registry.container(request.container_id)])
        return cri.ContainerStatsResponse(stats=stats)

    def _list_container_stats(self, request: cri.ListContainerStatsRequest) -> cri.ListContainerStatsResponse:
        wanted = request.filter
        found = [
            each
            for each in self._registry.containers()
            if wanted.id in ("", each.id)
            and wanted.pod_sandbox_id in ("", each.sandbox_id)
            and has_labels(each.config.labels, wanted.label_selector)
            and each.state == cri.CONTAINER_RUNNING
        ]
        return cri.ListContainerStatsResponse(stats=self._stats_of(found))

    def _sandbox_stats(self, request: cri.PodSandboxStatsRequest) -> cri.PodSandboxStatsResponse:
        (stats,) = self._stats_of_pods([self._registry.sandbox(request.pod_sandbox_id)])
        return cri.PodSandboxStatsResponse(stats=stats)

    def _list_sandbox_stats(self, request: cri.ListPodSandboxStatsRequest) -> cri.ListPodSandboxStatsResponse:
        wanted = request.filter
        found = [
            each
            for each in self._registry.sandboxes()
            if wanted.id in ("", each.id) and has_labels(each.config.labels, wanted.label_selector)
        ]
        return cri.ListPodSandboxStatsResponse(stats=self._stats_of_pods(found))
