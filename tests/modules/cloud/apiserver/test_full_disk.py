"""A full disk below the embedded API server: reads go on, a refused write leaves nothing, and leases find room."""

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive import State
from beehive.simulation import Simulation
from beehive.testing import Harness
from beehive.turns import Turns
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.full_disk import FULL_SECONDS, DiskRoom, is_vital
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.journal.database import JournalDatabase
from modules.cloud.journal.module import Journal
from modules.cloud.object_writes import JOURNAL, WRITES, WRITES_RESOURCE, WriteList, WriteQuery
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.engine import make_engine, url_of
from modules.cloud.storage.database.room import Room
from tests.modules.cloud.edgecontroller.controller import Controller, add_api_server
from tests.modules.cloud.objects import configmap, node
from tests.support.full_disk import small_file_system
from tests.support.postgresql import PrivatePostgresql, needs_postgresql

BIG = "x" * 200_000
BIG_BYTES = 100_000
"""Bytes of random content: PostgreSQL compresses any other."""


def lease(seconds: int) -> dict[str, Any]:
    """The Lease of a node."""
    meta = {"name": "n1", "namespace": "kube-node-lease"}
    spec = {"holderIdentity": "n1", "leaseDurationSeconds": seconds}
    return {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": meta, "spec": spec}


def is_short(controller: Controller) -> bool:
    return controller.objects.room.is_short


def limit(database: Database, pages: int) -> None:
    """Allow an SQLite file so many more pages."""
    connection = database._connect()
    driver: Any = connection.connection.driver_connection
    (count,) = driver.execute("PRAGMA page_count").fetchone()
    driver.execute(f"PRAGMA max_page_count={count + pages}")
    database._kept, database._connection = connection, None


def test_a_database_without_room_is_read_and_not_restarted(tmp_path: Path) -> None:
    """It had to be: each failed commit restarted the module, and reads waited for that."""
    with Harness() as bee:
        controller = Controller(bee, database=(tmp_path / "cloud.db", "a"), nodes=())
        controller.apply(configmap("a", a="1"))
        version = controller.cluster.storage.version
        limit(controller.objects, 4)
        for name in ("b", "c"):
            (result,) = controller.apply(configmap(name, a=BIG))
            assert result.refusal is not None
            assert (result.refusal["code"], "database or disk is full" in result.refusal["message"]) == (507, True)
            (found,) = (controller.call("list", "configmap").object or {})["items"]
            assert found["metadata"]["name"] == "a"
        assert controller.cluster.storage.version == version, "nothing remains of them"
        assert bee.hive.readiness()[ApiServer.name].state is State.READY
        limit(controller.objects, 1000)
        (result,) = controller.apply(configmap("d"))
        assert result.refusal is not None, "what can wait waits until it is looked again"
        bee.run_for(FULL_SECONDS + 1)
        (result,) = controller.apply(configmap("b", a=BIG))
        assert result.refusal is None
    controller.close()


def test_a_manifest_without_room_is_applied_when_there_is_room(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    with Harness() as bee:
        controller = Controller(bee, database=(tmp_path / "cloud.db", "a"), nodes=(), manifests=manifests)
        limit(controller.objects, 4)
        (manifests / "a.json").write_text(json.dumps(configmap("a", a=BIG)))
        bee.run_for(2 * FULL_SECONDS)
        assert (controller.call("list", "configmap").object or {})["items"] == []
        limit(controller.objects, 1000)
        bee.run_for(2 * FULL_SECONDS)
        (found,) = (controller.call("list", "configmap").object or {})["items"]
        assert found["metadata"]["name"] == "a"
    controller.close()


def test_what_had_no_room_at_the_start_is_made_when_there_is_room(tmp_path: Path) -> None:
    """It was undone, and until the next start the definitions of devices were missing, namespaces and roles."""
    database, later = (Database(str(tmp_path / "cloud.db"), "a") for _ in range(2))
    with Harness() as bee:
        limit(database, 4)
        cluster = Cluster(bee.clock)
        add_api_server(bee, cluster, database)
        bee.add(Journal, lambda: JournalDatabase("sqlite://", Turns()), "a")
        bee.start()
        assert [key for key in cluster.storage if key.kind != "Namespace"] == []
        limit(database, 1000)
        bee.run_for(2 * FULL_SECONDS)
        found = Counter(key.kind for key in cluster.storage)
        assert found["Namespace"]
        assert found["ClusterRole"]
        assert found["CustomResourceDefinition"]
        version = cluster.storage.version
        bee.run_for(2 * FULL_SECONDS)
        assert cluster.storage.version == version, "once"
        journal = bee.ask(JOURNAL, bee.message(WRITES_RESOURCE, WRITES, WriteQuery())).content_as(WriteList)
        assert not journal.writes, "as at any start"
    with Harness() as bee:
        again = Cluster(bee.clock)
        add_api_server(bee, again, later)
        bee.start()
        assert Counter(key.kind for key in again.storage) == found
    database.close()
    later.close()


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 8 MB."""
    yield from small_file_system("8m")


@pytest.mark.parametrize(
    ("call", "vital"),
    [
        (ApiCall(verb="get", api_version="v1", plural="secrets"), True),
        (ApiCall(verb="list", api_version="v1", plural="secrets"), True),
        (ApiCall(verb="document", api_version="", plural=""), True),
        (ApiCall(verb="delete", api_version="v1", plural="secrets"), True),
        (ApiCall(verb="deletecollection", api_version="v1", plural="secrets"), True),
        (ApiCall(verb="create", api_version="coordination.k8s.io/v1", plural="leases"), True),
        (ApiCall(verb="patch", api_version="v1", plural="nodes", subresource="status"), True),
        (ApiCall(verb="updatestatus", api_version="v1", plural="pods"), True),
        (ApiCall(verb="patch", api_version="v1", plural="nodes"), False),
        (ApiCall(verb="create", api_version="v1", plural="pods", subresource="binding"), False),
        (ApiCall(verb="patch", api_version="apps/v1", plural="deployments", subresource="status"), False),
        (ApiCall(verb="updatestatus", api_version="apps/v1", plural="deployments"), False),
    ],
)
def test_which_calls_are_made_on_a_full_disk(call: ApiCall, *, vital: bool) -> None:
    assert is_vital(call) is vital


def test_a_disk_that_is_short_of_room_counts_as_full() -> None:
    """Before a write has found none."""
    for is_short in (True, False):
        database = cast("Database", SimpleNamespace(room=SimpleNamespace(is_short=is_short)))
        assert DiskRoom(database, Simulation().clock).is_full is is_short


def test_leases_find_room_on_a_full_disk(small_disk: Path) -> None:
    path = small_disk / "cloud.db"
    with Harness() as bee:
        controller = Controller(bee, database=(path, "a"), nodes=())
        controller.objects.room = controller.database.room = Room(path)
        controller.objects.room.fill()
        controller.apply(lease(40), {"kind": "Node", "apiVersion": "v1", **node("n1")})
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
            while True:
                file.write(b"\0" * 4096)
        for number in range(50):
            (result,) = controller.apply(lease(41 + number))
            assert result.refusal is None, number
        (refused,) = controller.apply(configmap("a", a=BIG))
        assert refused.refusal is not None
        assert refused.refusal["code"] == 507
        assert controller.call("get", "node", "n1").object is not None
        assert is_short(controller)
        ballast.unlink()
        bee.run_for(FULL_SECONDS + 1)
        assert not is_short(controller)
        (result,) = controller.apply(configmap("a", a=BIG))
        assert result.refusal is None
    controller.close()


def call(bee: Harness, verb: str, **fields: Any) -> ApiResult:
    """An administrator's request about ConfigMaps."""
    request = ApiCall(verb=verb, api_version="v1", plural="configmaps", namespace="default", **fields)
    return bee.ask(ApiServer.name, bee.message("cloudcore/objects", "call", request, source="control")).content_as(
        ApiResult
    )


@needs_postgresql
def test_a_postgresql_without_room_is_read_and_the_api_server_is_not_restarted(small_disk: Path) -> None:
    """Its tables are on the small disk, and its write-ahead log is not: without room for that, PostgreSQL ends."""
    with PrivatePostgresql() as server:
        shutil.chown(small_disk, "postgres", "postgres")
        setup = make_engine(url_of(server.url))
        with setup.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
            connection.exec_driver_sql("ALTER DATABASE postgres SET default_tablespace = small")
        setup.dispose()
        with Harness() as bee:
            database = Database(server.url, "a", shared=False)
            add_api_server(bee, Cluster(bee.clock), database)
            bee.start()
            refusal: dict[str, Any] | None = None
            for number in range(200):
                text = os.urandom(BIG_BYTES).hex()
                refusal = call(bee, "create", body=configmap(f"c{number}", a=text)).refusal
                if refusal is not None:
                    break
            assert refusal is not None
            assert (refusal["code"], "database or disk is full" in refusal["message"]) == (507, True)
            stored = len((call(bee, "list").object or {})["items"])
            bee.run_for(FULL_SECONDS + 1)
            again = call(bee, "create", body=configmap("again", a=os.urandom(BIG_BYTES).hex())).refusal
            assert again is not None
            assert again["code"] == 507
            assert len((call(bee, "list").object or {})["items"]) == stored
            assert bee.hive.readiness()[ApiServer.name].state is State.READY
            subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
            bee.run_for(FULL_SECONDS + 1)
            assert call(bee, "create", body=configmap("later", a=os.urandom(BIG_BYTES).hex())).refusal is None
        database.close()
