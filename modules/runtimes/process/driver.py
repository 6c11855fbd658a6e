"""The driver whose containers are plain, unisolated processes of the machine, each under a shim."""

import contextlib
import errno
import json
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISLNK
from typing import Final

from beehive.clock import Clock
from beehive.files.durable import make_directories
from modules.runtimes.engine.driver import Driver, EngineParts, OnEnd, WatchingMethod
from modules.runtimes.engine.errors import (
    BadRequestError,
    NotProvidedError,
    RunFailedError,
    ShimGoneError,
    WrongStateError,
)
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.records import ContainerId, ContainerRecord, Exit
from modules.runtimes.engine.state import SUBDIRECTORIES, StateDirectory, write_record
from modules.runtimes.process import container_plan as plans
from modules.runtimes.process.execution import container_usage, execute, measure, sandbox_usage
from modules.runtimes.process.images import ProcessImages
from modules.runtimes.process.model import ProcessContainer
from modules.runtimes.process.mount_plan import PathKind
from modules.runtimes.process.shim_manager import ShimManager, send_signal
from modules.runtimes.process.shim_spawner import MountAbility, ShimSpawner
from modules.runtimes.process.streams import ProcessStreams
from modules.runtimes.shim.procfs import all_processes, descendants
from modules.runtimes.shim.protocol import EXIT_RECORD, START_ERROR_EXIT_CODE, ContainerSpec, Pid
from modules.runtimes.streaming import StreamingServer
from protos.cri.v1 import api_pb2 as cri

_ANSWER_SECONDS: Final = 15.0
"""Seconds for a shim to answer; only processes stuck in the kernel take longer."""

_SOMEWHERE: Final = ("192.0.2.1", 9)
"""An address of the documentation range (RFC 5737): connecting a UDP socket to it sends nothing."""


class HostFiles:
    """The real file system, for the mount planner. A path that this user may not look up counts as missing."""

    def kind(self, path: PurePosixPath) -> PathKind:
        """Return the kind of file at `path`, links not followed."""
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return PathKind.MISSING
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
                return PathKind.MISSING
            raise
        if S_ISLNK(mode):
            return PathKind.LINK
        return PathKind.DIRECTORY if S_ISDIR(mode) else PathKind.FILE

    def read_link(self, path: PurePosixPath) -> str:
        """Return the target of the symbolic link at `path`."""
        return os.readlink(path)  # noqa: PTH115 (a pure path has no file system)


class ProcessSettings:
    """The settings of this kind of runtime: it needs none."""

    def lock(self, root: Path, clock: Clock) -> StateDirectory:  # noqa: ARG002 - as other kinds
        """Lock the state directory. Raises StateDirectoryError."""
        return StateDirectory(root)

    def driver(self, parts: EngineParts[ProcessContainer]) -> "ProcessDriver":
        """Return a new driver."""
        return ProcessDriver(parts)


def check_resources(current: cri.LinuxContainerResources, wanted: cri.LinuxContainerResources, attempt: str) -> None:
    """Raise NotProvidedError if anything but the OOM score changes: all other resources need control groups."""
    others = cri.LinuxContainerResources()
    others.CopyFrom(wanted)
    others.oom_score_adj = current.oom_score_adj
    if others not in (current, cri.LinuxContainerResources(oom_score_adj=current.oom_score_adj)):
        raise NotProvidedError(attempt, "this runtime enforces no CPU or memory limits, so there are none to change")


def set_oom_score(main_pid: int, score: int) -> None:
    """Set the OOM score of all processes of a container, found by its main process."""
    processes = all_processes()
    main = processes.get(Pid(main_pid))
    for stat in descendants(main.parent, processes) if main else ():
        with contextlib.suppress(OSError):  # it has ended, or lowering takes CAP_SYS_RESOURCE
            Path(f"/proc/{stat.pid}/oom_score_adj").write_text(str(score))


