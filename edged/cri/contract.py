"""edged's contract for container runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, NewType, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from protos.cri.v1 import api_pb2 as pb

SandboxId = NewType("SandboxId", str)
ContainerId = NewType("ContainerId", str)
ImageRef = NewType("ImageRef", str)
"""Identifies a pulled image: its id (`sha256:…`), or a name with a digest, as the runtime chooses."""

SERVER_ACTOR: Final = "server"
"""Actor, in traces, of calls for clients of the node's server and for statistics; a replay does not repeat them."""

StreamingUrl = NewType("StreamingUrl", str)
"""URL of the runtime's streaming server for one connection, valid for a minute or so. It is a secret: its holder may
use it.
"""


class Streams(NamedTuple):
    """The requested streams of a process in a container. With a terminal there is no separate `stderr` (CRI forbids
    it).
    """

    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False


class ExecResult(NamedTuple):
    """Output and exit code of a command that has ended in a container."""

    stdout: bytes
    stderr: bytes
    exit_code: int


class ContainerRuntime(Protocol):
    """A container runtime: pod sandboxes, their containers, and images.

    All of edged that touches containers is written against this class, never against gRPC; the client
    (`edged.cri.client`), the doubles of tests and the runtime of simulations implement it. Requests and answers are
    CRI's own messages where they carry more than an id, so that every field of CRI can be reached.

    Every method blocks its caller and may be called from several threads. When the runtime refuses or does not
    answer, it raises `edged.cri.errors.CriError`, and nothing else.
    """

    def version(self) -> pb.VersionResponse:
        """Return name and version of the runtime."""

    def status(self, *, verbose: bool = False) -> pb.StatusResponse:
        """Return the conditions `RuntimeReady` and `NetworkReady`; if verbose, the runtime's configuration too."""

    def run_pod_sandbox(self, config: pb.PodSandboxConfig, runtime_handler: str = "") -> SandboxId:
        """Make and start a pod's sandbox; an empty handler is the runtime's default."""

    def stop_pod_sandbox(self, sandbox_id: SandboxId) -> None:
        """Kill all processes of the sandbox and free its network. Succeeds for a missing sandbox."""

    def remove_pod_sandbox(self, sandbox_id: SandboxId) -> None:
        """Remove the sandbox and its containers. Succeeds for a missing sandbox."""

    def pod_sandbox_status(self, sandbox_id: SandboxId, *, verbose: bool = False) -> pb.PodSandboxStatusResponse:
        """Return state, addresses and times of a sandbox. Raises NotFoundError."""

    def list_pod_sandboxes(self, sandbox_filter: pb.PodSandboxFilter | None = None) -> Sequence[pb.PodSandbox]:
        """Return all sandboxes, or only matches of every field of the filter."""

    def create_container(
        self, sandbox_id: SandboxId, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig
    ) -> ContainerId:
        """Make a container in a sandbox without starting it; its image must be present."""

    def start_container(self, container_id: ContainerId) -> None:
        """Start a created container."""

    def stop_container(self, container_id: ContainerId, grace_seconds: int) -> None:
        """Send the stop signal, and SIGKILL after the grace period; return when the container is dead.

        Zero kills immediately. Succeeds for a missing or ended container.
        """

    def remove_container(self, container_id: ContainerId) -> None:
        """Remove a container, killing it when it runs. Succeeds for a missing container."""

    def list_containers(self, container_filter: pb.ContainerFilter | None = None) -> Sequence[pb.Container]:
        """Return all containers, or only matches of every field of the filter."""

    def container_status(self, container_id: ContainerId, *, verbose: bool = False) -> pb.ContainerStatusResponse:
        """Return state, exit code, times and mounts of a container. Raises NotFoundError."""

    def exec_sync(self, container_id: ContainerId, command: Sequence[str], timeout_seconds: int) -> ExecResult:
        """Run a command in a container to its end. Raises DeadlineExceededError after the time-out (0: none)."""

    def exec_url(self, container_id: ContainerId, command: Sequence[str], streams: Streams) -> StreamingUrl:
        """Return the URL for running a command in a container with its streams (CRI Exec)."""

    def attach_url(self, container_id: ContainerId, streams: Streams) -> StreamingUrl:
        """Return the URL for the streams of a container's main process (CRI Attach)."""

    def port_forward_url(self, sandbox_id: SandboxId, ports: Sequence[int]) -> StreamingUrl:
        """Return the URL for connections to ports in a sandbox. Protocols that name the ports later need none here."""

    def reopen_container_log(self, container_id: ContainerId) -> None:
        """Make the runtime reopen the container's log file, after its rotation."""

    def list_container_stats(self, stats_filter: pb.ContainerStatsFilter | None = None) -> Sequence[pb.ContainerStats]:
        """Return the usage of CPU, memory and writable layer by all running containers.

        With a filter only by those that match every field of it. containerd lists ended containers too, until they are
        removed.
        """

    def list_metric_descriptors(self) -> Sequence[pb.MetricDescriptor]:
        """Return the metrics of `list_pod_sandbox_metrics`, with their labels. Raises UnimplementedError."""

    def list_pod_sandbox_metrics(self) -> Sequence[pb.PodSandboxMetrics]:
        """Return the metrics of all pods, under cAdvisor's names. Raises UnimplementedError (containerd 1)."""

    def image_status(self, image: pb.ImageSpec) -> pb.Image | None:
        """Return the image when it is present on this machine, None otherwise."""

    def pull_image(
        self,
        image: pb.ImageSpec,
        auth: pb.AuthConfig | None = None,
        sandbox_config: pb.PodSandboxConfig | None = None,
    ) -> ImageRef:
        """Pull an image, without a limit of its own. Credentials appear in no error."""

    def list_images(self, image_filter: pb.ImageFilter | None = None) -> Sequence[pb.Image]:
        """Return the images present on this machine."""

    def remove_image(self, image: pb.ImageSpec) -> None:
        """Remove an image. Succeeds for a missing image."""

    def image_fs_info(self) -> Sequence[pb.FilesystemUsage]:
        """Return the usage of the filesystems that hold images."""

    def container_events(
        self, opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]
    ) -> NoReturn:
        """Report creation, start, end and removal of sandboxes and containers; never returns, only raises.

        `opened` is called once, when the runtime has confirmed the stream, so that no event is missed from now on
        (containerd confirms only with its first event); `happened` is called for each event; both on the caller's
        thread. When an event comes, the lists show its effect already. It may come late, twice, after a younger one, or
        not at all: containerd 1.7 gives each event to one of its listeners only.

        Raises:
            UnimplementedError: this runtime has no events (containerd before 1.7).
            ConnectionClosedError: after `close`.
            CriError: the stream has ended otherwise; events until it is opened again are lost.
        """

    def close(self) -> None:
        """Close the connection; calls under way fail with ConnectionClosedError."""
