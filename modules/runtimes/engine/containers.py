"""The CRI operations on containers.

Requests arrive on the threads of the gRPC server and block there until they are done, as CRI demands. Grace periods are
real time, because real processes use them.
"""

from typing import Final, Generic

from modules.runtimes.engine.driver import Driver, EngineParts
from modules.runtimes.engine.errors import DeadlinePassedError, NoSuchObjectError, RunFailedError, WrongStateError
from modules.runtimes.engine.model import RuntimeContainer
from modules.runtimes.engine.records import ContainerId
from modules.runtimes.engine.registry import ContainerT
from modules.runtimes.engine.state import ASKED, RECORD, discard, publish, without_secrets, write_container_request
from protos.cri.v1 import api_pb2 as cri

_SIGKILL: Final = 9
_LONGEST_GRACE_SECONDS: Final = 365 * 24 * 3600.0
"""Longest grace period in seconds; longer ones are shortened, because the system's timers cannot hold them."""
_KILL_SECONDS: Final = 15.0
"""Seconds to wait after SIGKILL. Only processes stuck in the kernel take longer."""
_START_SECONDS: Final = 60.0
"""Seconds to wait for the outcome of a start that an earlier edgecore requested."""
_ANOTHER: Final = "create another one with the next attempt number"


class Containers(Generic[ContainerT]):
    """The manager of containers, which creates, starts, stops and removes them, changes their limits and reopens their
    logs.

    Every operation may be repeated; stopping and removing a missing container succeeds, as CRI demands.
    """

    def __init__(self, parts: EngineParts[ContainerT], driver: Driver[ContainerT]) -> None:
        self._journal = parts.state.journal
        self._registry = parts.registry
        self._announcer = parts.announcer
        self._clock = parts.clock
        self._driver = driver

    def create(self, request: cri.CreateContainerRequest) -> ContainerId:
        """Store a container without starting it. A configuration that is known to fail is refused here."""
        sandbox = self._registry.sandbox(request.pod_sandbox_id)
        request.sandbox_config.CopyFrom(sandbox.config)
        container = self._driver.create(request, sandbox)
        try:
            self._registry.add_container(container)
            kept, more = without_secrets(request), self._driver.subdirectories
            publish(self._journal, container.directory, kept, container.record, more)
            self._journal.flush()
        except BaseException:
            self._registry.remove_container(container.id)
            try:
                discard(self._journal, container.directory)
            finally:
                self._driver.abort_create(container)
            raise
        self._announcer.container(cri.CONTAINER_CREATED_EVENT, container)
        return container.id

    def start(self, container_id: str) -> None:
        """Start a created container. Raises WrongStateError, and RunFailedError: then it counts as exited."""
        container = self._registry.container(container_id)
        with container.lifecycle_lock:
            self._check_startable(container)
            self._driver.start(container)

    def stop(self, container_id: str, grace_seconds: float) -> None:
        """Ask a running container to end, kill it after the grace period, and return when all its processes have ended.

        It waits for a container whose start was requested by an edgecore that was killed meanwhile: nothing else would
        end that container.
        """
        container = self._registry.find_container(container_id)
        if container is None:
            return
        if container.is_starting:
            container.decided.wait(_START_SECONDS)
        if container.state != cri.CONTAINER_RUNNING:
            return
        if grace_seconds > 0:
            self._ask_to_end(container, min(grace_seconds, _LONGEST_GRACE_SECONDS))
        if container.exit is None:
            self._driver.signal(container, _SIGKILL)
        attempt = f"stop container {container.id}"
        if not container.ended.wait(_KILL_SECONDS):
            raise DeadlinePassedError(attempt, "its processes do not even die by SIGKILL")
        if container.exit is None:
            raise WrongStateError(attempt, "the runtime is closing, the container goes on")

    def settle_and_kill(self, container: ContainerT) -> None:
        """Kill a container, after waiting for a running start."""
        with container.lifecycle_lock:
            self.stop(container.id, 0)

    def remove(self, container_id: str) -> None:
        """Remove a container and its directory; a running one is killed first."""
        container = self._registry.find_container(container_id)
        if container is None:
            return
        with container.lifecycle_lock:
            if self._registry.find_container(container.id) is not container:
                return  # another call has removed it meanwhile
            self.stop(container.id, 0)
            self._driver.remove(container)
            self._registry.remove_container(container.id)
            discard(self._journal, container.directory)
        self._announcer.container(cri.CONTAINER_DELETED_EVENT, container)

    def update(self, container_id: str, wanted: cri.LinuxContainerResources) -> None:
        """Change limits, immediately if the container runs; fields that `wanted` leaves out keep their values.

        Raises:
            BadRequestError: the limits are wrong.
            WrongStateError: the container has ended.
            RequestRefusedError: the runtime or the kernel refuses them.
        """
        container = self._registry.container(container_id)
        attempt = f"update the resources of container {container.id}"
        with container.lifecycle_lock:
            if container.state == cri.CONTAINER_EXITED:
                raise WrongStateError(attempt, "it has ended")
            resources = container.config.linux.resources
            self._driver.update(container, wanted, attempt)
            resources.CopyFrom(changed_resources(resources, wanted))
            write_container_request(self._journal, container.directory, container.request)

    def reopen_log(self, container_id: str) -> None:
        """Continue in a new log file after the old one was renamed."""
        container = self._registry.container(container_id)
        attempt = f"reopen the log of container {container.id}"
        if container.state != cri.CONTAINER_RUNNING:
            raise WrongStateError(attempt, "it is not running")
        if not container.log_path:
            return
        try:
            self._driver.reopen_log(container, attempt)
        except OSError as error:
            raise RunFailedError(attempt, str(error)) from error

    def _ask_to_end(self, container: ContainerT, seconds: float) -> None:
        """Send the stop signal as soon as the container would notice it, and wait for the end, `seconds` in all.

        It is sent once, as by containerd: many programs take a second one for the order to end immediately.
        """
        deadline = self._clock.monotonic() + seconds
        self._driver.await_notice(container, container.stop_signal, seconds)
        if not _was_asked(container):
            self._driver.signal(container, container.stop_signal)
        container.ended.wait(max(0.0, deadline - self._clock.monotonic()))

    def _check_startable(self, container: ContainerT) -> None:
        attempt = f"start container {container.id}"
        if self._registry.find_container(container.id) is not container:
            raise NoSuchObjectError(attempt, "it was removed meanwhile")
        if container.state != cri.CONTAINER_CREATED or container.is_starting:
            raise WrongStateError(attempt, "it was started before", _ANOTHER)
        if container.adopted and not self._driver.keeps_requests:
            reason = "edgecore was restarted since, and keeps a container's variables and command in memory only"
            raise WrongStateError(attempt, reason, _ANOTHER)
        sandbox = self._registry.find_sandbox(container.sandbox_id)
        if sandbox is None or sandbox.record.stopped:
            raise WrongStateError(attempt, "its sandbox was stopped")


def _was_asked(container: RuntimeContainer) -> bool:
    """Return whether a container was asked to end before, also by an earlier edgecore; from now on it was."""
    mark = container.directory / ASKED
    try:
        mark.hardlink_to(container.directory / RECORD)
    except FileExistsError:
        return True
    except OSError:  # a file system without hard links, or a full one
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return True
        except OSError:
            return False
    return False


def changed_resources(
    before: cri.LinuxContainerResources, change: cri.LinuxContainerResources
) -> cri.LinuxContainerResources:
    """Return CRI's limits after a change. Limits that the change leaves out stay, but a new limit of memory is one of
    swap too, unless the change has another.
    """
    after = cri.LinuxContainerResources()
    after.MergeFrom(before)
    after.MergeFrom(change)
    if change.memory_limit_in_bytes:
        after.memory_swap_limit_in_bytes = change.memory_swap_limit_in_bytes
    sizes = {each.page_size: each for each in after.hugepage_limits}
    del after.hugepage_limits[:]
    after.hugepage_limits.extend(sizes.values())
    return after
