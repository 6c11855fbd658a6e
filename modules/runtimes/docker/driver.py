"""The driver whose containers are Docker Engine's.

ROOT/lock, sandboxes/, containers/, damaged/    see `engine.state`; Docker's ids name the directories
"""

import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from beehive.clock import Clock
from beehive.files.durable import make_directories
from beehive.files.walking import Walk
from beehive.on_failure import on_failure
from modules.runtimes.docker.answers import Info, ListedContainer
from modules.runtimes.docker.client import SOCKET, DockerClient
from modules.runtimes.docker.creation import ContainerMaker, remove_container
from modules.runtimes.docker.errors import ConflictError
from modules.runtimes.docker.images import DockerImages
from modules.runtimes.docker.labels import container_name, events_of, owned_by
from modules.runtimes.docker.model import DockerContainer
from modules.runtimes.docker.pause_image import ensure_pause_image
from modules.runtimes.docker.processes import DockerProcesses, execute
from modules.runtimes.docker.sandboxes import DockerSandboxes
from modules.runtimes.docker.specs import (
    RECURSIVE_READ_ONLY,
    DockerImageDefaults,
    Here,
    LogLimits,
    check,
    check_pod,
    container_body,
    limits,
)
from modules.runtimes.docker.streams import DockerStreams
from modules.runtimes.docker.user_files import refuse_numbers_as_names
from modules.runtimes.docker.watch import DockerWatch
from modules.runtimes.engine.driver import Driver, EngineParts, OnEnd, WatchingMethod
from modules.runtimes.engine.errors import NoSuchObjectError, RequestRefusedError, StateDirectoryError
from modules.runtimes.engine.inspection import image_info
from modules.runtimes.engine.model import RuntimeContainer, Sandbox
from modules.runtimes.engine.records import ContainerId, ContainerRecord, PodAddresses, SandboxId, reference_of
from modules.runtimes.engine.registry import Registry
from modules.runtimes.engine.state import OWNER_ONLY, StateDirectory
from modules.runtimes.oci.images.model import StorageUsage
from modules.runtimes.oci.network.attachment import verbose_network_status
from modules.runtimes.oci.network.pod_network import PodNetwork
from modules.runtimes.oci.sandbox_files import sandbox_files
from modules.runtimes.oci.spec import Machine, stop_signal
from modules.runtimes.oci.spec.resources import check_resources
from modules.runtimes.oci.stats import UsageMeter
from modules.runtimes.streaming import StreamingServer
from protos.cri.v1 import api_pb2 as cri

_CREATION_SECONDS: Final = 600.0
"""Seconds after which the creation of a container is no longer under way."""
_NO_SHM: Final = Path("/dev/shm")  # noqa: S108 - Docker has the sandbox's

_SECTOR: Final = 512


class DockerSettings(NamedTuple):
    """The settings of one machine."""

    network: PodNetwork
    socket: Path = SOCKET
    logs: LogLimits = LogLimits(10 * 1024 * 1024, 2)

    def lock(self, root: Path, clock: Clock) -> StateDirectory:
        """Lock the state directory. Raises ContainerRuntimeError when it, or Docker, cannot be used."""
        if os.geteuid() != 0:
            raise StateDirectoryError("use Docker Engine", "networks and logs of pods take root")
        docker = DockerClient(self.socket, clock)
        docker.negotiate()
        check_apart(root, Path(_info_of(docker).docker_root_dir))
        return StateDirectory(root, (), OWNER_ONLY)

    def driver(self, parts: EngineParts[DockerContainer]) -> "DockerDriver":
        """Return a new driver. Raises ContainerRuntimeError, OSError."""
        return DockerDriver(parts, self)


def specification_of(image: Mapping[str, Any]) -> dict[str, Any]:
    """Return an image's configuration by the image specification, from Docker's `GET /images/NAME/json`."""
    layers = image.get("RootFS")
    return {
        "created": image.get("Created"),
        "architecture": image.get("Architecture"),
        "os": image.get("Os"),
        "config": image.get("Config"),
        "rootfs": {"type": "layers", "diff_ids": layers.get("Layers") if isinstance(layers, dict) else None},
    }


