"""The engine of a container runtime inside edgecore: all parts around one driver, on one state directory."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Generic

from beehive.clock import Clock
from beehive.files.removal import remove_tree
from modules.runtimes.engine.containers import Containers
from modules.runtimes.engine.driver import Driver, EngineParts, RuntimeSettings
from modules.runtimes.engine.errors import ContainerRuntimeError, StateDirectoryError
from modules.runtimes.engine.events import Announcer, EventHub
from modules.runtimes.engine.process_watcher import ProcessWatcher
from modules.runtimes.engine.recovery import Recovery
from modules.runtimes.engine.registry import ContainerT, Registry
from modules.runtimes.engine.sandboxes import Sandboxes


class Engine(Generic[ContainerT]):
    """The parts of a runtime, from construction to `close`; takes over the containers that run already."""

    def __init__(self, root: Path, clock: Clock, settings: RuntimeSettings[ContainerT]) -> None:
        """Lock the state directory. Raises ContainerRuntimeError when it, or the machine, cannot be used."""
        self.clock = clock
        self.registry: Registry[ContainerT] = Registry()
        self.events = EventHub()
        self._closing = ExitStack()
        with self._closed_on_failure(root):
            state = settings.lock(root, clock)
            self._closing.callback(state.release)
            self._closing.callback(self._abandon)
            self.watcher = ProcessWatcher()
            self._closing.callback(self.watcher.stop)
            announcer = Announcer(self.registry, self.events, clock)
            parts = EngineParts(state, self.registry, announcer, self.watcher, clock)
            self.driver: Driver[ContainerT] = settings.driver(parts)
            self._closing.callback(self.driver.close)
            self._closing.callback(self.events.close)
            self.containers = Containers(parts, self.driver)
            self.sandboxes = Sandboxes(parts, self.driver, self.containers)
            self.driver.begin()
            Recovery(parts, self.driver).run()
            self.driver.collect()
            self.watcher.start()
            self.driver.serve()

    def settle(self) -> None:
        """Handle the past events of containers, so that one with an exit record is not shown as running.

        Raises:
            RequestRefusedError: the driver cannot learn the states of containers now.
        """
        self.watcher.settle()
        self.driver.settle()

    def close(self) -> None:
        """Release everything and end waiting calls; containers go on running."""
        self._closing.close()

    def _abandon(self) -> None:
        for container in self.registry.containers():
            container.abandon()

    @contextmanager
    def _closed_on_failure(self, root: Path) -> Iterator[None]:
        """Close if the assembly in this context fails. Raises StateDirectoryError for an OSError."""
        try:
            yield
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise StateDirectoryError(f'use the state directory "{root}"', str(error)) from error
            raise


def purge(root: Path, clock: Clock, settings: RuntimeSettings[Any]) -> None:
    """Kill and remove every container and sandbox of the state directory at `root`, and the directory.

    Raises ContainerRuntimeError while an edgecore uses the directory, or if something resists.
    """
    engine = Engine(root, clock, settings)
    try:
        for container in engine.registry.containers():
            engine.containers.remove(container.id)
        for sandbox in engine.registry.sandboxes():
            engine.sandboxes.remove(sandbox.id)
        engine.driver.purge()
    finally:
        engine.close()
    try:
        remove_tree(root)
    except OSError as error:
        raise ContainerRuntimeError(f'remove "{root}"', str(error)) from error