class ProcessDriver(Driver[ProcessContainer]):
    """The driver of containers that are plain processes; sandboxes are names on the machine's own network."""

    runtime_name = "edgecore-processes"
    container_type = ProcessContainer
    why_not = {  # noqa: RUF012
        "": "containers that are plain processes have nothing behind it",
    }
    subdirectories = SUBDIRECTORIES

    def __init__(self, parts: EngineParts[ProcessContainer]) -> None:
        super().__init__(parts)
        self._spawner = ShimSpawner(parts.state.probe)
        self._shims = ShimManager(self._spawner, parts.watcher, parts.clock, parts.announcer)
        self._images = ProcessImages(parts.state.root, parts.clock)
        self._host = HostFiles()
        self.streaming = self._streaming = StreamingServer(ProcessStreams(parts.registry), parts.clock)

    def begin(self) -> None:
        """Start the spawner of shims."""
        self._spawner.start()

    def adopt(self, container: ProcessContainer, *, rebooted: bool) -> None:
        """Find its state from its records and its shim."""
        self._shims.adopt(container, rebooted=rebooted)

    def end_unknown(self, directory: Path) -> bool:
        """Kill the processes of a container without readable records; return whether all have ended."""
        return self._shims.end_unknown(directory)

    def close(self) -> None:
        """End streams and the spawner; shims and containers go on."""
        self._streaming.stop()
        self._spawner.stop()

    def node_address(self) -> str:
        """Return the machine's source address towards others; 127.0.0.1 without a network."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(_SOMEWHERE)
                return str(probe.getsockname()[0])
            except OSError:
                return "127.0.0.1"

    def create(self, request: cri.CreateContainerRequest, sandbox: Sandbox) -> ProcessContainer:  # noqa: ARG002
        """Check the container's demands on the machine."""
        plans.check_request(request)
        self._check_machine(request.config)
        self._images.remember(request.config.image.user_specified_image or request.config.image.image)
        container_id = ContainerId(self._new_id())
        record = ContainerRecord(self._clock.now_ns())
        return ProcessContainer(container_id, self._state.containers / container_id, request, record)

    def start(self, container: ProcessContainer) -> None:
        """Start its command under a shim."""
        try:
            spec = self._prepare(container)
        except (BadRequestError, OSError) as error:
            self._could_not_start(container, str(error))
            raise RunFailedError(f"start container {container.id}", str(error)) from error
        self._shims.start(container, spec)

    def signal(self, container: ProcessContainer, number: int) -> None:
        """Send a signal to its process group."""
        send_signal(container, number)

    def update(self, container: ProcessContainer, wanted: cri.LinuxContainerResources, attempt: str) -> None:
        """Apply a new OOM score; all other resources need control groups. Raises NotProvidedError for these."""
        check_resources(container.config.linux.resources, wanted, attempt)
        if container.state == cri.CONTAINER_RUNNING and container.run is not None and wanted.oom_score_adj:
            set_oom_score(container.run.pid, wanted.oom_score_adj)

    def reopen_log(self, container: ProcessContainer, attempt: str) -> None:
        """Let its shim reopen the log."""
        if container.link is None:
            raise WrongStateError(attempt, "it is not running")
        try:
            _, answer = container.link.begin("reopen-log")
            reason = answer.result(_ANSWER_SECONDS)["error"]
        except (ShimGoneError, TimeoutError) as error:
            raise WrongStateError(attempt, "it is just ending") from error
        if reason:
            raise RunFailedError(attempt, reason)

    def exec_sync(
        self, container: ProcessContainer, request: cri.ExecSyncRequest, on_end: OnEnd
    ) -> cri.ExecSyncResponse:
        """Run a command beside its main process."""
        return execute(container, request, on_end, self._clock)

    def stats(self, containers: Sequence[ProcessContainer]) -> list[cri.ContainerStats]:
        """Measure containers from /proc."""
        processes, now_ns = all_processes(), self._clock.now_ns()
        return [container_usage(each, measure(each, processes), now_ns) for each in containers]

    def pod_stats(self, sandboxes: Sequence[Sandbox]) -> list[cri.PodSandboxStats]:
        """Measure pods from /proc."""
        processes, now_ns = all_processes(), self._clock.now_ns()
        return [
            sandbox_usage(
                sandbox,
                [(each, measure(each, processes)) for each in self._registry.containers(sandbox.id)],
                now_ns,
            )
            for sandbox in sandboxes
        ]

    def status(self) -> cri.StatusResponse:
        """Return conditions that are always true."""
        conditions = [
            cri.RuntimeCondition(type="RuntimeReady", status=True),
            cri.RuntimeCondition(
                type="NetworkReady",
                status=True,
                reason="HostNetwork",
                message="all pods share the network of this machine",
            ),
        ]
        return cri.StatusResponse(
            status=cri.RuntimeStatus(conditions=conditions), runtime_handlers=[cri.RuntimeHandler(name="")]
        )

    def info(self) -> dict[str, str]:
        """Return whether containers can have volumes on this machine."""
        reason = self._spawner.mount_ability().reason
        return {"isolation": "none", "volumes": json.dumps({"possible": not reason, "reason": reason})}

    def images(self) -> dict[str, WatchingMethod]:
        """Return the methods of a service without images."""
        images = self._images
        return {
            "ListImages": lambda request, _: images.listing(request),
            "ImageStatus": lambda request, _: images.status(request),
            "PullImage": lambda request, _: images.pull(request),
            "RemoveImage": lambda request, _: images.remove(request),
            "ImageFsInfo": lambda request, _: images.file_system(request),
        }

    def _check_machine(self, config: cri.ContainerConfig) -> None:
        private = plans.needs_mounts(config, self._host)
        ability = self._spawner.mount_ability() if private else None
        if ability is not None:
            plans.require_mounts(config, ability)
        plans.container_user(config, ability.namespacing if ability else "")

    def _prepare(self, container: ProcessContainer) -> ContainerSpec:
        """Plan the container and make its directories. Planned again at the start: volumes may have changed since it
        was created.
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

    def _could_not_start(self, container: ProcessContainer, reason: str) -> None:
        exit_ = Exit(START_ERROR_EXIT_CODE, self._clock.now_ns(), "StartError", reason)
        with suppress(OSError):  # a full disk
            write_record(container.directory / EXIT_RECORD, exit_)
        container.finished(exit_)
        self._announcer.stopped(container)


def _make_mount_point(path: Path) -> None:
    """Make an empty file in /dev (in memory). Nobody writes to it: each container has its own file mounted over it."""
    with suppress(OSError):
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o444))
