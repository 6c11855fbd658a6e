"""The CRI methods of the runtime whose containers are processes."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from modules.runtimes.cri_server.methods import CriMethods, EngineParts, OnEnd
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.process.engine import Engine
from modules.runtimes.process.execution import execute
from modules.runtimes.process.model import EmbeddedContainer
from modules.runtimes.process.resources import update_resources
from modules.runtimes.process.stats import container_usage, measure, sandbox_usage
from modules.runtimes.shim.procfs import all_processes
from protos.cri.v1 import api_pb2 as cri


class ProcessMethods(CriMethods[Sandbox, EmbeddedContainer]):
    """The methods of both services of CRI."""

    runtime_name = "edgecore-processes"
    """Name of the runtime in the answer to Version."""

    why_not = {  # noqa: RUF012
        "Exec": "streaming commands are not offered; ExecSync is",
        "Attach": "the standard streams of containers go to their log only",
        "PortForward": "pods share this machine's network: connect to the port directly",
        "": "containers that are plain processes have nothing behind it",
    }

    def __init__(self, engine: Engine) -> None:
        super().__init__(
            EngineParts(
                engine.registry, engine.sandboxes, engine.containers, engine.watcher, engine.events, engine.clock
            )
        )
        self._engine = engine

    def watching(self) -> dict[str, Callable[[Any, OnEnd], Any]]:
        """Return ExecSync."""
        return {"ExecSync": self._exec_sync}

    def images(self) -> dict[str, Callable[[Any, OnEnd], Any]]:
        """Return the methods of the ImageService."""
        images = self._engine.images
        return {
            "ListImages": lambda request, _: images.listing(request),
            "ImageStatus": lambda request, _: images.status(request),
            "PullImage": lambda request, _: images.pull(request),
            "RemoveImage": lambda request, _: images.remove(request),
            "ImageFsInfo": lambda request, _: images.file_system(request),
        }

    def _exec_sync(self, request: cri.ExecSyncRequest, on_cancel: OnEnd) -> cri.ExecSyncResponse:
        self._engine.watcher.settle()
        return execute(self._registry.container(request.container_id), request, on_cancel, self._engine.clock)

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

    def _update_resources(self, request: cri.UpdateContainerResourcesRequest) -> cri.UpdateContainerResourcesResponse:
        update_resources(self._registry.container(request.container_id), request.linux)
        return cri.UpdateContainerResourcesResponse()

    def _stats_of(self, containers: Sequence[EmbeddedContainer]) -> list[cri.ContainerStats]:
        processes, now_ns = all_processes(), self._engine.clock.now_ns()
        return [container_usage(each, measure(each, processes), now_ns) for each in containers]

    def _stats_of_pods(self, sandboxes: Sequence[Sandbox]) -> list[cri.PodSandboxStats]:
        processes, now_ns = all_processes(), self._engine.clock.now_ns()
        return [
            sandbox_usage(
                sandbox,
                [(each, measure(each, processes)) for each in self._registry.containers(sandbox.id)],
                now_ns,
            )
            for sandbox in sandboxes
        ]
