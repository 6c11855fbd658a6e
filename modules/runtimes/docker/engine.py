"""Docker Engine as a container runtime without its gRPC server: all parts assembled on one state directory.

ROOT/lock, sandboxes/, containers/, damaged/    see `modules.runtimes.cri_server.state`; Docker's ids name directories
"""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from beehive.clock import Clock
from beehive.files.removal import remove_tree
from modules.runtimes.cri_server.announcer import Announcer
from modules.runtimes.cri_server.errors import EmbeddedRuntimeError, StateDirectoryError
from modules.runtimes.cri_server.event_stream import EventHub
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.cri_server.process_watcher import ProcessWatcher
from modules.runtimes.cri_server.recovery import Recovery
from modules.runtimes.cri_server.registry import Registry
from modules.runtimes.cri_server.state import StateDirectory
from modules.runtimes.docker.answers import Info, ListedContainer
from modules.runtimes.docker.client import SOCKET, DockerClient
from modules.runtimes.docker.containers import DockerContainers
from modules.runtimes.docker.creation import ContainerMaker, remove_container
from modules.runtimes.docker.images import DockerImages
from modules.runtimes.docker.labels import events_of, owned_by
from modules.runtimes.docker.model import DockerContainer
from modules.runtimes.docker.pause_image import ensure_pause_image
from modules.runtimes.docker.processes import DockerProcesses
from modules.runtimes.docker.sandboxes import DockerSandboxes
from modules.runtimes.docker.specs import Here, LogLimits
from modules.runtimes.docker.stats import WritableLayers
from modules.runtimes.docker.streams import DockerStreams
from modules.runtimes.docker.watch import DockerWatch
from modules.runtimes.oci.isolated_engine import closed_on_failure
from modules.runtimes.oci.network import PodNetwork
from modules.runtimes.oci.spec import Machine
from modules.runtimes.oci.stats import UsageMeter
from modules.runtimes.oci.streaming import StreamingServer
from protos.cri.v1 import api_pb2 as cri

_OWNER_ONLY: Final = 0o700
"""Mode of the state directory: its files contain the variables of containers, which may be secrets."""
_CREATION_SECONDS: Final = 600.0
"""Seconds after which the creation of a container is no longer under way."""


class DockerSettings(NamedTuple):
    """The settings of one machine."""

    network: PodNetwork
    socket: Path = SOCKET
    logs: LogLimits = LogLimits(10 * 1024 * 1024, 2)


