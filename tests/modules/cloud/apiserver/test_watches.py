"""What the API server tells module `control` for watches."""

from pathlib import Path

import msgspec

from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.testing import Harness
from modules.cloud.api_messages import RESOURCE, SOURCE, Verb
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.client.calls import ApiCall
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_storage import Storage
from modules.cloud.storage.watch_history import ObjectChanges, WatchQuery, WatchStart
from tests.modules.cloud.edgecontroller.controller import Controller, add_api_server
from tests.modules.cloud.objects import configmap

MANY = 5000
"""More than an inbox holds."""


def watch(bee: Harness, version: int) -> WatchStart:
    query = bee.message(RESOURCE, Verb.WATCH, WatchQuery("ConfigMap", version), source=SOURCE)
    return bee.ask(ApiServer.name, query).content_as(WatchStart)


class Watching(Module):
    """In the place of module `control`."""

    name = SOURCE
    group = SOURCE

    def __init__(self, told: list[ObjectChanges]) -> None:
        super().__init__()
        self._told = told

    @handles(None, Verb.CHANGED, source=ApiServer.name)
    def on_changes(self, message: Message) -> None:
        self._told.append(message.content_as(ObjectChanges))


def test_the_changes_of_a_transaction_are_one_message(tmp_path: Path) -> None:
    """One for each overflowed the inbox: watches silently missed changes of a large manifest."""
    items = [configmap(f"c{number}") for number in range(MANY)]
    (tmp_path / "many.json").write_bytes(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": items}))
    told: list[ObjectChanges] = []
    with Harness() as bee:
        bee.add(Watching, told)
        add_api_server(bee, Cluster(bee.clock), manifests=tmp_path)
        bee.start()
        found = [change for each in told for change in each.changes if change.kind == "ConfigMap"]
        names = {change.object["metadata"]["name"] for change in found}
        assert (len(told), len(found), names) == (1, MANY, {f"c{number}" for number in range(MANY)})
        call = ApiCall(verb="create", api_version="v1", plural="configmaps", namespace="default", body=configmap())
        bee.ask(ApiServer.name, bee.message(RESOURCE, Verb.CALL, call, source=SOURCE))
        bee.settle()
        assert [change.change for change in told[-1].changes] == ["ADDED"]


def test_a_watch_goes_on_after_a_restart(tmp_path: Path) -> None:
    """All clients had to list again after each restart, as what had been deleted before it was not known any more."""
    version, told = 0, []
    for number in range(3):
        with Harness() as bee:
            bee.add(Watching, [])
            controller = Controller(bee, database=(tmp_path / "cloud.db", "a"), nodes=())
            if not number:
                controller.apply(configmap("a"), configmap("b"))
                version = controller.cluster.storage.version
                controller.remove("configmap", "a")
            told.append([(change.change, change.object) for change in watch(bee, version).changes])
        controller.close()
    assert told[0] == told[1] == told[2]
    assert [change for change, _ in told[0]] == ["DELETED"]


def test_no_watch_goes_on_from_before_the_database_was_made(tmp_path: Path) -> None:
    """Its objects are not those of a lost one. After the second start a client was told the changes since, and kept
    what was lost.
    """
    first, codes = 1000, []
    for _ in range(2):
        with Harness() as bee:
            bee.add(Watching, [])
            database = Database(str(tmp_path / "cloud.db"), "a", durable=False)
            storage = Storage(bee.clock, first if database.is_new else 1)
            add_api_server(bee, Cluster(bee.clock, storage=storage), database=database)
            bee.start()
            codes += [(watch(bee, version).refusal or {}).get("code") for version in (first - 1, first)]
        database.close()
    assert codes == [410, None, 410, None]
