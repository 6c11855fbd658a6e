"""The CRI operations on containers that runtimes with isolated containers carry out in the same way."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

from beehive.clock import Clock
from modules.runtimes.cri_server.announcer import Announcer
from modules.runtimes.cri_server.container_operations import ContainerOperations
from modules.runtimes.cri_server.errors import RunFailedError, WrongStateError
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.cri_server.registry import Registry
from modules.runtimes.cri_server.state import StateDirectory, write_container_request
from modules.runtimes.oci.isolated_model import IsolatedContainer
from modules.runtimes.oci.spec import changed_resources
from protos.cri.v1 import api_pb2 as cri

IsolatedT = TypeVar("IsolatedT", bound=IsolatedContainer)


class IsolatedContainers(ContainerOperations[IsolatedT]):
    """Creates, starts, stops and removes containers, changes their limits and reopens their logs.

    Args:
        state: the state directory.
        registry: of sandboxes and containers.
        start: starts a created container; raises RunFailedError.
        announcer: of events.
        clock: for times and ids.
    """

    def __init__(
        self,
        state: StateDirectory,
        registry: Registry[Sandbox, IsolatedT],
        start: Callable[[IsolatedT], None],
        announcer: Announcer,
        clock: Clock,
    ) -> None:
        super().__init__(state, registry, announcer, clock)
        self._start = start

    def start(self, container_id: str) -> None:
        """Start a created container. Raises WrongStateError, and RunFailedError: then it counts as exited."""
        container = self._registry.container(container_id)
        with container.lifecycle:
            self._check_startable(container, was_started=container.state != cri.CONTAINER_CREATED)
            self._start(container)

    def update(self, container_id: str, wanted: cri.LinuxContainerResources) -> None:
        """Change limits, at once if the container runs; fields that `wanted` leaves out keep their values.

        Raises:
            BadRequestError: the limits are wrong.
            WrongStateError: the container has ended.
            RequestRefusedError: the runtime or the kernel refuses them.
        """
        container = self._registry.container(container_id)
        attempt = f"update the resources of container {container.id}"
        with container.lifecycle:
            if container.state == cri.CONTAINER_EXITED:
                raise WrongStateError(attempt, "it has ended")
            resources = container.config.linux.resources
            self._change_limits(container, wanted, attempt)
            resources.CopyFrom(changed_resources(resources, wanted))
            write_container_request(container.directory, container.request)

    def reopen_log(self, container_id: str) -> None:
        """Continue in a new log file after the old one was renamed."""
        container = self._registry.container(container_id)
        attempt = f"reopen the log of container {container.id}"
        if container.state != cri.CONTAINER_RUNNING:
            raise WrongStateError(attempt, "it is not running")
        if not container.log_path:
            return
        try:
            self._reopen(container, attempt)
        except OSError as error:
            raise RunFailedError(attempt, str(error)) from error

    @abstractmethod
    def _change_limits(self, container: IsolatedT, wanted: cri.LinuxContainerResources, attempt: str) -> None:
        """Check new limits, and apply them to a running container. Raises RequestRefusedError."""

    @abstractmethod
    def _reopen(self, container: IsolatedT, attempt: str) -> None:
        """Open the log of a running container anew. Raises OSError, RequestRefusedError."""

    def _stop_signal(self, container: IsolatedT) -> int:
        return container.record.stop_signal
