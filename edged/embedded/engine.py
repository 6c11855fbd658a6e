"""The embedded runtime without its gRPC server: all parts put together on one state directory."""

from pathlib import Path

from beehive.clock import Clock
from edged.embedded.announcer import Announcer
from edged.embedded.containers import Containers
from edged.embedded.events import EventHub
from edged.embedded.images import Images
from edged.embedded.nursery import Nursery
from edged.embedded.recovery import Recovery
from edged.embedded.registry import Registry
from edged.embedded.sandboxes import Sandboxes
from edged.embedded.shepherds import Shepherds
from edged.embedded.state import StateDirectory
from edged.embedded.watcher import Watcher
from protos.cri.v1 import api_pb2 as cri


class Engine:
    """Open from construction to `close`; what ran before is found again."""

    def __init__(self, root: Path, clock: Clock) -> None:
        """Take the state directory. Raises StateDirectoryError when another process has it."""
        self._state = StateDirectory(root)
        self._nursery = Nursery(self._state.probe)
        self.watcher = Watcher()
        self.clock = clock
        self.registry = Registry()
        self.events = EventHub()
        self.images = Images(root, clock)
        announcer = Announcer(self.registry, self.events, clock)
        self._shepherds = Shepherds(
            self._nursery,
            self.watcher,
            clock,
            lambda container: announcer.container(cri.CONTAINER_STARTED_EVENT, container),
            lambda container: announcer.container(cri.CONTAINER_STOPPED_EVENT, container),
        )
        self.containers = Containers(
            self._state, self.registry, self._shepherds, self._nursery, self.images, announcer, clock
        )
        self.sandboxes = Sandboxes(self._state, self.registry, self.containers, announcer, clock)
        try:
            self._nursery.start()
            Recovery(self._state, self.registry, self._shepherds).run()
            self.watcher.start()
        except BaseException:
            self.close()
            raise

    def mounts_possible(self) -> str:
        """Empty when containers can have volumes on this machine, otherwise why not."""
        return self._nursery.mount_ability().reason

    def close(self) -> None:
        """Let go of everything, waiting calls too; containers go on running."""
        self.events.close()
        for container in self.registry.containers():
            container.abandon()
        self.watcher.stop()
        self._nursery.stop()
        self._state.release()


def purge(root: Path, clock: Clock) -> None:
    """Kill and remove every container and sandbox of the state directory at `root`.

    For scratch set-ups that must leave nothing behind. Raises StateDirectoryError while an edgecore uses the
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