def pid_of(container: Mapping[str, Any]) -> int:
    """Return the process of a container, from Docker's `GET /containers/ID/json`; 0 if it does not run."""
    state = container.get("State")
    pid = state.get("Pid") if isinstance(state, dict) else None
    return pid if isinstance(pid, int) else 0


def _further_files(container: RuntimeContainer) -> Sequence[Path]:
    return container.further_files if isinstance(container, DockerContainer) else ()


class WritableLayers:
    """The writable layers of containers, if Docker's storage driver reports their directories (overlay2). All other
    usage comes from control groups.
    """

    def __init__(self, registry: Registry[DockerContainer]) -> None:
        self._registry = registry

    def usage(self, directory: Path) -> StorageUsage:
        """Walk a container's writable layer and return its usage; empty if its directory is unknown."""
        container = self._registry.find_container(directory.name)
        if container is None or not container.writable_layer:
            return StorageUsage()
        size, inodes = 0, 0
        with suppress(OSError):
            for found in Walk(Path(container.writable_layer)):
                with suppress(OSError):
                    status = found.entry.stat(follow_symlinks=False)
                    size += status.st_blocks * _SECTOR // (1 if stat.S_ISDIR(status.st_mode) else status.st_nlink)
                    inodes += 1
        return StorageUsage(size, inodes)


