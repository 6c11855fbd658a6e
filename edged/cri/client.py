"""The container runtime at the other end of a unix socket: CRI over gRPC, as kubelet speaks it.

Runtime and images may have two sockets (containerRuntimeEndpoint and imageServiceEndpoint); without the second, the
first serves both. The client adds to the bare calls: deadlines, the version of CRI, one tree of errors, and that
removing a missing object succeeds.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from edged.cri.contract import ContainerId, ContainerRuntime, ExecResult, ImageRef, SandboxId, StreamingUrl
from edged.cri.endpoint import Endpoint
from edged.cri.errors import NotFoundError
from protos.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from google.protobuf.message import Message

    from edged.cri.contract import Streams
    from edged.cri.endpoint import Answer

DEFAULT_REQUEST_TIMEOUT: Final = 120.0
"""Seconds; KubeEdge's and kubelet's default of runtimeRequestTimeout."""

_OUR_VERSION = "0.1.0"  # kubelet's own in Version


class CriClient(ContainerRuntime):
    """A container runtime reached through its socket. Thread-safe."""

    def __init__(
        self,
        runtime_endpoint: str,
        image_endpoint: str = "",
        request_timeout: float = DEFAULT_REQUEST_TIMEOUT,
        pull_timeout: float | None = None,
        local: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        """Take endpoints as `socket_path` does; nothing is connected before the first call.

        Args:
            runtime_endpoint: socket of the RuntimeService.
            image_endpoint: socket of the ImageService; the runtime's if empty.
            request_timeout: seconds that any call may take, beyond its grace period or command.
            pull_timeout: seconds that a pull may take; None for no deadline. CRI reports no progress of a pull, so the
                runtime itself gives up on a stalled one (containerd: image_pull_progress_timeout).
            local: calls that a runtime in this process answers without the socket, by gRPC's paths.
        """
        self._timeout = request_timeout
        self._pull_timeout = pull_timeout
        self._runtime = Endpoint(runtime_endpoint, self._probe_runtime, local or {})
        one_for_both = image_endpoint in ("", runtime_endpoint)
        self._images = self._runtime if one_for_both else Endpoint(image_endpoint, self._probe_images, {})

    def version(self) -> pb.VersionResponse:
        return self._ask(pb.VersionRequest(version=_OUR_VERSION), pb.VersionResponse)

    def status(self, *, verbose: bool = False) -> pb.StatusResponse:
        return self._ask(pb.StatusRequest(verbose=verbose), pb.StatusResponse)

    def run_pod_sandbox(self, config: pb.PodSandboxConfig, runtime_handler: str = "") -> SandboxId:
        request = pb.RunPodSandboxRequest(config=config, runtime_handler=runtime_handler)
        # twice the time, as kubelet allows it: the image of the sandbox may have to be pulled
        timeout = 2 * self._timeout
        answer = self._runtime.call(request, pb.RunPodSandboxResponse, timeout, subject=f"pod {_name_of(config)}")
        return SandboxId(answer.pod_sandbox_id)

    def stop_pod_sandbox(self, sandbox_id: SandboxId) -> None:
        request = pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        with suppress(NotFoundError):
            self._ask(request, pb.StopPodSandboxResponse, sandbox_id)

    def remove_pod_sandbox(self, sandbox_id: SandboxId) -> None:
        request = pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        with suppress(NotFoundError):
            self._ask(request, pb.RemovePodSandboxResponse, sandbox_id)

    def pod_sandbox_status(self, sandbox_id: SandboxId, *, verbose: bool = False) -> pb.PodSandboxStatusResponse:
        request = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=verbose)
        return self._ask(request, pb.PodSandboxStatusResponse, sandbox_id)

    def list_pod_sandboxes(self, sandbox_filter: pb.PodSandboxFilter | None = None) -> Sequence[pb.PodSandbox]:
        return self._ask(pb.ListPodSandboxRequest(filter=sandbox_filter), pb.ListPodSandboxResponse).items

    def create_container(
        self, sandbox_id: SandboxId, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig
    ) -> ContainerId:
        request = pb.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox_config)
        subject = f"container {config.metadata.name} in pod {_name_of(sandbox_config)}"
        return ContainerId(self._ask(request, pb.CreateContainerResponse, subject).container_id)

    def start_container(self, container_id: ContainerId) -> None:
        request = pb.StartContainerRequest(container_id=container_id)
        self._ask(request, pb.StartContainerResponse, container_id)

    def stop_container(self, container_id: ContainerId, grace_seconds: int) -> None:
        request = pb.StopContainerRequest(container_id=container_id, timeout=grace_seconds)
        timeout = grace_seconds + self._timeout
        with suppress(NotFoundError):
            self._runtime.call(request, pb.StopContainerResponse, timeout, subject=container_id)

    def remove_container(self, container_id: ContainerId) -> None:
        request = pb.RemoveContainerRequest(container_id=container_id)
        with suppress(NotFoundError):
            self._ask(request, pb.RemoveContainerResponse, container_id)

    def list_containers(self, container_filter: pb.ContainerFilter | None = None) -> Sequence[pb.Container]:
        request = pb.ListContainersRequest(filter=container_filter)
        return self._ask(request, pb.ListContainersResponse).containers

    def container_status(self, container_id: ContainerId, *, verbose: bool = False) -> pb.ContainerStatusResponse:
        request = pb.ContainerStatusRequest(container_id=container_id, verbose=verbose)
        return self._ask(request, pb.ContainerStatusResponse, container_id)

    def exec_sync(self, container_id: ContainerId, command: Sequence[str], timeout_seconds: int) -> ExecResult:
        request = pb.ExecSyncRequest(container_id=container_id, cmd=command, timeout=timeout_seconds)
        # as kubelet: the runtime limits the command, this deadline the runtime; without a limit neither does
        timeout = timeout_seconds + self._timeout if timeout_seconds else None
        answer = self._runtime.call(request, pb.ExecSyncResponse, timeout, subject=container_id)
        return ExecResult(answer.stdout, answer.stderr, answer.exit_code)

    def exec_url(self, container_id: ContainerId, command: Sequence[str], streams: Streams) -> StreamingUrl:
        request = pb.ExecRequest(container_id=container_id, cmd=command, **streams._asdict())
        return StreamingUrl(self._ask(request, pb.ExecResponse, container_id).url)

    def attach_url(self, container_id: ContainerId, streams: Streams) -> StreamingUrl:
        request = pb.AttachRequest(container_id=container_id, **streams._asdict())
        return StreamingUrl(self._ask(request, pb.AttachResponse, container_id).url)

    def port_forward_url(self, sandbox_id: SandboxId, ports: Sequence[int]) -> StreamingUrl:
        request = pb.PortForwardRequest(pod_sandbox_id=sandbox_id, port=ports)
        return StreamingUrl(self._ask(request, pb.PortForwardResponse, sandbox_id).url)

    def reopen_container_log(self, container_id: ContainerId) -> None:
        request = pb.ReopenContainerLogRequest(container_id=container_id)
        self._ask(request, pb.ReopenContainerLogResponse, container_id)

    def list_container_stats(self, stats_filter: pb.ContainerStatsFilter | None = None) -> Sequence[pb.ContainerStats]:
        request = pb.ListContainerStatsRequest(filter=stats_filter)
        return self._ask(request, pb.ListContainerStatsResponse).stats

    def list_metric_descriptors(self) -> Sequence[pb.MetricDescriptor]:
        return self._ask(pb.ListMetricDescriptorsRequest(), pb.ListMetricDescriptorsResponse).descriptors

    def list_pod_sandbox_metrics(self) -> Sequence[pb.PodSandboxMetrics]:
        return self._ask(pb.ListPodSandboxMetricsRequest(), pb.ListPodSandboxMetricsResponse).pod_metrics

    def image_status(self, image: pb.ImageSpec) -> pb.Image | None:
        answer = self.image_status_response(image)
        return answer.image if answer.HasField("image") else None

    def image_status_response(self, image: pb.ImageSpec, *, verbose: bool = False) -> pb.ImageStatusResponse:
        """Return the whole answer to ImageStatus, with the runtime's information about the image if `verbose`."""
        request = pb.ImageStatusRequest(image=image, verbose=verbose)
        return self._images.call(request, pb.ImageStatusResponse, self._timeout, subject=image.image)

    def pull_image(
        self,
        image: pb.ImageSpec,
        auth: pb.AuthConfig | None = None,
        sandbox_config: pb.PodSandboxConfig | None = None,
    ) -> ImageRef:
        request = pb.PullImageRequest(image=image, auth=auth, sandbox_config=sandbox_config)
        secrets = _secrets_in(request.auth)
        answer = self._images.call(
            request, pb.PullImageResponse, self._pull_timeout, subject=image.image, secrets=secrets
        )
        return ImageRef(answer.image_ref)

    def list_images(self, image_filter: pb.ImageFilter | None = None) -> Sequence[pb.Image]:
        request = pb.ListImagesRequest(filter=image_filter)
        return self._images.call(request, pb.ListImagesResponse, self._timeout).images

    def remove_image(self, image: pb.ImageSpec) -> None:
        request = pb.RemoveImageRequest(image=image)
        with suppress(NotFoundError):
            self._images.call(request, pb.RemoveImageResponse, self._timeout, subject=image.image)

    def image_fs_info(self) -> Sequence[pb.FilesystemUsage]:
        answer = self._images.call(pb.ImageFsInfoRequest(), pb.ImageFsInfoResponse, self._timeout)
        return answer.image_filesystems

    def container_events(
        self, opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]
    ) -> NoReturn:
        self._runtime.stream(pb.GetEventsRequest(), pb.ContainerEventResponse, opened, happened)

    def close(self) -> None:
        self._images.close()
        self._runtime.close()

    def _ask(self, request: Message, answer: type[Answer], subject: str = "") -> Answer:
        return self._runtime.call(request, answer, self._timeout, subject=subject)

    def _probe_runtime(self, endpoint: Endpoint, api_version: str) -> None:
        request = pb.VersionRequest(version=_OUR_VERSION)
        endpoint.call_version(api_version, request, pb.VersionResponse, self._timeout)

    def _probe_images(self, endpoint: Endpoint, api_version: str) -> None:
        request = pb.ImageFsInfoRequest()
        endpoint.call_version(api_version, request, pb.ImageFsInfoResponse, self._timeout)


def _name_of(config: pb.PodSandboxConfig) -> str:
    return f"{config.metadata.namespace}/{config.metadata.name}"


def _secrets_in(auth: pb.AuthConfig) -> tuple[str, ...]:
    """Return the secret parts of the credentials: all but the names of the user and the server."""
    return (auth.password, auth.auth, auth.identity_token, auth.registry_token)
