"""The CRI operations on containers: create, start, stop, remove.

Requests arrive on the threads of the gRPC server and block there until they are done, as CRI demands. Grace periods are
real time, because real processes use them.
"""

import contextlib
import os
from contextlib import suppress
from pathlib import Path

from beehive.clock import Clock
from beehive.files.durable import make_directories
from edged.embedded import container_plan as plans
from edged.embedded.announcer import Announcer
from edged.embedded.errors import (
    BadRequestError,
    DeadlinePassedError,
    NoSuchObjectError,
    RunFailedError,
    ShimGoneError,
    WrongStateError,
)
from edged.embedded.host_files import HostFiles
from edged.embedded.images import EmbeddedImages
from edged.embedded.model import EmbeddedContainer
from edged.embedded.records import ContainerId, ContainerRecord, Exit
from edged.embedded.registry import Registry
from edged.embedded.shim.protocol import EXIT_RECORD, START_ERROR_EXIT_CODE, ContainerSpec
from edged.embedded.shim_manager import START_SECONDS, ShimManager, send_signal
from edged.embedded.shim_spawner import MountAbility, ShimSpawner
from edged.embedded.state import SUBDIRECTORIES, StateDirectory, discard, publish, write_record
from protos.cri.v1 import api_pb2 as cri

_SIGKILL = 9
_LONGEST_GRACE_SECONDS = 365 * 24 * 3600.0
"""A longer grace period is shortened to this: the machine could not count it."""

_KILL_SECONDS = 15.0
"""Seconds to wait after SIGKILL. Only processes stuck in the kernel take longer; their shim gives up on them earlier.
"""


