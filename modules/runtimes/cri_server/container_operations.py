"""The CRI operations on containers that all kinds of containers share.

Requests arrive on the threads of the gRPC server and block there until they are done, as CRI demands. Grace periods are
real time, because real processes use them.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic

from beehive.clock import Clock
from modules.runtimes.cri_server.announcer import Announcer
from modules.runtimes.cri_server.errors import DeadlinePassedError, NoSuchObjectError, WrongStateError
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.cri_server.records import ContainerId
from modules.runtimes.cri_server.registry import ContainerT, Registry
from modules.runtimes.cri_server.state import StateDirectory, discard, publish, without_secrets
from protos.cri.v1 import api_pb2 as cri

SIGKILL = 9
_LONGEST_GRACE_SECONDS = 365 * 24 * 3600.0
"""Longest grace period in seconds; longer ones are shortened, because the system's timers cannot hold them."""

_ANOTHER = "create another one with the next attempt number"

KILL_SECONDS = 15.0
"""Seconds to wait after SIGKILL. Only processes stuck in the kernel take longer."""


class ContainerOperations(ABC, Generic[ContainerT]):
    """Creates, stops and removes containers.

    Every operation may be repeated; stopping and removing a missing container succeeds, as CRI demands.
    """

    subdirectories: ClassVar[tuple[str, ...]]
    """Directories made in a container's directory."""
    keeps_requests: ClassVar[bool] = False
    """Whether somebody else has what a container was created with, so that a later edgecore can start it."""

    def __init__(
        self, state: StateDirectory, registry: Registry[Sandbox, ContainerT], announcer: Announcer, clock: Clock
    ) -> None:
        self._state = state
        self._registry = registry
        self._announcer = announcer
        self._clock = clock

    def create(self, request: cri.CreateContainerRequest) -> ContainerId:
        """Store a container without starting it. A configuration that is known to fail is refused here."""
        container = self._plan(request)
        try:
            self._registry.add_container(container)
            publish(container.directory, without_secrets(request), container.record, self.subdirectories)
        except BaseException:
            self._registry.remove_container(container.id)
            self._not_made(container)
            raise
        self._announcer.container(cri.CONTAINER_CREATED_EVENT, container)
        return container.id

    def stop(self, container_id: str, grace_seconds: float) -> None:
        """Ask a running container to end, kill it after the grace period, and return when all its processes have ended.

        It waits for a container whose start was requested by an edgecore that was killed meanwhile: nothing else would
        end that container.
        """
        container = self._registry.find_container(container_id)
        if container is None:
            return
        self._await_decision(container)
        if container.state != cri.CONTAINER_RUNNING:
            return
        if grace_seconds > 0:
            self._signal(container, self._stop_signal(container))
        if grace_seconds <= 0 or not container.ended.wait(min(grace_seconds, _LONGEST_GRACE_SECONDS)):
            self._signal(container, SIGKILL)
        attempt = f"stop container {container.id}"
        if not container.ended.wait(KILL_SECONDS):
            raise DeadlinePassedError(attempt, "its processes do not even die by SIGKILL")
        if container.exit is None:
            raise WrongStateError(attempt, "the runtime is closing, the container goes on")

    def settle_and_kill(self, container: ContainerT) -> None:
        """Kill a container, after waiting for a running start."""
        with container.lifecycle:
            self.stop(container.id, 0)

    def remove(self, container_id: str) -> None:
        """Remove a container and its directory; a running one is killed first."""
        container = self._registry.find_container(container_id)
        if container is None:
            return
        with container.lifecycle:
            self.stop(container.id, 0)
            self._release(container)
            self._registry.remove_container(container.id)
            discard(container.directory)
        self._announcer.container(cri.CONTAINER_DELETED_EVENT, container)

    @abstractmethod
    def start(self, container_id: str) -> None:
        """Start a created container. Raises WrongStateError, and RunFailedError: then it counts as exited."""

    @abstractmethod
    def reopen_log(self, container_id: str) -> None:
        """Continue in a new log file after the old one was renamed."""

    @abstractmethod
    def _plan(self, request: cri.CreateContainerRequest) -> ContainerT:
        """Check a request, complete it, and return its container."""

    @abstractmethod
    def _signal(self, container: ContainerT, number: int) -> None:
        """Send a signal to a running container; it may be just ending."""

    @abstractmethod
    def _stop_signal(self, container: ContainerT) -> int:
        """Return the number of the signal that asks a container to end."""

    def _await_decision(self, container: ContainerT) -> None:
        """Wait until a start that an earlier edgecore requested has succeeded or failed."""

    def _not_made(self, container: ContainerT) -> None:
        """Undo `_plan` after the container could not be stored."""

    def _release(self, container: ContainerT) -> None:
        """Release the resources that an ended container has outside its directory."""

    def _new_id(self) -> ContainerId:
        return ContainerId(f"{self._clock.random.getrandbits(256):064x}")

    def _check_startable(self, container: ContainerT, *, was_started: bool) -> None:
        attempt = f"start container {container.id}"
        if self._registry.find_container(container.id) is not container:
            raise NoSuchObjectError(attempt, "it was removed meanwhile")
        if was_started:
            raise WrongStateError(attempt, "it was started before", _ANOTHER)
        if container.adopted and not self.keeps_requests:
            reason = "edgecore was restarted since, and keeps a container's variables and command in memory only"
            raise WrongStateError(attempt, reason, _ANOTHER)
        sandbox = self._registry.find_sandbox(container.sandbox_id)
        if sandbox is None or sandbox.record.stopped:
            raise WrongStateError(attempt, "its sandbox was stopped")
