"""The CRI operations on containers that are processes."""

import contextlib
import os
from contextlib import suppress
from pathlib import Path

from beehive.clock import Clock
from beehive.files.durable import make_directories
from modules.runtimes.cri_server.announcer import Announcer
from modules.runtimes.cri_server.container_operations import KILL_SECONDS, ContainerOperations
from modules.runtimes.cri_server.errors import BadRequestError, RunFailedError, ShimGoneError, WrongStateError
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.cri_server.records import ContainerRecord, Exit
from modules.runtimes.cri_server.registry import Registry
from modules.runtimes.cri_server.state import SUBDIRECTORIES, StateDirectory, write_record
from modules.runtimes.process import container_plan as plans
from modules.runtimes.process.host_files import HostFiles
from modules.runtimes.process.images import EmbeddedImages
from modules.runtimes.process.model import EmbeddedContainer
from modules.runtimes.process.shim_manager import START_SECONDS, ShimManager, send_signal
from modules.runtimes.process.shim_spawner import MountAbility, ShimSpawner
from modules.runtimes.shim.protocol import EXIT_RECORD, START_ERROR_EXIT_CODE, ContainerSpec
from protos.cri.v1 import api_pb2 as cri


class EmbeddedContainers(ContainerOperations[EmbeddedContainer]):
    """Creates, starts, stops and removes containers, and reopens their logs."""

    subdirectories = SUBDIRECTORIES

    def __init__(
        self,
        state: StateDirectory,
        registry: Registry[Sandbox, EmbeddedContainer],
        shims: ShimManager,
        spawner: ShimSpawner,
        images: EmbeddedImages,
        announcer: Announcer,
        clock: Clock,
    ) -> None:
        super().__init__(state, registry, announcer, clock)
        self._shims = shims
        self._spawner = spawner
        self._images = images
        self._host = HostFiles()

    def start(self, container_id: str) -> None:
        """Start a created container. Raises WrongStateError, and RunFailedError: then it counts as exited."""
        container = self._registry.container(container_id)
        with container.lifecycle:
            was_started = container.state != cri.CONTAINER_CREATED or container.link is not None
            self._check_startable(container, was_started=was_started)
            try:
                spec = self._prepare(container)
            except (BadRequestError, OSError) as error:
                self._could_not_start(container, str(error))
                raise RunFailedError(f"start container {container.id}", str(error)) from error
            self._shims.start(container, spec)

    def reopen_log(self, container_id: str) -> None:
        """Continue in a new log file after the old one was renamed."""
        container = self._registry.container(container_id)
        attempt = f"reopen the log of container {container.id}"
        if container.link is None or container.state != cri.CONTAINER_RUNNING:
            raise WrongStateError(attempt, "it is not running")
        try:
            _, answer = container.link.begin("reopen-log")
            reason = answer.result(KILL_SECONDS)["error"]
        except (ShimGoneError, TimeoutError) as error:
            raise WrongStateError(attempt, "it is just ending") from error
        if reason:
            raise RunFailedError(attempt, reason)

    def _plan(self, request: cri.CreateContainerRequest) -> EmbeddedContainer:
        plans.check_request(request)
        sandbox = self._registry.sandbox(request.pod_sandbox_id)
        request.sandbox_config.CopyFrom(sandbox.config)
        self._check_machine(request.config)
        self._images.remember(request.config.image.user_specified_image or request.config.image.image)
        container_id = self._new_id()
        record = ContainerRecord(self._clock.now_ns())
        return EmbeddedContainer(container_id, self._state.containers / container_id, request, record)

    def _signal(self, container: EmbeddedContainer, number: int) -> None:
        send_signal(container, number)

    def _stop_signal(self, container: EmbeddedContainer) -> int:
        return plans.stop_signal(container.config)

    def _await_decision(self, container: EmbeddedContainer) -> None:
        if container.state == cri.CONTAINER_CREATED and container.link is not None:
            container.decided.wait(START_SECONDS)

    def _check_machine(self, config: cri.ContainerConfig) -> None:
        private = plans.needs_mounts(config, self._host)
        ability = self._spawner.mount_ability() if private else None
        if ability is not None:
            plans.require_mounts(config, ability)
        plans.container_user(config, ability.namespacing if ability else "")

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
