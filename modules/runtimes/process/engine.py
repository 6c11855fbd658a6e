"""The embedded runtime without its gRPC server: all parts assembled on one state directory."""

from pathlib import Path

from beehive.clock import Clock
from modules.runtimes.cri_server.announcer import Announcer
from modules.runtimes.cri_server.event_stream import EventHub
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.cri_server.process_watcher import ProcessWatcher
from modules.runtimes.cri_server.recovery import Recovery
from modules.runtimes.cri_server.registry import Registry
from modules.runtimes.cri_server.state import StateDirectory
from modules.runtimes.process.containers import EmbeddedContainers
from modules.runtimes.process.images import EmbeddedImages
from modules.runtimes.process.model import EmbeddedContainer
from modules.runtimes.process.sandboxes import EmbeddedSandboxes
from modules.runtimes.process.shim_manager import ShimManager
from modules.runtimes.process.shim_spawner import ShimSpawner
from protos.cri.v1 import api_pb2 as cri


class Engine:
    """The parts of the embedded runtime, from construction to `close`; takes over the containers that run already."""

    def __init__(self, root: Path, clock: Clock) -> None:
        """Lock the state directory. Raises StateDirectoryError when another process uses it."""
        self._state = StateDirectory(root)
        self._spawner = ShimSpawner(self._state.probe)
        self.watcher = ProcessWatcher()
        self.clock = clock
        self.registry: Registry[Sandbox, EmbeddedContainer] = Registry()
        self.events = EventHub()
        self.images = EmbeddedImages(root, clock)
        announcer = Announcer(self.registry, self.events, clock)
        self._shims = ShimManager(
            self._spawner,
            self.watcher,
            clock,
            lambda container: announcer.container(cri.CONTAINER_STARTED_EVENT, container),
            lambda container: announcer.container(cri.CONTAINER_STOPPED_EVENT, container),
        )
        self.containers = EmbeddedContainers(
            self._state, self.registry, self._shims, self._spawner, self.images, announcer, clock
        )
        self.sandboxes = EmbeddedSandboxes(self._state, self.registry, self.containers, announcer, clock)
        try:
            self._spawner.start()
            Recovery(self._state, self.registry, self._shims).run()
            self.watcher.start()
        except BaseException:
            self.close()
            raise

    def mounts_possible(self) -> str:
        """Return why containers cannot have volumes on this machine; empty when they can."""
        return self._spawner.mount_ability().reason

    def close(self) -> None:
        """Release everything and end waiting calls; containers go on running."""
        self.events.close()
        for container in self.registry.containers():
            container.abandon()
        self.watcher.stop()
        self._spawner.stop()
        self._state.release()


def purge(root: Path, clock: Clock) -> None:
    """Kill and remove every container and sandbox of the state directory at `root`.

    For temporary set-ups that must leave nothing behind. Raises StateDirectoryError while an edgecore uses the
    directory.
    """
    engine = Engine(root, clock)
    try:
        for container in engine.registry.containers():
            engine.containers.remove(container.id)
        for sandbox in engine.registry.sandboxes():
            engine.sandboxes.remove(sandbox.id)
    finally:
        engine.close()
