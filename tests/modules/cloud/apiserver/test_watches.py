"""What the API server tells watches."""

from pathlib import Path

import msgspec
import pytest

from beehive.testing import Harness
from modules.cloud.api_messages import RESOURCE, SOURCE, Verb
from modules.cloud.apiserver import loading
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.embedded_kube_api import EmbeddedKubeApi
from modules.cloud.apiserver.endpoints.subscriptions import WAITING
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_storage import Storage
from modules.cloud.storage.watch_history import WatchQuery, WatchStart
from tests.modules.cloud.edgecontroller.controller import Controller, add_api_server
from tests.modules.cloud.objects import configmap

MANY = WAITING
"""As many as may wait for a watch."""


def watch(bee: Harness, version: int, kind: str = "ConfigMap") -> WatchStart:
    query = bee.message(RESOURCE, Verb.WATCH, WatchQuery(kind, version), source=SOURCE)
    return bee.ask(ApiServer.name, query).content_as(WatchStart)


def test_a_watch_gets_each_change_of_a_large_transaction(tmp_path: Path) -> None:
    items = [configmap(f"c{number}") for number in range(MANY)]
    (tmp_path / "many.json").write_bytes(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": items}))
    with Harness() as bee:
        api = add_api_server(bee, Cluster(bee.clock), manifests=tmp_path).connect(bee.simulation)
        assert isinstance(api, EmbeddedKubeApi)
        subscription = api.subscriptions.subscribe("ConfigMap", of_client=True)
        bee.start()
        found, has_ended = subscription.drain()
        names = {change.object["metadata"]["name"] for change in found}
        assert (len(found), names, has_ended) == (MANY, {f"c{number}" for number in range(MANY)}, False)
        subscription.close()


def test_a_watch_goes_on_after_a_restart(tmp_path: Path) -> None:
    """All clients had to list again after each restart, as what had been deleted before it was not known any more."""
    version, told = 0, []
    for number in range(3):
        with Harness() as bee:
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
            database = Database(str(tmp_path / "cloud.db"), "a", durable=False)
            storage = Storage(bee.clock, first if database.is_new else 1)
            add_api_server(bee, Cluster(bee.clock, storage=storage), database=database)
            bee.start()
            codes += [(watch(bee, version).refusal or {}).get("code") for version in (first - 1, first)]
        database.close()
    assert codes == [410, None, 410, None]


def test_the_database_keeps_few_changes_that_no_watch_begins_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CHANGES", "FORGET_EVERY"):
        monkeypatch.setattr(f"modules.cloud.storage.watch_history.{name}", 5)
    with Harness() as bee:
        controller = Controller(bee, database=(tmp_path / "cloud.db", "a"), nodes=())
        for number in range(60):
            controller.apply(configmap("a", a=str(number)))
        kept = [each for each in controller.objects.watch_history().changes if each.key.kind == "ConfigMap"]
        assert 5 <= len(kept) <= 15
    controller.close()


def test_a_watch_does_not_go_on_where_objects_were_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep them for ever: nobody has deleted them."""
    refused = []
    for most in (1 << 20, 1):
        monkeypatch.setitem(loading._MOST_BYTES, "Event", most)
        with Harness() as bee:
            controller = Controller(bee, database=(tmp_path / "cloud.db", "a"), nodes=())
            about = {"kind": "Node", "name": "n1"}
            if most > 1:
                event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": about}
                controller.apply(event, configmap("a"))
                version = controller.cluster.storage.version
            refused.append([(watch(bee, version, kind).refusal or {}).get("code") for kind in ("Event", "ConfigMap")])
        controller.close()
    assert refused == [[None, None], [410, None]]
