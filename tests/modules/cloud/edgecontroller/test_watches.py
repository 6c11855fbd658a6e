"""What edgecontroller tells module `control` for watches."""

from __future__ import annotations

from pathlib import Path

import msgspec

from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.testing import Harness
from modules.cloud.apiserver.commands import RESOURCE, SOURCE, Verb
from modules.cloud.apiserver.database.database import Database
from modules.cloud.apiserver.watch_history import ObjectChanges, WatchQuery, WatchStart
from modules.cloud.edgecontroller.module import EdgeController
from tests.modules.cloud.edgecontroller.controller import Controller
from tests.modules.cloud.objects import configmap

MANY = 5000
"""More than an inbox holds."""


def watch(bee: Harness, version: int) -> WatchStart:
    query = bee.message(RESOURCE, Verb.WATCH, WatchQuery("ConfigMap", version), source=SOURCE)
    return bee.ask(EdgeController.name, query).content_as(WatchStart)


class Watching(Module):
    """In the place of module `control`."""

    name = SOURCE
    group = SOURCE

    def __init__(self, told: list[ObjectChanges]) -> None:
        super().__init__()
        self._told = told

    @handles(None, Verb.CHANGED, source=EdgeController.name)
    def on_changes(self, message: Message) -> None:
        self._told.append(message.content_as(ObjectChanges))


def test_the_changes_of_a_transaction_are_one_message(tmp_path: Path) -> None:
    """One for each overflowed the inbox: watches silently missed changes of a large manifest."""
    items = [configmap(f"c{number}") for number in range(MANY)]
    (tmp_path / "many.json").write_bytes(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": items}))
    told: list[ObjectChanges] = []
    with Harness() as bee:
        bee.add(Watching, told)
        controller = Controller(bee, tmp_path, nodes=())
        names = [change.object["metadata"]["name"] for each in told for change in each.changes]
        assert (len(told), set(names)) == (1, {f"c{number}" for number in range(MANY)})
        controller.apply(configmap())
        bee.settle()
        assert [change.change for change in told[-1].changes] == ["ADDED"]


def test_a_watch_from_before_a_start_lists_again(tmp_path: Path) -> None:
    """What was deleted before it is not known any more, and the client would keep it."""
    versions: list[int] = []
    for _ in range(2):
        database = Database(str(tmp_path / "cloud.db"), "a")
        with Harness() as bee:
            bee.add(Watching, [])
            controller = Controller(bee, database=database, nodes=())
            if not versions:
                controller.apply(configmap("a"), configmap("b"))
                versions.append(controller.cluster.storage.version)
                controller.remove("configmap", "a")
                assert [change.change for change in watch(bee, versions[0]).changes] == ["DELETED"]
            else:
                refusal = watch(bee, versions[0]).refusal
                assert refusal is not None
                assert refusal["code"] == 410
                assert watch(bee, controller.cluster.storage.version).refusal is None
        database.close()
