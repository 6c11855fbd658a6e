"""The contract between the engine and a driver, which makes the containers of one kind of runtime."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol

from beehive.clock import Clock
from modules.runtimes.engine.events import Announcer
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.process_watcher import ProcessWatcher
from modules.runtimes.engine.records import PodAddresses, SandboxId
from modules.runtimes.engine.registry import ContainerT, Registry
from modules.runtimes.engine.state import StateDirectory
from protos.cri.v1 import api_pb2 as cri

OnEnd = Callable[[Callable[[], None]], object]
"""Registers a callback for the end of a call, however it ends; returns False if the call has ended already (grpc's
`add_callback`).
"""
Method = Callable[[Any], Any]
"""A unary method of CRI: takes the request, returns the answer."""
WatchingMethod = Callable[[Any, OnEnd], Any]
"""A unary method that must notice a client that gives up."""


def call_at_end(on_end: OnEnd, callback: Callable[[], None]) -> None:
    """Call a function when a call ends, or now if it has ended already."""
    if on_end(callback) is False:
        callback()


class Streaming(Protocol):
    """The source of the addresses of the streams of Exec, Attach and PortForward."""

    def exec_url(self, request: cri.ExecRequest) -> str:
        """Return the address for a command in a running container."""

    def attach_url(self, request: cri.AttachRequest) -> str:
        """Return the address for the streams of a running container."""

    def port_forward_url(self, request: cri.PortForwardRequest) -> str:
        """Return the address for connections to ports of a ready sandbox."""


class EngineParts(NamedTuple, Generic[ContainerT]):
    """The parts of an engine that its driver uses."""

    state: StateDirectory
    registry: Registry[ContainerT]
    announcer: Announcer
    watcher: ProcessWatcher
    clock: Clock


class Driver(ABC, Generic[ContainerT]):
    """A driver of sandboxes and containers of one kind.

    The engine checks states and names, keeps the records, and calls one operation of a container at a time. A driver
    that cannot carry out a request raises RequestRefusedError or OSError.

    Args:
        parts: of the engine.
    """

    runtime_name: ClassVar[str]
    """Name of the runtime in the answer to Version."""
    why_not: ClassVar[Mapping[str, str]]
    """Reasons why methods of CRI are not offered, by name; "" has the reason for all others."""
    subdirectories: ClassVar[tuple[str, ...]] = ()
    """Directories made in a container's directory."""
    keeps_requests: ClassVar[bool] = False
    """Whether somebody else has what a container was created with, so that a later edgecore can start it."""

    container_type: type[ContainerT]
    streaming: Streaming | None = None
    """None where containers have no streams but their logs."""
    systemd_cgroups: bool = False
    """Whether systemd makes the control groups."""

    def __init__(self, parts: EngineParts[ContainerT]) -> None:
        self._state = parts.state
        self._registry = parts.registry
        self._announcer = parts.announcer
        self._watcher = parts.watcher
        self._clock = parts.clock

    # the engine's life

    def begin(self) -> None:
        """Prepare the adoption of containers: settle the programs that an earlier edgecore has left running."""

    @abstractmethod
    def adopt(self, container: ContainerT, *, rebooted: bool) -> None:
        """Find the state of a container of an earlier edgecore.

        With `rebooted`, the container is of an earlier boot of the machine: none of its processes can live.
        """

    @abstractmethod
    def end_unknown(self, directory: Path) -> bool:
        """Kill the processes of a container without readable records; return whether all have ended."""

    def collect(self) -> None:
        """Remove everything that belongs to no container and no sandbox; after the adoption."""

    def serve(self) -> None:
        """Start what clients need beside the engine."""

    def purge(self) -> None:
        """Remove everything that is left when the last sandbox is removed. Raises ContainerRuntimeError, OSError."""

    def close(self) -> None:
        """Release everything but the containers, which go on running."""

    def settle(self) -> None:
        """Handle the past events of containers. Raises RequestRefusedError while their states are unknown."""

    # sandboxes

    def node_address(self) -> str:
        """Return the address of all pods where sandboxes are names alone; empty where `run_sandbox` makes them."""
        return ""

    def check_sandbox(self, request: cri.RunPodSandboxRequest) -> None:
        """Refuse a sandbox that cannot be made. Raises RequestRefusedError."""

    def new_sandbox_id(self, request: cri.RunPodSandboxRequest) -> SandboxId:  # noqa: ARG002 - Docker makes ids itself
        """Return the id of a new sandbox."""
        return SandboxId(self._new_id())

    def run_sandbox(self, sandbox: Sandbox) -> PodAddresses:  # noqa: ARG002 - a name alone
        """Make the resources of a sandbox outside its directory, and return its addresses."""
        return PodAddresses("")

    def stop_sandbox(self, sandbox: Sandbox) -> None:
        """Remove the resources of a sandbox without running containers outside its directory. May be repeated."""

    # containers

    @abstractmethod
    def create(self, request: cri.CreateContainerRequest, sandbox: Sandbox) -> ContainerT:
        """Check a request, complete it, and return its container, not started."""

    def abort_create(self, container: ContainerT) -> None:
        """Undo `create`: the container could not be stored."""

    @abstractmethod
    def start(self, container: ContainerT) -> None:
        """Start a created container and return when its command runs. Raises RunFailedError: then it has ended."""

    @abstractmethod
    def signal(self, container: ContainerT, number: int) -> None:
        """Send a signal to a running container; it may be just ending."""

    def await_notice(self, container: ContainerT, number: int, seconds: float) -> None:
        """Wait at most `seconds` until a running container would notice a signal; a new container may not."""

    @abstractmethod
    def update(self, container: ContainerT, wanted: cri.LinuxContainerResources, attempt: str) -> None:
        """Check new limits, and apply them to a running container. Raises RequestRefusedError, named by `attempt`."""

    @abstractmethod
    def reopen_log(self, container: ContainerT, attempt: str) -> None:
        """Go on in a new log file of a running container. Raises OSError, RequestRefusedError, named by `attempt`."""

    def remove(self, container: ContainerT) -> None:
        """Remove the resources of an ended container outside its directory."""

    @abstractmethod
    def exec_sync(self, container: ContainerT, request: cri.ExecSyncRequest, on_end: OnEnd) -> cri.ExecSyncResponse:
        """Run a command in a container."""

    # reports

    @abstractmethod
    def stats(self, containers: Sequence[ContainerT]) -> list[cri.ContainerStats]:
        """Measure containers."""

    @abstractmethod
    def pod_stats(self, sandboxes: Sequence[Sandbox]) -> list[cri.PodSandboxStats]:
        """Measure pods with their containers."""

    @abstractmethod
    def status(self) -> cri.StatusResponse:
        """Return the conditions of the runtime and its features."""

    @abstractmethod
    def info(self) -> dict[str, str]:
        """Return the additions of a verbose Status."""

    def sandbox_details(self, sandbox: Sandbox) -> dict[str, Any]:  # noqa: ARG002 - a name alone
        """Return the additions of a verbose status to a sandbox's configuration."""
        return {}

    def container_details(self, container: ContainerT) -> dict[str, Any]:  # noqa: ARG002 - for the other kinds
        """Return the additions of a verbose status to a container's configuration and process."""
        return {"runtimeType": self.runtime_name}

    def metrics(self) -> dict[str, Method]:
        """Return the methods for CRI's metrics; none by default."""
        return {}

    @abstractmethod
    def images(self) -> dict[str, WatchingMethod]:
        """Return the methods of the ImageService."""

    def _new_id(self) -> str:
        return f"{self._clock.random.getrandbits(256):064x}"


class RuntimeSettings(Protocol[ContainerT]):
    """The settings of one kind of runtime, for its engine."""

    def lock(self, root: Path, clock: Clock) -> StateDirectory:
        """Check the machine and lock the state directory. Raises ContainerRuntimeError."""

    def driver(self, parts: EngineParts[ContainerT]) -> Driver[ContainerT]:
        """Return a new driver. Raises ContainerRuntimeError, OSError."""
