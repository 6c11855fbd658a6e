"""The CRI methods of the embedded runtime, as tables by method name.

CRI methods without an entry are answered UNIMPLEMENTED with an explanation, so that a client learns that the limit is
this runtime's and not its own mistake.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from edged.embedded.engine import Engine
from edged.embedded.execution import execute
from edged.embedded.model import EmbeddedContainer
from edged.embedded.resources import update_resources
from edged.embedded.shim.procfs import all_processes
from edged.embedded.stats import container_stats, measure, sandbox_stats
from edged.embedded.views import (
    container_listing,
    container_matches,
    container_status,
    has_labels,
    sandbox_listing,
    sandbox_matches,
    sandbox_status,
)
from protos.cri.v1 import api_pb2 as cri

RUNTIME_NAME = "edgecore-processes"
"""Tells in Version that containers are processes of the machine, without isolation."""

RUNTIME_VERSION = "0.1.0"
_CRI_VERSION = "v1"
_KUBELET_VERSION = "0.1.0"
"""The first field of Version since the first CRI; clients compare it with their own constant."""

Method = Callable[[Any], Any]


class RuntimeMethods:
    """The methods of runtime.v1.RuntimeService."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sandboxes = engine.sandboxes
        self._containers = engine.containers
        self._registry = engine.registry

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

    def exec_sync(
        self, request: cri.ExecSyncRequest, on_cancel: Callable[[Callable[[], None]], object]
    ) -> cri.ExecSyncResponse:
        """ExecSync; not in the table, because it must notice a client that gives up."""
        self._engine.watcher.settle()
        return execute(self._registry.container(request.container_id), request, on_cancel)

    def events(self, on_cancel: Callable[[Callable[[], None]], object]) -> Iterator[cri.ContainerEventResponse]:
        """GetContainerEvents: events from now on, until the client cancels."""
        stream = self._engine.events.subscribe()
        on_cancel(stream.close)
        return iter(stream)

    # the runtime

    def _version(self, _: cri.VersionRequest) -> cri.VersionResponse:
        return cri.VersionResponse(
            version=_KUBELET_VERSION,
            runtime_name=RUNTIME_NAME,
            runtime_version=RUNTIME_VERSION,
            runtime_api_version=_CRI_VERSION,
        )

    def _status(self, request: cri.StatusRequest) -> cri.StatusResponse:
        conditions = [
            cri.RuntimeCondition(type="RuntimeReady", status=True),
            cri.RuntimeCondition(
                type="NetworkReady",
                status=True,
                reason="HostNetwork",
                message="all pods share the network of this machine",
            ),
        ]
        return cri.StatusResponse(
            status=cri.RuntimeStatus(conditions=conditions),
            info=self._info() if request.verbose else None,
            runtime_handlers=[cri.RuntimeHandler(name="")],
        )

    def _info(self) -> dict[str, str]:
        reason = self._engine.mounts_possible()
        return {"isolation": "none", "volumes": json.dumps({"possible": not reason, "reason": reason})}

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
        self._engine.watcher.settle()
        sandbox = self._registry.sandbox(request.pod_sandbox_id)
        return cri.PodSandboxStatusResponse(
            status=sandbox_status(sandbox),
            containers_statuses=[container_status(each) for each in self._registry.containers(sandbox.id)],
            timestamp=self._engine.clock.now_ns(),
        )

    def _list_sandboxes(self, request: cri.ListPodSandboxRequest) -> cri.ListPodSandboxResponse:
        found = [each for each in self._registry.sandboxes() if sandbox_matches(each, request.filter)]
        return cri.ListPodSandboxResponse(items=[sandbox_listing(each) for each in found])

    # containers

    def _start_container(self, request: cri.StartContainerRequest) -> cri.StartContainerResponse:
        self._containers.start(request.container_id)
        return cri.StartContainerResponse()

    def _stop_container(self, request: cri.StopContainerRequest) -> cri.StopContainerResponse:
        self._engine.watcher.settle()
        self._containers.stop(request.container_id, request.timeout)
        return cri.StopContainerResponse()

    def _remove_container(self, request: cri.RemoveContainerRequest) -> cri.RemoveContainerResponse:
        self._containers.remove(request.container_id)
        return cri.RemoveContainerResponse()

    def _list_containers(self, request: cri.ListContainersRequest) -> cri.ListContainersResponse:
        self._engine.watcher.settle()
        found = [each for each in self._registry.containers() if container_matches(each, request.filter)]
        return cri.ListContainersResponse(containers=[container_listing(each) for each in found])

    def _container_status(self, request: cri.ContainerStatusRequest) -> cri.ContainerStatusResponse:
        self._engine.watcher.settle()
        container = self._registry.container(request.container_id)
        info = {"pid": str(container.run.pid)} if request.verbose and container.run else None
        return cri.ContainerStatusResponse(status=container_status(container), info=info)

    def _update_resources(self, request: cri.UpdateContainerResourcesRequest) -> cri.UpdateContainerResourcesResponse:
        update_resources(self._registry.container(request.container_id), request.linux)
        return cri.UpdateContainerResourcesResponse()

    def _reopen_log(self, request: cri.ReopenContainerLogRequest) -> cri.ReopenContainerLogResponse:
        self._containers.reopen_log(request.container_id)
        return cri.ReopenContainerLogResponse()

    # stats

    def _stats_of(self, containers: list[EmbeddedContainer]) -> list[cri.ContainerStats]:
        processes, now_ns = all_processes(), self._engine.clock.now_ns()
        return [container_stats(each, measure(each, processes), now_ns) for each in containers]

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
        (stats,) = self._stats_of_sandboxes(self._registry.sandbox(request.pod_sandbox_id).id, {})
        return cri.PodSandboxStatsResponse(stats=stats)

    def _list_sandbox_stats(self, request: cri.ListPodSandboxStatsRequest) -> cri.ListPodSandboxStatsResponse:
        stats = self._stats_of_sandboxes(request.filter.id, dict(request.filter.label_selector))
        return cri.ListPodSandboxStatsResponse(stats=stats)

    def _stats_of_sandboxes(self, sandbox_id: str, selector: dict[str, str]) -> list[cri.PodSandboxStats]:
        processes, now_ns = all_processes(), self._engine.clock.now_ns()
        return [
            sandbox_stats(
                sandbox,
                [(each, measure(each, processes)) for each in self._registry.containers(sandbox.id)],
                now_ns,
            )
            for sandbox in self._registry.sandboxes()
            if sandbox_id in ("", sandbox.id) and has_labels(sandbox.config.labels, selector)
        ]


def image_methods(engine: Engine) -> dict[str, Method]:
    """Return the methods of runtime.v1.ImageService by name."""
    return {
        "ListImages": engine.images.listing,
        "ImageStatus": engine.images.status,
        "PullImage": engine.images.pull,
        "RemoveImage": engine.images.remove,
        "ImageFsInfo": engine.images.file_system,
    }