class DockerEngine:
    """The parts of the runtime, from construction to `close`; takes over existing containers."""

    def __init__(self, root: Path, clock: Clock, settings: DockerSettings) -> None:
        """Lock the state directory. Raises EmbeddedRuntimeError when it, or Docker, cannot be used."""
        if os.geteuid() != 0:
            raise StateDirectoryError("use Docker Engine", "networks and logs of pods take root")
        self.clock = clock
        self.docker = DockerClient(settings.socket, clock)
        self.docker.negotiate()
        self.info = self.docker.get("/info", Info, "ask Docker what it is")
        check_apart(root, Path(self.info.docker_root_dir))
        self._root = str(root)
        self._state = StateDirectory(root, ())
        root.chmod(_OWNER_ONLY)
        self.logs = ProcessWatcher()
        self.registry: Registry[Sandbox, DockerContainer] = Registry()
        self.events = EventHub()
        self._closing = ExitStack()
        with closed_on_failure(self.close, root):
            self._assemble(settings)
            self._take_over()
            self.logs.start()
            self.watcher.start()
            self.streaming.start()

    def _assemble(self, settings: DockerSettings) -> None:
        clock, registry, docker = self.clock, self.registry, self.docker
        machine = Machine.read(systemd_cgroups=self.info.cgroup_driver == "systemd")
        maker = ContainerMaker(docker, Here(self._root, machine, docker.version, settings.logs), clock)
        self.images = DockerImages(docker, self._root, clock)
        announcer = Announcer(registry, self.events, clock)
        self._processes = DockerProcesses(
            docker,
            self.logs,
            clock,
            lambda container: announcer.container(cri.CONTAINER_STARTED_EVENT, container),
            lambda container: announcer.container(cri.CONTAINER_STOPPED_EVENT, container),
        )
        self.containers = DockerContainers(self._state, registry, self._processes, self.images, announcer, maker)
        self.sandboxes = DockerSandboxes(self._state, registry, self.containers, announcer, maker, settings.network)
        self._closing.callback(settings.network.close)
        self.watcher = DockerWatch(docker, events_of(self._root), self.logs, self._compare, self._ended)
        self._closing.callback(self.watcher.stop)
        self.streaming = StreamingServer(DockerStreams(docker, registry, self.sandboxes), clock)
        self._closing.callback(self.streaming.stop)
        self.stats = UsageMeter(WritableLayers(registry), clock)

    def _take_over(self) -> None:
        """Take over the sandboxes and containers of earlier edgecores, and remove containers without a record."""
        ensure_pause_image(self.docker)
        Recovery(self._state, self.registry, self._processes).run()
        listed = self._listed()
        self._remove_unknown(listed)
        self.sandboxes.holders_are({each.id for each in listed if each.state == "running"})
        self.sandboxes.collect(self.registry.sandboxes())

    def _compare(self) -> None:
        """Take over all states from Docker after it was unreachable. Raises RequestRefusedError."""
        listed = self._listed()
        self._remove_unknown([each for each in listed if each.created < self.clock.now() - _CREATION_SECONDS])
        states = {each.id: each.state for each in listed}
        self.sandboxes.holders_are({each for each, state in states.items() if state == "running"})
        for container in self.registry.containers():
            if container.run is not None or states.get(container.id) != "created":
                self._processes.refresh(container)

    def _ended(self, container_id: str) -> None:
        """Take over the end of a container. Raises RequestRefusedError."""
        if (container := self.registry.find_container(container_id)) is not None:
            self._processes.refresh(container)
        elif (sandbox := self.registry.find_sandbox(container_id)) is not None:
            self.sandboxes.holder_ended(sandbox)

    def _remove_unknown(self, listed: list[ListedContainer]) -> None:
        """Remove containers without a record: Docker's answer to their creation was lost."""
        for each in listed:
            if not (self.registry.find_sandbox(each.id) or self.registry.find_container(each.id)):
                remove_container(self.docker, each.id)

    def _listed(self) -> list[ListedContainer]:
        return self.docker.get("/containers/json", list[ListedContainer], "list containers", owned_by(self._root))

    def close(self) -> None:
        """Release everything and end waiting calls; containers go on running."""
        self.events.close()
        self._closing.close()
        for container in self.registry.containers():
            container.abandon()
        self.logs.stop()
        for container in self.registry.containers():
            container.log.close()
        self._state.release()


def purge(root: Path, clock: Clock, settings: DockerSettings) -> None:
    """End and remove every container and sandbox of the state directory at `root`; images stay, they are Docker's.

    Raises EmbeddedRuntimeError while an edgecore uses the directory, if Docker is unreachable, or if a container cannot
    be removed.
    """
    engine = DockerEngine(root, clock, settings)
    try:
        for sandbox in engine.registry.sandboxes():
            engine.sandboxes.remove(sandbox.id)
    finally:
        engine.close()
    try:
        remove_tree(root)
    except OSError as error:
        raise EmbeddedRuntimeError(f'remove "{root}"', str(error)) from error


def check_apart(root: Path, docker: Path) -> None:
    """Check that edgecore's records are not in Docker's own directory, or that one in theirs: a reset removes them.

    Raises:
        StateDirectoryError: one is in the other.
    """
    ours, its = root.resolve(), docker.resolve()
    if ours.is_relative_to(its) or its.is_relative_to(ours):
        hint = "set rootDirectory to another directory"
        raise StateDirectoryError("use Docker Engine", f"{root} overlaps Docker's own directory {docker}", hint)
