"""What the tests of the module share: a harness with the module on a real file, and objects."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beehive import Group, Message, Module, ModuleName, Operation, Source
from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED, CONNECTION_RESOURCE
from beehive.testing import Harness
from metamanager.module import MetaManager, MetaSettings
from metamanager.rows import Row
from metamanager.sqlite_store import SqliteStore
from metamanager.store import Store
from tests.support.directories import memory_parent, short_directory

META = ModuleName.METAMANAGER

NOT_FOUND = {"ErrStatus": {"status": "Failure", "message": "no such thing", "reason": "NotFound", "code": 404}}


@contextmanager
def node(
    path: Path | None = None,
    *,
    connected: bool = False,
    seed: int = 0,
    beside: type[Module] | None = None,
    report_events: bool = False,
    name: str = "",
) -> Iterator[Harness]:
    """metamanager alone, or beside one other module, on a file that is its own unless one is named. With a name of the
    node it asks for the list of its pods.
    """
    with short_directory("meta-", memory_parent()) as directory, Harness(seed) as bee:
        settings = MetaSettings(str(path or directory / "edgecore.db"), report_events=report_events, node=name)
        bee.add(MetaManager, settings)
        if beside is not None:
            bee.add(beside)
        bee.start()
        if connected:
            connect(bee)
        yield bee


def keep(store: Store, *rows: Row) -> None:
    """Put rows, and commit."""
    for each in rows:
        store.put(each)
    store.commit()


def connect(bee: Harness, content: str = CLOUD_CONNECTED, wait: float = 0.0) -> None:
    """The hub says that the cloud can be reached, and `wait` seconds pass."""
    message = bee.message(CONNECTION_RESOURCE, Operation.CONNECT, content, source=Source.EDGEHUB, group=META)
    bee.send(META, message, wait)


def reconnect(bee: Harness, wait: float = 0.0) -> None:
    """The hub says that the cloud can be reached again."""
    disconnect(bee)
    connect(bee, wait=wait)


def disconnect(bee: Harness) -> None:
    """The hub says that it cannot."""
    connect(bee, CLOUD_DISCONNECTED)


def module_of(bee: Harness) -> MetaManager:
    """The running module."""
    running = bee.hive.slot(META).running
    assert running is not None
    module = running.ref._actor_weakref()
    assert isinstance(module, MetaManager)
    return module


def store_of(bee: Harness) -> SqliteStore:
    """The running module's store."""
    store = module_of(bee)._store
    assert isinstance(store, SqliteStore)
    return store


def thing(name: str = "a", *, uid: str = "uid-1", version: int = 1, **fields: Any) -> dict[str, Any]:
    """An object with metadata."""
    metadata = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata, **fields}


def from_cloud(
    bee: Harness, resource: str, operation: str, content: Any = None, source: str = ModuleName.EDGECONTROLLER
) -> Message:
    """A message as edgecontroller sends it."""
    return bee.message(resource, operation, content, source=source, group=Group.RESOURCE)


def from_edged(bee: Harness, resource: str, operation: str, content: Any = None) -> Message:
    """A message as edged sends it."""
    return bee.message(resource, operation, content, source=ModuleName.EDGED, group=Group.META)


def cloud_answers(bee: Harness, make: Callable[[Message], Any]) -> None:
    """The hub's questions are answered with the content that `make` gives, by edgecontroller."""

    def answer(question: Message) -> Message:
        reply = question.reply(bee.clock, make(question), source=ModuleName.EDGECONTROLLER)
        return reply.with_route(group=Group.RESOURCE)

    bee.answer(ModuleName.EDGEHUB, answer)


def shape(message: Message) -> tuple[str, str, Any]:
    """What is compared of a message that was sent."""
    return message.route.operation, message.route.resource, message.content
