"""All sandboxes and containers by id, with their names reserved."""

import threading
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from modules.runtimes.engine.errors import NameReservedError, NoSuchObjectError, WrongStateError
from modules.runtimes.engine.model import RuntimeContainer, Sandbox
from modules.runtimes.engine.records import ContainerId, SandboxId


class _Named(Protocol):
    @property
    def reservation(self) -> tuple[str, ...]: ...

    @property
    def groups(self) -> tuple[str, ...]: ...


IdT = TypeVar("IdT", bound=str)
ItemT = TypeVar("ItemT", bound=_Named)


class _Table(Generic[IdT, ItemT]):
    def __init__(self) -> None:
        self.items: dict[IdT, ItemT] = {}
        self._reserved: dict[tuple[str, ...], IdT] = {}
        self._groups: dict[str, dict[IdT, ItemT]] = {}

    def add(self, item_id: IdT, item: ItemT, what: str) -> None:
        holder = self._reserved.setdefault(item.reservation, item_id)
        if holder != item_id:
            name = "/".join(item.reservation)
            raise NameReservedError(f"create {what} {name}", f"{holder} has this name and attempt", "remove it first")
        self.items[item_id] = item
        for group in item.groups:
            self._groups.setdefault(group, {})[item_id] = item

    def remove(self, item_id: IdT) -> None:
        if item := self.items.pop(item_id, None):
            del self._reserved[item.reservation]
            for group in item.groups:
                del self._groups[group][item_id]
                if not self._groups[group]:
                    del self._groups[group]

    def members(self, group: str | None) -> Iterable[ItemT]:
        """Return the items of a group; all for None."""
        return (self.items if group is None else self._groups.get(group, {})).values()


ContainerT = TypeVar("ContainerT", bound=RuntimeContainer)


class Registry(Generic[ContainerT]):
    """The sandboxes and containers of the runtime. Thread-safe; listings are snapshots."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sandboxes: _Table[SandboxId, Sandbox] = _Table()
        self._containers: _Table[ContainerId, ContainerT] = _Table()

    def add_sandbox(self, sandbox: Sandbox) -> None:
        """Add a sandbox. Raises NameReservedError when pod name, namespace, uid and attempt are reserved."""
        with self._lock:
            self._sandboxes.add(sandbox.id, sandbox, "sandbox")

    def add_container(self, container: ContainerT) -> None:
        """Add a container. Raises NameReservedError when its sandbox has one of that name and attempt, WrongStateError
        when the sandbox is stopped.
        """
        with self._lock:
            sandbox = self._sandboxes.items.get(container.sandbox_id)
            if sandbox is None or sandbox.record.stopped:
                reason = f"sandbox {container.sandbox_id} is not ready"
                raise WrongStateError(f"create container {container.config.metadata.name}", reason)
            self._containers.add(container.id, container, "container")

    def adopt_container(self, container: ContainerT) -> None:
        """Add a container found in the state directory."""
        container.adopted = True
        with self._lock:
            self._containers.add(container.id, container, "container")

    def remove_sandbox(self, sandbox_id: SandboxId) -> None:
        """Free the name; no error for a missing sandbox."""
        with self._lock:
            self._sandboxes.remove(sandbox_id)

    def remove_container(self, container_id: ContainerId) -> None:
        """Free the name; no error for a missing container."""
        with self._lock:
            self._containers.remove(container_id)

    def find_sandbox(self, sandbox_id: str) -> Sandbox | None:
        """Return the sandbox, or None."""
        return self._sandboxes.items.get(SandboxId(sandbox_id))

    def find_container(self, container_id: str) -> ContainerT | None:
        """Return the container, or None."""
        return self._containers.items.get(ContainerId(container_id))

    def sandbox(self, sandbox_id: str) -> Sandbox:
        """Return the sandbox. Raises NoSuchObjectError."""
        if (sandbox := self.find_sandbox(sandbox_id)) is None:
            raise NoSuchObjectError(f'find sandbox "{sandbox_id}"', "there is no such sandbox")
        return sandbox

    def container(self, container_id: str) -> ContainerT:
        """Return the container. Raises NoSuchObjectError."""
        if (container := self.find_container(container_id)) is None:
            raise NoSuchObjectError(f'find container "{container_id}"', "there is no such container")
        return container

    def sandboxes(self, pod: str | None = None) -> list[Sandbox]:
        """Return all sandboxes, or those whose label is the uid of a pod, oldest first."""
        with self._lock:
            return _oldest_first(self._sandboxes.members(pod))

    def containers(self, of: SandboxId | None = None, pod: str | None = None) -> list[ContainerT]:
        """Return all containers, those of a sandbox, or those whose label is the uid of a pod, oldest first."""
        with self._lock:
            found = [each for each in self._containers.members(of or pod) if of in (None, each.sandbox_id)]
        return _oldest_first(found)


AnyT = TypeVar("AnyT", bound=Sandbox | RuntimeContainer)


def _oldest_first(items: Iterable[AnyT]) -> list[AnyT]:
    return sorted(items, key=lambda item: (item.record.created_at, item.id))
