"""The engine of a container runtime inside edgecore: all parts around one driver, on one state directory.

It takes over the sandboxes and containers of an earlier edgecore, even after a loss of power or with a failing disk.
Readable entries are taken over. Others are set aside and the start goes on: a sandbox or container whose name or pod is
missing, and the older of two with one name. No process goes on unnoticed: if a container or its sandbox is not taken
over, its processes are killed, and edged starts the pod again.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Generic

import msgspec

from beehive.clock import Clock
from beehive.files.removal import remove_tree
from modules.runtimes.engine.containers import Containers
from modules.runtimes.engine.driver import Driver, EngineParts, RuntimeSettings
from modules.runtimes.engine.errors import (
    BadRequestError,
    ContainerRuntimeError,
    NameReservedError,
    RequestRefusedError,
    StateDirectoryError,
    WrongStateError,
)
from modules.runtimes.engine.events import Announcer, EventHub
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.process_watcher import ProcessWatcher
from modules.runtimes.engine.records import (
    BootId,
    ContainerId,
    ContainerRecord,
    SandboxId,
    SandboxRecord,
    current_boot_id,
)
from modules.runtimes.engine.registry import ContainerT, Registry
from modules.runtimes.engine.state import (
    RECORD,
    REQUEST,
    discard,
    entries,
    publish,
    read_container_request,
    read_record,
    read_request,
)
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

_UNREADABLE = "its record or request cannot be read"
_NAME_TAKEN = "a newer one has its name"
_NO_SANDBOX = "its sandbox is not there"


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


class Recovery(Generic[ContainerT]):
    """The recovery of a registry from a state directory, once, before the server answers requests."""

    def __init__(self, parts: EngineParts[ContainerT], driver: Driver[ContainerT]) -> None:
        self._state = parts.state
        self._registry = parts.registry
        self._driver = driver
        self._boot_id = current_boot_id()

    def run(self) -> None:
        """Take over all sandboxes, then all containers."""
        self._find_sandboxes()
        self._find_containers()

    def _find_sandboxes(self) -> None:
        found = []
        for directory in entries(self._state.sandboxes):
            sandbox = _sandbox(directory, self._boot_id)
            if sandbox is None:
                self._state.set_aside(directory, _UNREADABLE)
            else:
                found.append(sandbox)
        for sandbox in sorted(found, key=lambda each: each.record.created_at, reverse=True):
            try:
                self._registry.add_sandbox(sandbox)
            except NameReservedError:
                self._state.set_aside(sandbox.directory, _NAME_TAKEN)

    def _find_containers(self) -> None:
        found = []
        for directory in entries(self._state.containers):
            container = self._read(directory)
            if container is None:
                self._give_up(directory, _UNREADABLE)
            else:
                found.append(container)
        for container in sorted(found, key=lambda each: each.record.created_at, reverse=True):
            self._adopt(container)

    def _read(self, directory: Path) -> ContainerT | None:
        """Return the container of a directory; None when its files cannot be read."""
        record, request = read_record(directory / RECORD, ContainerRecord), read_container_request(directory)
        if record is None or request is None:
            return None
        return self._driver.container_type(ContainerId(directory.name), directory, request, record)

    def _adopt(self, container: ContainerT) -> None:
        sandbox = self._registry.find_sandbox(container.sandbox_id)
        if sandbox is None:
            self._give_up(container.directory, _NO_SANDBOX)
            return
        try:
            self._registry.adopt_container(container)
        except NameReservedError:
            self._give_up(container.directory, _NAME_TAKEN)
            return
        self._driver.adopt(container, rebooted=sandbox.record.boot_id != self._boot_id)

    def _give_up(self, directory: Path, why: str) -> None:
        """Kill the processes and set the directory aside. If they survive SIGKILL, it stays where it is: the next start
        tries again.
        """
        if self._driver.end_unknown(directory):
            self._state.set_aside(directory, why)


def _sandbox(directory: Path, boot_id: BootId) -> Sandbox | None:
    record = read_record(directory / RECORD, SandboxRecord)
    request = cri.RunPodSandboxRequest()
    if record is None or not read_request(directory / REQUEST, request):
        return None
    metadata = request.config.metadata
    if not (metadata.name and metadata.namespace and metadata.uid):
        return None
    if record.boot_id != boot_id:
        record = msgspec.structs.replace(record, stopped=True)
    return Sandbox(SandboxId(directory.name), directory, request, record)


class Sandboxes(Generic[ContainerT]):
    """The manager of pod sandboxes, which runs, stops and removes them.

    Stopping and removing may be repeated, and succeed for a missing sandbox, as CRI demands.
    """

    def __init__(
        self, parts: EngineParts[ContainerT], driver: Driver[ContainerT], containers: Containers[ContainerT]
    ) -> None:
        self._directory = parts.state.sandboxes
        self._journal = parts.state.journal
        self._registry = parts.registry
        self._announcer = parts.announcer
        self._clock = parts.clock
        self._driver = driver
        self._containers = containers
        self._boot_id = current_boot_id()

    def run(self, request: cri.RunPodSandboxRequest) -> SandboxId:
        """Reserve the pod's name and attempt, and set the sandbox up.

        The record of a sandbox that the driver has to set up is not ready until that is done: after a crash in
        between, the sandbox is removed later. It is durable together with its first container: without one, a power
        cut may lose it.

        Raises:
            RequestRefusedError: it is wrong, its name is reserved, or it cannot be set up.
        """
        self._driver.check_sandbox(request)
        check_sandbox(request)
        sandbox_id, ip = self._driver.new_sandbox_id(request), self._driver.node_address()
        record = SandboxRecord(self._clock.now_ns(), ip, self._boot_id, stopped=not ip)
        sandbox = Sandbox(sandbox_id, self._directory / sandbox_id, request, record)
        sandbox.is_being_made = not ip
        try:
            self._registry.add_sandbox(sandbox)
            publish(self._journal, sandbox.directory, request, record)
            if request.config.log_directory and not os.path.isdir(request.config.log_directory):  # noqa: PTH112
                Path(request.config.log_directory).mkdir(parents=True, exist_ok=True)
            if not ip:
                self._set_up(sandbox)
        except BaseException:
            self._give_up(sandbox)
            raise
        self._announcer.sandbox(cri.CONTAINER_CREATED_EVENT, sandbox)
        self._announcer.sandbox(cri.CONTAINER_STARTED_EVENT, sandbox)
        return sandbox_id

    def stop(self, sandbox_id: str) -> None:
        """Kill its running containers, and let none start from now on."""
        sandbox = self._registry.find_sandbox(sandbox_id)
        if sandbox is None or sandbox.is_released:
            return
        was_ready, is_made = sandbox.mark_stopped(), not sandbox.is_being_made
        try:
            for container in self._registry.containers(sandbox.id):
                self._containers.settle_and_kill(container)
            self._driver.stop_sandbox(sandbox)
            sandbox.is_released = is_made
        finally:
            if was_ready:  # and is no longer, whatever is left of it
                self._announcer.sandbox(cri.CONTAINER_STOPPED_EVENT, sandbox)

    def remove(self, sandbox_id: str) -> None:
        """Stop the sandbox, remove its containers, and forget it.

        A sandbox that is being made is left to `run`, which gives up a sandbox that was stopped: it may get its network
        at this moment, and if the network cannot be released then, the sandbox is listed until it is removed again.
        """
        sandbox = self._registry.find_sandbox(sandbox_id)
        if sandbox is None:
            return
        self.stop(sandbox_id)
        if sandbox.is_being_made:
            return
        for container in self._registry.containers(sandbox.id):
            self._containers.remove(container.id)
        self._registry.remove_sandbox(sandbox.id)
        discard(self._journal, sandbox.directory)
        self._announcer.sandbox(cri.CONTAINER_DELETED_EVENT, sandbox)

    def _set_up(self, sandbox: Sandbox) -> None:
        addresses = self._driver.run_sandbox(sandbox)
        changes = {"ip": addresses.ip, "additional_ips": addresses.additional, "stopped": False}
        if not sandbox.mark_ready(msgspec.structs.replace(sandbox.record, **changes)):
            raise WrongStateError(f"run sandbox {sandbox.id}", "it was stopped meanwhile")

    def _give_up(self, sandbox: Sandbox) -> None:
        """Remove a sandbox that could not be set up; if that fails too, it stays as a sandbox that is not ready."""
        sandbox.is_being_made = False
        try:
            self._driver.stop_sandbox(sandbox)
        except (RequestRefusedError, OSError) as error:
            _log.warning("a sandbox that could not be made stays until it is removed: %s", error)
            return
        self._registry.remove_sandbox(sandbox.id)
        discard(self._journal, sandbox.directory)


def check_sandbox(request: cri.RunPodSandboxRequest) -> None:
    metadata = request.config.metadata
    attempt = f'run sandbox "{metadata.namespace}/{metadata.name}"'
    if not (metadata.name and metadata.namespace and metadata.uid):
        raise BadRequestError(attempt, "name, namespace and uid of the pod are needed")
    if request.runtime_handler:
        reason = f'there is no runtime handler "{request.runtime_handler}"'
        raise BadRequestError(attempt, reason, "leave runtimeClassName out of the pod")
    if request.config.log_directory and not request.config.log_directory.startswith("/"):
        raise BadRequestError(attempt, f'the log directory "{request.config.log_directory}" is not absolute')