class EmbeddedContainers:
    """Creates, starts, stops and removes containers, and reopens their logs.

    Every operation may be repeated; stopping and removing a missing container succeeds, as CRI demands.
    """

    def __init__(
        self,
        state: StateDirectory,
        registry: Registry,
        shims: ShimManager,
        spawner: ShimSpawner,
        images: EmbeddedImages,
        announcer: Announcer,
        clock: Clock,
    ) -> None:
        self._state = state
        self._registry = registry
        self._shims = shims
        self._spawner = spawner
        self._images = images
        self._announcer = announcer
        self._clock = clock
        self._host = HostFiles()

    def create(self, request: cri.CreateContainerRequest) -> ContainerId:
        """Store a container without starting it. A configuration that is known to fail is refused here."""
        plans.check_request(request)
        sandbox = self._registry.sandbox(request.pod_sandbox_id)
        request.sandbox_config.CopyFrom(sandbox.config)
        self._check_machine(request.config)
        container_id = ContainerId(f"{self._clock.random.getrandbits(256):064x}")
        container = EmbeddedContainer(
            container_id, self._state.containers / container_id, request, ContainerRecord(self._clock.now_ns())
        )
        self._registry.add_container(container)
        try:
            publish(container.directory, request, container.record, SUBDIRECTORIES)
        except OSError:
            self._registry.remove_container(container_id)
            raise
        self._images.remember(request.config.image.user_specified_image or request.config.image.image)
        self._announcer.container(cri.CONTAINER_CREATED_EVENT, container)
        return container_id

    def start(self, container_id: str) -> None:
        """Start a created container. Raises WrongStateError, and RunFailedError: then it counts as exited."""
        container = self._registry.container(container_id)
        with container.lifecycle:
            self._check_startable(container)
            try:
                spec = self._prepare(container)
            except (BadRequestError, OSError) as error:
                self._could_not_start(container, str(error))
                raise RunFailedError(f"start container {container.id}", str(error)) from error
            self._shims.start(container, spec)

    def stop(self, container_id: str, grace_seconds: float) -> None:
        """Ask a running container to end, kill it after the grace period, and return when all its processes have ended.

        A container that a shim is just starting is waited for: an edgecore that was killed meanwhile may have requested
        it, and nothing else would end it.
        """
        container = self._registry.find_container(container_id)
        if container is None:
            return
        if container.state == cri.CONTAINER_CREATED and container.link is not None:
            container.decided.wait(START_SECONDS)
        if container.state != cri.CONTAINER_RUNNING:
            return
        if grace_seconds > 0:
            send_signal(container, plans.stop_signal(container.config))
        if grace_seconds <= 0 or not container.ended.wait(min(grace_seconds, _LONGEST_GRACE_SECONDS)):
            send_signal(container, _SIGKILL)
        attempt = f"stop container {container.id}"
        if not container.ended.wait(_KILL_SECONDS):
            raise DeadlinePassedError(attempt, "its processes do not even die by SIGKILL")
        if container.exit is None:
            raise WrongStateError(attempt, "the runtime is closing, the container goes on")

    def settle_and_kill(self, container: EmbeddedContainer) -> None:
        """Kill a container, after waiting for a start that is under way."""
        with container.lifecycle:
            self.stop(container.id, 0)

    def remove(self, container_id: str) -> None:
        """Remove a container and its directory; a running one is killed first."""
        container = self._registry.find_container(container_id)
        if container is None:
            return
        with container.lifecycle:
            self.stop(container.id, 0)
            self._registry.remove_container(container.id)
            discard(container.directory)
        self._announcer.container(cri.CONTAINER_DELETED_EVENT, container)

    def reopen_log(self, container_id: str) -> None:
        """Continue in a new log file after the old one was renamed."""
        container = self._registry.container(container_id)
        attempt = f"reopen the log of container {container.id}"
        if container.link is None or container.state != cri.CONTAINER_RUNNING:
            raise WrongStateError(attempt, "it is not running")
        try:
            _, answer = container.link.begin("reopen-log")
            reason = answer.result(_KILL_SECONDS)["error"]
        except (ShimGoneError, TimeoutError) as error:
            raise WrongStateError(attempt, "it is just ending") from error
        if reason:
            raise RunFailedError(attempt, reason)

    def _check_machine(self, config: cri.ContainerConfig) -> None:
        private = plans.needs_mounts(config, self._host)
        ability = self._spawner.mount_ability() if private else None
        if ability is not None:
            plans.require_mounts(config, ability)
        plans.container_user(config, ability.namespacing if ability else "")

    def _check_startable(self, container: EmbeddedContainer) -> None:
        attempt = f"start container {container.id}"
        if self._registry.find_container(container.id) is not container:
            raise NoSuchObjectError(attempt, "it was removed meanwhile")
        if container.state != cri.CONTAINER_CREATED or container.link is not None:
            raise WrongStateError(attempt, "it was started before", "create another one with the next attempt number")
        sandbox = self._registry.find_sandbox(container.sandbox_id)
        if sandbox is None or sandbox.record.stopped:
            raise WrongStateError(attempt, "its sandbox was stopped")

    def _prepare(self, container: EmbeddedContainer) -> ContainerSpec:
        """Plan the container and make its directories. Planned anew at the start: volumes may have changed since it was
        created.
        """
        config = container.config
        mounts = plans.needs_mounts(config, self._host) or plans.has_optional_mounts(config)
        ability = self._spawner.mount_ability() if mounts else MountAbility("", "")
        if ability.namespacing == "mount" and (point := plans.missing_mount_point(config, self._host)) is not None:
            _make_mount_point(Path(point))
        for mount in config.mounts:
            if not Path(mount.host_path).exists():
                make_directories(Path(mount.host_path))  # as containerd does for a hostPath without a type
        if container.log_path:
            Path(container.log_path).parent.mkdir(parents=True, exist_ok=True)
        spec = plans.plan_container(container, ability, self._host)
        if (user := spec["process"]["user"]) is not None:
            os.chown(container.work, user["uid"], user["gid"])
        return spec

    def _could_not_start(self, container: EmbeddedContainer, reason: str) -> None:
        exit_ = Exit(START_ERROR_EXIT_CODE, self._clock.now_ns(), "StartError", reason)
        with contextlib.suppress(OSError):  # a full disk
            write_record(container.directory / EXIT_RECORD, exit_)
        container.finished(exit_)
        self._announcer.container(cri.CONTAINER_STOPPED_EVENT, container)


def _make_mount_point(path: Path) -> None:
    """Make an empty file in /dev (in memory). Nobody writes to it: each container has its own file mounted over it."""
    with suppress(OSError):
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o444))
