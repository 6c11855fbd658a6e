"""The methods of CRI as tables by name, for every kind of runtime.

CRI methods without an entry are answered UNIMPLEMENTED with an explanation, so that a client learns that the limit is
this runtime's and not its own mistake.
"""

from collections.abc import Iterator
from typing import Any

from modules.runtimes.engine.driver import Method, OnEnd, WatchingMethod, call_at_end
from modules.runtimes.engine.engine import Engine
from modules.runtimes.engine.errors import WrongStateError
from modules.runtimes.engine.inspection import container_info, sandbox_info
from modules.runtimes.engine.views import (
    container_listing,
    container_matches,
    container_status,
    has_labels,
    pod_in,
    sandbox_listing,
    sandbox_matches,
    sandbox_status,
)
from protos.cri.v1 import api_pb2 as cri

RUNTIME_VERSION = "0.1.0"
_CRI_VERSION = "v1"
_KUBELET_VERSION = "0.1.0"
"""The first field of Version since the first CRI; clients compare it with their own constant."""


class CriMethods:
    """The methods of runtime.v1.RuntimeService, and by `images` of runtime.v1.ImageService."""

    def __init__(self, engine: Engine[Any]) -> None:
        self._engine = engine
        self._driver = engine.driver
        self._registry = engine.registry
        self._sandboxes = engine.sandboxes
        self._containers = engine.containers
        self.why_not = engine.driver.why_not
        self.images = engine.driver.images

    def table(self) -> dict[str, Method]:
        """Return the unary methods by name."""
        return self._common() | self._streams() | self._driver.metrics()

    def watching(self) -> dict[str, WatchingMethod]:
        """Return the unary methods that must notice a client that gives up."""
        return {"ExecSync": self._exec_sync}

    def _common(self) -> dict[str, Method]:
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

    def events(self, on_cancel: OnEnd, *, takes_containers: bool = True) -> Iterator[cri.ContainerEventResponse]:
        """GetContainerEvents: events from now on, until the client cancels."""
        stream = self._engine.events.subscribe(takes_containers=takes_containers)
        call_at_end(on_cancel, stream.leave)
        return iter(stream)

    # the runtime

    def _version(self, _: cri.VersionRequest) -> cri.VersionResponse:
        return cri.VersionResponse(
            version=_KUBELET_VERSION,
            runtime_name=self._driver.runtime_name,
            runtime_version=RUNTIME_VERSION,
            runtime_api_version=_CRI_VERSION,
        )

    def _status(self, request: cri.StatusRequest) -> cri.StatusResponse:
        answer = self._driver.status()
        if request.verbose:
            answer.info.update(self._driver.info())
        return answer

    def _runtime_config(self, _: cri.RuntimeConfigRequest) -> cri.RuntimeConfigResponse:
        driver = cri.SYSTEMD if self._driver.systemd_cgroups else cri.CGROUPFS
        return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=driver))

    # sandboxes

    def _stop_sandbox(self, request: cri.StopPodSandboxRequest) -> cri.StopPodSandboxResponse:
        self._sandboxes.stop(request.pod_sandbox_id)
        return cri.StopPodSandboxResponse()

    def _remove_sandbox(self, request: cri.RemovePodSandboxRequest) -> cri.RemovePodSandboxResponse:
        self._sandboxes.remove(request.pod_sandbox_id)
        return cri.RemovePodSandboxResponse()

    def _sandbox_status(self, request: cri.PodSandboxStatusRequest) -> cri.PodSandboxStatusResponse:
        self._engine.settle()
        sandbox = self._registry.sandbox(request.pod_sandbox_id)
        return cri.PodSandboxStatusResponse(
            status=sandbox_status(sandbox),
            containers_statuses=[container_status(each) for each in self._registry.containers(sandbox.id)],
            timestamp=self._engine.clock.now_ns(),
            info=sandbox_info(sandbox, self._driver.sandbox_details(sandbox)) if request.verbose else None,
        )

    def _list_sandboxes(self, request: cri.ListPodSandboxRequest) -> cri.ListPodSandboxResponse:
        self._driver.settle()
        found = self._registry.sandboxes(pod_in(request.filter.label_selector))
        found = [each for each in found if sandbox_matches(each, request.filter)]
        return cri.ListPodSandboxResponse(items=[sandbox_listing(each) for each in found])

    # containers

    def _start_container(self, request: cri.StartContainerRequest) -> cri.StartContainerResponse:
        self._containers.start(request.container_id)
        return cri.StartContainerResponse()

    def _stop_container(self, request: cri.StopContainerRequest) -> cri.StopContainerResponse:
        self._engine.settle()
        self._containers.stop(request.container_id, request.timeout)
        return cri.StopContainerResponse()

    def _remove_container(self, request: cri.RemoveContainerRequest) -> cri.RemoveContainerResponse:
        self._containers.remove(request.container_id)
        return cri.RemoveContainerResponse()

    def _list_containers(self, request: cri.ListContainersRequest) -> cri.ListContainersResponse:
        self._engine.settle()
        found = self._registry.containers(pod=pod_in(request.filter.label_selector))
        found = [each for each in found if container_matches(each, request.filter)]
        return cri.ListContainersResponse(containers=[container_listing(each) for each in found])

    def _container_status(self, request: cri.ContainerStatusRequest) -> cri.ContainerStatusResponse:
        self._engine.settle()
        container = self._registry.container(request.container_id)
        info = container_info(container, self._driver.container_details(container)) if request.verbose else None
        return cri.ContainerStatusResponse(status=container_status(container), info=info)

    def _update_resources(self, request: cri.UpdateContainerResourcesRequest) -> cri.UpdateContainerResourcesResponse:
        self._containers.update(request.container_id, request.linux)
        return cri.UpdateContainerResourcesResponse()

    def _reopen_log(self, request: cri.ReopenContainerLogRequest) -> cri.ReopenContainerLogResponse:
        self._containers.reopen_log(request.container_id)
        return cri.ReopenContainerLogResponse()

    # commands and streams

    def _exec_sync(self, request: cri.ExecSyncRequest, on_end: OnEnd) -> cri.ExecSyncResponse:
        self._engine.settle()
        return self._driver.exec_sync(self._registry.container(request.container_id), request, on_end)

    def _streams(self) -> dict[str, Method]:
        """Return the methods that answer with the address of a stream; none where there are no streams."""
        streaming = self._driver.streaming
        if streaming is None:
            return {}

        def execute(request: cri.ExecRequest) -> cri.ExecResponse:
            self._check_running(request.container_id)
            return cri.ExecResponse(url=streaming.exec_url(request))

        def attach(request: cri.AttachRequest) -> cri.AttachResponse:
            self._check_running(request.container_id)
            return cri.AttachResponse(url=streaming.attach_url(request))

        def port_forward(request: cri.PortForwardRequest) -> cri.PortForwardResponse:
            sandbox = self._registry.sandbox(request.pod_sandbox_id)
            if sandbox.record.stopped:
                raise WrongStateError(f"forward ports of sandbox {sandbox.id}", "it is not ready")
            return cri.PortForwardResponse(url=streaming.port_forward_url(request))

        return {"Exec": execute, "Attach": attach, "PortForward": port_forward}

    def _check_running(self, container_id: str) -> None:
        self._engine.settle()
        container = self._registry.container(container_id)
        if container.state != cri.CONTAINER_RUNNING:
            raise WrongStateError(f"stream from container {container.id}", "it is not running")

    # stats

    def _container_stats(self, request: cri.ContainerStatsRequest) -> cri.ContainerStatsResponse:
        (stats,) = self._driver.stats([self._registry.container(request.container_id)])
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
        return cri.ListContainerStatsResponse(stats=self._driver.stats(found))

    def _sandbox_stats(self, request: cri.PodSandboxStatsRequest) -> cri.PodSandboxStatsResponse:
        (stats,) = self._driver.pod_stats([self._registry.sandbox(request.pod_sandbox_id)])
        return cri.PodSandboxStatsResponse(stats=stats)

    def _list_sandbox_stats(self, request: cri.ListPodSandboxStatsRequest) -> cri.ListPodSandboxStatsResponse:
        wanted = request.filter
        found = [
            each
            for each in self._registry.sandboxes()
            if wanted.id in ("", each.id) and has_labels(each.config.labels, wanted.label_selector)
        ]
        return cri.ListPodSandboxStatsResponse(stats=self._driver.pod_stats(found))
