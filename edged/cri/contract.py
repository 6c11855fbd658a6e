"""What edged asks of a container runtime, as a contract class.

Everything in edged that touches containers is written against `ContainerRuntime`, never against gRPC: the
real client (`edged.cri.client`), the doubles of tests and the runtime of simulations all implement it.
Requests and answers are CRI's own messages where they carry more than an id, so that no field of CRI is out
of reach.

Every method blocks its caller and may be called from several workers at once. Every method raises
`edged.cri.errors.CriError`, and nothing else, when the runtime refuses or does not answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NewType, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from protos.cri.v1 import api_pb2 as pb

SandboxId = NewType("SandboxId", str)
ContainerId = NewType("ContainerId", str)
ImageRef = NewType("ImageRef", str)
"""What identifies a pulled image: its id (`sha256:…`), or a name with a digest, as the runtime chooses."""


StreamingUrl = NewType("StreamingUrl", str)
"""Where the runtime's streaming server expects one connection, for a minute or so: who knows it, may use it."""


class Streams(NamedTuple):
    """What of a process in a container is wanted. With a terminal there is no `stderr` of its own (CRI forbids it)."""

    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False


class ExecResult(NamedTuple):
    """Outcome of a command that was run in a container and has ended."""

    stdout: bytes
    stderr: bytes
    exit_code: int


class ContainerRuntime(Protocol):
    """A container runtime: sandboxes of pods, the containers in them, and images."""

    def version(self) -> pb.VersionResponse:
        """Name and version of the runtime."""

    def status(self, *, verbose: bool = False) -> pb.StatusResponse:
        """Conditions `RuntimeReady` and `NetworkReady`; the runtime's own configuration too when verbose."""

    def run_pod_sandbox(self, config: pb.PodSandboxConfig, runtime_handler: str = "") -> SandboxId:
        """Makes and starts a pod's sandbox; an empty handler is the runtime's default."""

    def stop_pod_sandbox(self, sandbox_id: SandboxId) -> None:
        """Kills what runs in the sandbox and frees its network. Success when there is no such sandbox."""

    def remove_pod_sandbox(self, sandbox_id: SandboxId) -> None:
        """Removes the sandbox and its containers. Success when there is no such sandbox."""

    def pod_sandbox_status(self, sandbox_id: SandboxId, *, verbose: bool = False) -> pb.PodSandboxStatusResponse:
        """State, addresses and times of a sandbox; NotFoundError when there is none."""

    def list_pod_sandboxes(self, sandbox_filter: pb.PodSandboxFilter | None = None) -> Sequence[pb.PodSandbox]:
        """All sandboxes, or those that match every field set in the filter."""

    def create_container(
        self, sandbox_id: SandboxId, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig
    ) -> ContainerId:
        """Makes a container in a sandbox without starting it; its image must be present."""

    def start_container(self, container_id: ContainerId) -> None:
        """Starts a created container."""

    def stop_container(self, container_id: ContainerId, grace_seconds: int) -> None:
        """Sends the stop signal, and SIGKILL after the grace period; returns when the container is dead.

        Zero kills at once. Success when there is no such container, or when it has ended before.
        """

    def remove_container(self, container_id: ContainerId) -> None:
        """Removes a container, killing it when it runs. Success when there is no such container."""

    def list_containers(self, container_filter: pb.ContainerFilter | None = None) -> Sequence[pb.Container]:
        """All containers, or those that match every field set in the filter."""

    def container_status(self, container_id: ContainerId, *, verbose: bool = False) -> pb.ContainerStatusResponse:
        """State, exit code, times and mounts of a container; NotFoundError when there is none."""

    def exec_sync(self, container_id: ContainerId, command: Sequence[str], timeout_seconds: int) -> ExecResult:
        """Runs a command in a container to its end; DeadlineExceededError after the time-out (0: none)."""

    def exec_url(self, container_id: ContainerId, command: Sequence[str], streams: Streams) -> StreamingUrl:
        """Where to connect to run a command in a container with its streams (CRI Exec)."""

    def attach_url(self, container_id: ContainerId, streams: Streams) -> StreamingUrl:
        """Where to connect for the streams of a container's own process (CRI Attach)."""

    def port_forward_url(self, sandbox_id: SandboxId, ports: Sequence[int]) -> StreamingUrl:
        """Where to connect for connections to ports in a sandbox. Protocols that name them later need none here."""

    def reopen_container_log(self, container_id: ContainerId) -> None:
        """Makes the runtime open the container's log file anew, after it was rotated away."""

    def update_container_resources(self, container_id: ContainerId, resources: pb.LinuxContainerResources) -> None:
        """Changes limits of a container that runs; fields left at zero stay as they are."""

    def container_stats(self, container_id: ContainerId) -> pb.ContainerStats:
        """Use of CPU, memory and writable layer by one container; NotFoundError when there is none."""

    def list_container_stats(self, stats_filter: pb.ContainerStatsFilter | None = None) -> Sequence[pb.ContainerStats]:
        """The same of all running containers, or of those that match every field set in the filter.

        containerd lists those that have ended too, until they are removed.
        """

    def image_status(self, image: pb.ImageSpec) -> pb.Image | None:
        """The image when it is present on this machine, None otherwise."""

    def pull_image(
        self,
        image: pb.ImageSpec,
        auth: pb.AuthConfig | None = None,
        sandbox_config: pb.PodSandboxConfig | None = None,
    ) -> ImageRef:
        """Fetches an image; takes as long as it takes. Credentials appear in no error."""

    def list_images(self, image_filter: pb.ImageFilter | None = None) -> Sequence[pb.Image]:
        """Images present on this machine."""

    def remove_image(self, image: pb.ImageSpec) -> None:
        """Removes an image. Success when there is no such image."""

    def image_fs_info(self) -> Sequence[pb.FilesystemUsage]:
        """Use of the filesystems that hold images."""

    def container_events(
        self, opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]
    ) -> NoReturn:
        """Tells of sandboxes and containers that are made, started, end or are removed; never returns, only raises.

        `opened` is called once, when the runtime has said that nothing is missed from now on (containerd says so only
        with its first event), `happened` for each event; both on the caller's thread. What an event tells, the lists
        say already when it comes. It may come late, twice, after a younger one, or not at all: containerd 1.7 gives
        each event to one of its listeners only.

        Raises:
            UnimplementedError: this runtime has no events (containerd before 1.7).
            ConnectionClosedError: after `close`.
            CriError: the stream has ended otherwise; what happens until it is opened again is not told of.
        """

    def close(self) -> None:
        """Lets go of the connection; calls that are under way fail with ConnectionClosedError."""
