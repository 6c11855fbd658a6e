"""The CRI methods of Docker Engine as a container runtime."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from modules.runtimes.cri_server.errors import NoSuchObjectError
from modules.runtimes.cri_server.inspection import image_info
from modules.runtimes.cri_server.methods import EngineParts, OnEnd
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.docker.engine import DockerEngine
from modules.runtimes.docker.execution import execute
from modules.runtimes.docker.inspection import pid_of, specification_of
from modules.runtimes.docker.model import DockerContainer
from modules.runtimes.docker.specs import RECURSIVE_READ_ONLY
from modules.runtimes.oci.isolated_methods import IsolatedMethods, cgroup_config, network_condition, network_details
from protos.cri.v1 import api_pb2 as cri


class DockerMethods(IsolatedMethods[DockerContainer]):
    """The methods of both services of CRI."""

    runtime_name = "edgecore-docker"
    """Name of the runtime in the answer to Version."""

    why_not = {  # noqa: RUF012
        "CheckpointContainer": "Docker's checkpoints are experimental",
        "": "dockershim does not have it",
    }

    def __init__(self, engine: DockerEngine) -> None:
        super().__init__(
            EngineParts(
                engine.registry, engine.sandboxes, engine.containers, engine.watcher, engine.events, engine.clock
            ),
            engine.streaming,
            engine.stats,
            engine.containers.update,
        )
        self._engine = engine

    def images(self) -> dict[str, Callable[[Any, OnEnd], Any]]:
        """Return the methods of the ImageService."""
        images = self._engine.images
        return {
            "ListImages": lambda request, _: images.listing(request),
            "ImageStatus": lambda request, _: self._image_status(request),
            "PullImage": images.pull,
            "RemoveImage": lambda request, _: images.remove(request),
            "ImageFsInfo": lambda request, _: images.file_system(request),
        }

    def _image_status(self, request: cri.ImageStatusRequest) -> cri.ImageStatusResponse:
        answer = self._engine.images.status(request)
        if request.verbose and answer.HasField("image"):
            answer.info.update(image_info(specification_of(self._asked(f"/images/{answer.image.id}/json"))))
        return answer

    def _container_details(self, container: DockerContainer) -> dict[str, Any]:
        """Return what Docker says of a container (`docker inspect`)."""
        return {"runtimeType": self.runtime_name, "docker": self._asked(f"/containers/{container.id}/json")}

    def _sandbox_details(self, sandbox: Sandbox) -> dict[str, Any]:
        """Return what Docker says of the container that holds a sandbox."""
        docker = self._asked(f"/containers/{sandbox.id}/json")
        pid = pid_of(docker)
        own = pid and sandbox.config.linux.security_context.namespace_options.network != cri.NODE
        network = Path(f"/proc/{pid}/ns/net") if own else None
        return {"pid": pid, "docker": docker, **network_details(sandbox, {"network": network})}

    def _asked(self, path: str) -> dict[str, Any]:
        """Return an object of Docker's as it is; an empty one if there is none. Raises RequestRefusedError."""
        with suppress(NoSuchObjectError):
            return self._engine.docker.get(path, dict[str, Any], "look at an object of Docker's")
        return {}

    def _list_sandboxes(self, request: cri.ListPodSandboxRequest) -> cri.ListPodSandboxResponse:
        self._engine.watcher.settle()
        return super()._list_sandboxes(request)

    def _exec_sync(self, request: cri.ExecSyncRequest, on_cancel: OnEnd) -> cri.ExecSyncResponse:
        self._engine.watcher.settle()
        return execute(self._engine.docker, self._registry.container(request.container_id), request, on_cancel)

    def _status(self, request: cri.StatusRequest) -> cri.StatusResponse:
        engine = self._engine
        problem = engine.watcher.problem
        conditions = [
            cri.RuntimeCondition(
                type="RuntimeReady", status=not problem, reason="DockerNotReachable" if problem else "", message=problem
            ),
            network_condition(engine.sandboxes.network_status()),
        ]
        is_recursive = engine.docker.version >= RECURSIVE_READ_ONLY
        features = cri.RuntimeHandlerFeatures(recursive_read_only_mounts=is_recursive, user_namespaces=False)
        return cri.StatusResponse(
            status=cri.RuntimeStatus(conditions=conditions),
            info=self._info() if request.verbose else None,
            runtime_handlers=[cri.RuntimeHandler(name="", features=features)],
            features=cri.RuntimeFeatures(supplemental_groups_policy=False),
        )

    def _runtime_config(self, _: cri.RuntimeConfigRequest) -> cri.RuntimeConfigResponse:
        return cgroup_config(systemd=self._engine.info.cgroup_driver == "systemd")

    def _info(self) -> dict[str, str]:
        docker = {"version": self._engine.info.server_version, "api": ".".join(map(str, self._engine.docker.version))}
        return {
            "isolation": "containers",
            "docker": json.dumps(docker),
            "pulls": self._engine.images.pulls.described(),
        }
