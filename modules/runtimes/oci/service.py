"""The CRI methods of the OCI runtime."""

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.files.reading import read_file
from modules.runtimes.cri_server.errors import NoSuchObjectError
from modules.runtimes.cri_server.inspection import image_info
from modules.runtimes.cri_server.methods import EngineParts, Method, OnEnd
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.oci.bundles import read_config
from modules.runtimes.oci.driver.conmon import conmon_pid
from modules.runtimes.oci.engine import OciEngine
from modules.runtimes.oci.images import StorageUsage
from modules.runtimes.oci.isolated_methods import IsolatedMethods, cgroup_config, network_condition, network_details
from modules.runtimes.oci.metrics import metric_descriptors
from modules.runtimes.oci.model import OciContainer
from protos.cri.v1 import api_pb2 as cri

_LARGEST_CONFIG: Final = 16 * 1024 * 1024
"""Bytes of an image's configuration."""


class OciMethods(IsolatedMethods[OciContainer]):
    """The methods of both services of CRI."""

    runtime_name = "edgecore-oci"
    """Name of the runtime in the answer to Version."""

    why_not = {  # noqa: RUF012
        "CheckpointContainer": "Debian's crun has no CRIU",
        "": "this runtime does not have it yet",
    }

    def __init__(self, engine: OciEngine) -> None:
        super().__init__(
            EngineParts(
                engine.registry, engine.sandboxes, engine.containers, engine.watcher, engine.events, engine.clock
            ),
            engine.streaming,
            engine.stats,
            engine.containers.update,
        )
        self._engine = engine

    def table(self) -> dict[str, Method]:
        """Return the unary methods by name."""
        return super().table() | {
            "ListMetricDescriptors": lambda _: cri.ListMetricDescriptorsResponse(descriptors=metric_descriptors()),
            "ListPodSandboxMetrics": self._list_metrics,
        }

    def images(self) -> dict[str, Callable[[Any, OnEnd], Any]]:
        """Return the methods of the ImageService."""
        images = self._engine.images
        return {
            "ListImages": self._list_images,
            "ImageStatus": self._image_status,
            "PullImage": images.pull,
            "RemoveImage": lambda request, _: images.remove(request),
            "ImageFsInfo": self._image_fs_info,
        }

    def _image_fs_info(self, _: cri.ImageFsInfoRequest, __: OnEnd) -> cri.ImageFsInfoResponse:
        """Answer with the usage of images, and of writable layers, as the statistics of containers have it."""
        used = [self._engine.roots.usage(each.directory) for each in self._registry.containers()]
        writable = StorageUsage(sum(each.bytes for each in used), sum(each.inodes for each in used))
        return self._engine.images.file_system(writable)

    def _list_images(self, request: cri.ListImagesRequest, _: OnEnd) -> cri.ListImagesResponse:
        self._engine.archives.refresh()
        return self._engine.images.listing(request)

    def _image_status(self, request: cri.ImageStatusRequest, _: OnEnd) -> cri.ImageStatusResponse:
        self._engine.archives.refresh(request.image.image)
        answer = self._engine.images.status(request)
        if request.verbose and answer.HasField("image"):
            answer.info.update(self._image_info(answer.image.id))
        return answer

    def _image_info(self, image_id: str) -> dict[str, str]:
        """Return the configuration of an image as its registry has it; nothing if it was just removed."""
        images = self._engine.images
        try:
            chain = images.get(image_id).chain
            specification = decode_json(read_file(images.layout.blob(image_id), _LARGEST_CONFIG), dict[str, Any])
        except (NoSuchObjectError, OSError, msgspec.MsgspecError):
            return {}
        return image_info(specification, chainID=chain[-1] if chain else "")

    def _container_details(self, container: OciContainer) -> dict[str, Any]:
        """Return what crun, or runc, was told, and where its files and its conmon are."""
        try:
            specification: dict[str, Any] | None = read_config(container.directory)
        except (OSError, msgspec.MsgspecError):  # it was not started yet
            specification = None
        is_running = container.run is not None and container.exit is None
        return {
            "runtimeType": str(self._engine.runtime.program),
            "snapshotter": "overlayfs" if self._engine.roots.has_overlays else "copy",
            "conmonPid": (conmon_pid(container.directory) or 0) if is_running else 0,
            "runtimeSpec": specification,
        }

    def _sandbox_details(self, sandbox: Sandbox) -> dict[str, Any]:
        pinned = self._engine.namespaces.pinned(sandbox.id)
        kinds = ("network", "ipc", "uts", "user")
        return network_details(sandbox, dict(zip(kinds, pinned, strict=True)) if pinned is not None else {})

    def _list_metrics(self, _: cri.ListPodSandboxMetricsRequest) -> cri.ListPodSandboxMetricsResponse:
        ready = [each for each in self._registry.sandboxes() if not each.record.stopped]
        measured = [self._engine.metrics.of_pod(each, self._registry.containers(each.id)) for each in ready]
        return cri.ListPodSandboxMetricsResponse(pod_metrics=measured)

    def _exec_sync(self, request: cri.ExecSyncRequest, on_cancel: OnEnd) -> cri.ExecSyncResponse:
        self._engine.watcher.settle()
        return self._engine.executor.execute(self._registry.container(request.container_id), request, on_cancel)

    def _status(self, request: cri.StatusRequest) -> cri.StatusResponse:
        conditions = [
            cri.RuntimeCondition(type="RuntimeReady", status=True),
            network_condition(self._engine.resources.network_status()),
        ]
        features = cri.RuntimeHandlerFeatures(
            recursive_read_only_mounts=True, user_namespaces=self._engine.machine.user_namespaces
        )
        return cri.StatusResponse(
            status=cri.RuntimeStatus(conditions=conditions),
            info=self._info() if request.verbose else None,
            runtime_handlers=[cri.RuntimeHandler(name="", features=features)],
            features=cri.RuntimeFeatures(supplemental_groups_policy=True),
        )

    def _runtime_config(self, _: cri.RuntimeConfigRequest) -> cri.RuntimeConfigResponse:
        return cgroup_config(systemd=self._engine.systemd_cgroups)

    def _info(self) -> dict[str, str]:
        profile = self._engine.apparmor
        programs = {"path": str(self._engine.runtime.program), "parent": self._engine.parent}
        return {
            "isolation": "containers",
            "rootfs": "overlay" if self._engine.roots.has_overlays else "copy",
            "runtime": json.dumps(programs),
            "apparmor": json.dumps({"default": profile.name or "unconfined", "reason": profile.reason}),
            "pulls": self._engine.images.pulls.described(),
        }