class DockerDriver(Driver[DockerContainer]):
    """The driver of containers in Docker, whose state is authoritative; a container of Docker's holds each sandbox."""

    runtime_name = "edgecore-docker"
    container_type = DockerContainer
    why_not = {  # noqa: RUF012
        "CheckpointContainer": "Docker's checkpoints are experimental",
        "": "dockershim does not have it",
    }
    keeps_requests = True

    def __init__(self, parts: EngineParts[DockerContainer], settings: DockerSettings) -> None:
        super().__init__(parts)
        clock, registry, root = parts.clock, parts.registry, str(parts.state.root)
        self._root = root
        self._docker = docker = DockerClient(settings.socket, clock)
        with ExitStack() as closing:
            closing.callback(settings.network.close)
            docker.negotiate()
            self._info = _info_of(docker)
            self.systemd_cgroups = self._info.cgroup_driver == "systemd"
            self._machine = Machine.read(systemd_cgroups=self.systemd_cgroups)
            self._here = Here(root, self._machine, docker.version, settings.logs)
            self._maker = ContainerMaker(docker, self._here, clock)
            self._images = DockerImages(docker, root, clock)
            self._processes = DockerProcesses(docker, parts.watcher, clock, parts.announcer)
            self._sandboxes = DockerSandboxes(registry, parts.announcer, self._maker, settings.network)
            self._watch = DockerWatch(docker, events_of(root), self)
            closing.callback(self._watch.stop)
            self.streaming = self._streaming = StreamingServer(DockerStreams(docker, registry, self._sandboxes), clock)
            closing.callback(self._streaming.stop)
            self._stats = UsageMeter(WritableLayers(registry), _further_files, clock)
            self._closing = closing.pop_all()

    def begin(self) -> None:
        """Load the image of the containers that hold sandboxes."""
        ensure_pause_image(self._docker)

    def adopt(self, container: DockerContainer, *, rebooted: bool) -> None:  # noqa: ARG002 - Docker knows it
        """Take over Docker's state of it."""
        self._processes.refresh(container)

    def end_unknown(self, directory: Path) -> bool:
        """Remove a container without readable records; return whether it no longer exists."""
        return self._processes.end_unknown(directory)

    def collect(self) -> None:
        """Remove containers without a record, and what ended sandboxes have left."""
        listed = self._listed()
        self._remove_unknown(listed)
        self._sandboxes.holders_are({each.id for each in listed if each.state == "running"})
        self._sandboxes.collect(self._registry.sandboxes())

    def serve(self) -> None:
        """Follow Docker's events."""
        self._watch.start()

    def settle(self) -> None:
        """Raise DockerUnreachableError while the states of containers are unknown."""
        self._watch.settle()

    def close(self) -> None:
        """End streams and the connection to Docker's events."""
        self._closing.close()

    def check_sandbox(self, request: cri.RunPodSandboxRequest) -> None:
        """Refuse a sandbox that Docker cannot have."""
        check_pod(request, self._here)

    def new_sandbox_id(self, request: cri.RunPodSandboxRequest) -> SandboxId:
        """Create the container that holds the sandbox; its id is the sandbox's."""
        return self._sandboxes.create(request)

    def run_sandbox(self, sandbox: Sandbox) -> PodAddresses:
        """Start the container that holds it, and attach it to the network."""
        return self._sandboxes.start(sandbox)

    def stop_sandbox(self, sandbox: Sandbox) -> None:
        """Detach it from the network and remove the container that holds it."""
        self._sandboxes.remove(sandbox)

    def create(self, request: cri.CreateContainerRequest, sandbox: Sandbox) -> DockerContainer:
        """Create a container in Docker; its id is Docker's."""
        attempt = f'create container "{request.config.metadata.name}"'
        image = self._images.find(request.config.image.image, attempt)
        defaults = DockerImageDefaults(image.config)
        check(request, defaults, self._here)
        for mount in request.config.mounts:
            if not Path(mount.host_path).exists():
                make_directories(Path(mount.host_path))  # as containerd does for a hostPath without a type
        record = ContainerRecord(
            self._clock.now_ns(),
            image.id,
            reference_of(image.id, image.repo_digests),
            stop_signal(request.config, defaults),
        )
        body = container_body(request, image.id, sandbox_files(sandbox.directory, _NO_SHM), self._here)
        container_id = ContainerId(self._maker.create(container_name(request), body, attempt))
        security, image_user = request.config.linux.security_context, image.config.user if image.config else ""
        with on_failure(lambda: self._remove_unstored(container_id)):
            refuse_numbers_as_names(self._docker, container_id, security, image_user, attempt)
        return DockerContainer(container_id, self._state.containers / container_id, request, record)

    def abort_create(self, container: DockerContainer) -> None:
        """Remove it from Docker."""
        self._remove_unstored(container.id)

    def _remove_unstored(self, container_id: ContainerId) -> None:
        with suppress(RequestRefusedError):  # the next start removes containers without a record
            remove_container(self._docker, container_id)

    def start(self, container: DockerContainer) -> None:
        """Start it in Docker, and follow its log."""
        self._processes.start(container)

    def signal(self, container: DockerContainer, number: int) -> None:
        """Let Docker send a signal to its first process."""
        with suppress(NoSuchObjectError, ConflictError):  # it is just ending
            query = {"signal": str(number)}
            self._docker.call("POST", f"/containers/{container.id}/kill", f"stop container {container.id}", query)

    def update(self, container: DockerContainer, wanted: cri.LinuxContainerResources, attempt: str) -> None:
        """Change its limits in Docker, whether it runs or not."""
        check_resources(attempt, wanted, self._machine)
        body = limits(wanted, self._machine)
        self._docker.call("POST", f"/containers/{container.id}/update", attempt, body=body)

    def reopen_log(self, container: DockerContainer, attempt: str) -> None:  # noqa: ARG002 - conmon's needs it
        """Go on in a new file."""
        container.log.reopen()

    def remove(self, container: DockerContainer) -> None:
        """Remove it from Docker."""
        remove_container(self._docker, container.id)
        container.log.close()

    def exec_sync(
        self, container: DockerContainer, request: cri.ExecSyncRequest, on_end: OnEnd
    ) -> cri.ExecSyncResponse:
        """Run a command by Docker."""
        return execute(self._docker, container, request, on_end)

    def stats(self, containers: Sequence[DockerContainer]) -> list[cri.ContainerStats]:
        """Measure containers by their control groups."""
        return [self._stats.of_container(each) for each in containers]

    def pod_stats(self, sandboxes: Sequence[Sandbox]) -> list[cri.PodSandboxStats]:
        """Measure pods by the control groups of their containers."""
        return [self._stats.of_pod(each, self._registry.containers(each.id)) for each in sandboxes]

    def status(self) -> cri.StatusResponse:
        """Return whether Docker can be reached, and whether pods can have a network of their own now."""
        problem = self._watch.problem
        conditions = [
            cri.RuntimeCondition(
                type="RuntimeReady", status=not problem, reason="DockerNotReachable" if problem else "", message=problem
            ),
            self._sandboxes.network_status().condition,
        ]
        is_recursive = self._docker.version >= RECURSIVE_READ_ONLY
        features = cri.RuntimeHandlerFeatures(recursive_read_only_mounts=is_recursive, user_namespaces=False)
        return cri.StatusResponse(
            status=cri.RuntimeStatus(conditions=conditions),
            runtime_handlers=[cri.RuntimeHandler(name="", features=features)],
            features=cri.RuntimeFeatures(supplemental_groups_policy=False),
        )

    def info(self) -> dict[str, str]:
        """Return Docker's version."""
        docker = {"version": self._info.server_version, "api": ".".join(map(str, self._docker.version))}
        return {"isolation": "containers", "docker": json.dumps(docker), "pulls": self._images.pulls.described()}

    def sandbox_details(self, sandbox: Sandbox) -> dict[str, Any]:
        """Return the output of `docker inspect` for the container that holds a sandbox."""
        docker = self._asked(f"/containers/{sandbox.id}/json")
        pid = pid_of(docker)
        own = pid and sandbox.config.linux.security_context.namespace_options.network != cri.NODE
        network = Path(f"/proc/{pid}/ns/net") if own else None
        return {"pid": pid, "docker": docker, **verbose_network_status(sandbox.directory, {"network": network})}

    def container_details(self, container: DockerContainer) -> dict[str, Any]:
        """Return the output of `docker inspect` for a container."""
        return {"runtimeType": self.runtime_name, "docker": self._asked(f"/containers/{container.id}/json")}

    def images(self) -> dict[str, WatchingMethod]:
        """Return the methods of the ImageService."""
        images = self._images
        return {
            "ListImages": lambda request, _: images.listing(request),
            "ImageStatus": self._image_status,
            "PullImage": images.pull,
            "RemoveImage": lambda request, _: images.remove(request),
            "ImageFsInfo": lambda request, _: images.file_system(request),
        }

    def _image_status(self, request: cri.ImageStatusRequest, _: OnEnd) -> cri.ImageStatusResponse:
        answer = self._images.status(request)
        if request.verbose and answer.HasField("image"):
            answer.info.update(image_info(specification_of(self._asked(f"/images/{answer.image.id}/json"))))
        return answer

    def _asked(self, path: str) -> dict[str, Any]:
        """Return an object of Docker's as it is, by default an empty one. Raises RequestRefusedError."""
        with suppress(NoSuchObjectError):
            return self._docker.get(path, dict[str, Any], "look at an object of Docker's")
        return {}

    def compare(self) -> None:
        """Take over all states from Docker after it was unreachable. Raises RequestRefusedError."""
        listed = self._listed()
        self._remove_unknown([each for each in listed if each.created < self._clock.now() - _CREATION_SECONDS])
        states = {each.id: each.state for each in listed}
        self._sandboxes.holders_are({each for each, state in states.items() if state == "running"})
        for container in self._registry.containers():
            if container.run is not None or states.get(container.id) != "created":
                self._processes.refresh(container)

    def ended(self, container_id: str) -> None:
        """Take over the end of a container. Raises RequestRefusedError."""
        if (container := self._registry.find_container(container_id)) is not None:
            self._processes.refresh(container)
        elif (sandbox := self._registry.find_sandbox(container_id)) is not None:
            self._sandboxes.holder_ended(sandbox)

    def _remove_unknown(self, listed: list[ListedContainer]) -> None:
        """Remove containers without a record: Docker's answer to their creation was lost."""
        for each in listed:
            if not (self._registry.find_sandbox(each.id) or self._registry.find_container(each.id)):
                remove_container(self._docker, each.id)

    def _listed(self) -> list[ListedContainer]:
        return self._docker.get("/containers/json", list[ListedContainer], "list containers", owned_by(self._root))


def _info_of(docker: DockerClient) -> Info:
    return docker.get("/info", Info, "ask Docker what it is")


def check_apart(root: Path, docker: Path) -> None:
    """Check that edgecore's records are not in Docker's own directory, or that one in theirs: a reset removes them.

    Raises:
        StateDirectoryError: one is in the other.
    """
    ours, its = root.resolve(), docker.resolve()
    if ours.is_relative_to(its) or its.is_relative_to(ours):
        hint = "set rootDirectory to another directory"
        raise StateDirectoryError("use Docker Engine", f"{root} overlaps Docker's own directory {docker}", hint)
