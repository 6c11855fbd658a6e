"""A disk without room: what is stored can be read, nothing is acknowledged that was not stored, and it passes."""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from prometheus_client.parser import text_string_to_metric_families

from beehive import Group, Operation, State
from beehive.exposition import MetricFamily, text_of
from beehive.files.reserve import LARGEST, SMALLEST, Reserve
from beehive.testing import Harness
from metamanager.answers import DELETION_NOT_STORED
from metamanager.errors import StoreError
from metamanager.metrics import store_metrics
from metamanager.module import MetaManager, MetaSettings
from metamanager.rows import Row
from metamanager.sqlite_store import COMMITS_BETWEEN_LOOKS, SqliteStore
from metamanager.store import open_store
from metamanager.store_health import PROBE_AFTER, StoreStatistics
from tests.metamanager.support import META, connect, from_cloud, from_edged, keep, node, store_of, thing
from tests.metamanager.test_cloud_pods import Cloud
from tests.metamanager.test_pod_list import asking, listing, names, pod
from tests.support.full_disk import fill, small_file_system

BIG = "x" * 100_000


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 1 MB."""
    yield from small_file_system("1m")


def test_a_real_disk_that_is_full(small_disk: Path) -> None:
    """Errors in the place of acknowledgements, not ready, reading goes on; with room again it is ready by itself and
    takes changes. The metrics say the same.
    """
    path = small_disk / "edgecore.db"
    with node(path) as bee:
        bee.send(META, from_cloud(bee, "default/configmap/a", Operation.INSERT, thing()))
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
            while True:
                file.write(b"\0" * 4096)
        bee.forget()
        for number in range(4):
            content = thing("b", uid=f"u{number}", text=BIG)
            bee.send(META, from_cloud(bee, f"default/configmap/b{number}", Operation.INSERT, content))
        answers = bee.sent_to(Group.HUB)
        assert [answer.route.operation for answer in answers] == [Operation.ERROR] * 4
        readiness = bee.hive.readiness()[META]
        assert readiness.state is not State.READY
        assert "disk space" in str(readiness)
        assert bee.ask(META, from_edged(bee, "default/configmap/a", Operation.QUERY), 1).content
        ballast.unlink()
        bee.run_for(PROBE_AFTER + 1)
        assert bee.hive.readiness()[META].state is State.READY
        bee.forget()
        bee.send(META, from_cloud(bee, "default/configmap/b0", Operation.INSERT, thing("b", uid="u0", text=BIG)))
        assert [answer.content for answer in bee.sent_to(Group.HUB)] == ["OK"]


def test_a_node_that_starts_with_a_full_disk_knows_its_pods(small_disk: Path) -> None:
    """SQLite would need room only to open the file; with room again changes are taken."""
    path, ballast = small_disk / "edgecore.db", small_disk / "ballast"
    with node(path) as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, thing()))
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
        while True:
            file.write(b"\0" * 4096)
    with node(path) as bee:
        assert len(bee.ask(META, from_edged(bee, "default/pod", Operation.QUERY), 1).content) == 1
        bee.send(META, from_cloud(bee, "default/pod/b", Operation.INSERT, thing("b", uid="b", text=BIG)))
        assert bee.hive.readiness()[META].state is not State.READY
        ballast.unlink()
        bee.run_for(PROBE_AFTER + 1)
        bee.send(META, from_cloud(bee, "default/pod/b", Operation.INSERT, thing("b", uid="b", text=BIG)))
    with node(path) as bee:
        assert len(bee.ask(META, from_edged(bee, "default/pod", Operation.QUERY), 1).content) == 2


def test_a_database_that_cannot_even_be_read_does_not_end_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it checks whether changes succeed again, it checks again later."""
    with node(tmp_path / "edgecore.db") as bee:
        store = store_of(bee)
        store._connection.execute("PRAGMA max_page_count=20")
        bee.send(META, from_cloud(bee, "default/configmap/b", Operation.INSERT, thing(text=BIG)))
        store._connection.execute("PRAGMA max_page_count=1000")
        with monkeypatch.context() as patched:
            patched.setattr(SqliteStore, "put", Mock(side_effect=StoreError("read the database", "", "I/O error")))
            bee.run_for(PROBE_AFTER + 1)
        assert bee.hive.restarts()[META] == 0
        assert "I/O error" in str(bee.hive.readiness()[META])
        bee.run_for(PROBE_AFTER + 1)
        assert bee.hive.readiness()[META].state is State.READY


def test_the_figures_say_it(tmp_path: Path) -> None:
    """A failure is counted, whether changes are taken is a gauge, and so are the sizes."""
    statistics, path = StoreStatistics(), tmp_path / "edgecore.db"
    collect = partial(store_metrics, statistics, str(path))
    with Harness() as bee:
        bee.start(MetaManager, MetaSettings(str(path)), open_store, statistics)
        store_of(bee)._connection.execute("PRAGMA max_page_count=20")
        bee.send(META, from_cloud(bee, "default/configmap/b", Operation.INSERT, thing(text=BIG)))
        full = values(collect())
        store_of(bee)._connection.execute("PRAGMA max_page_count=1000")
        bee.run_for(PROBE_AFTER + 1)
        again = values(collect())
    assert (full["failures"], full["takes_changes"]) == (1, 0)
    assert (again["failures"], again["takes_changes"], again["damaged_files"]) == (1, 1, 0)
    assert again["bytes"] > 4096


def values(metrics: Iterable[MetricFamily]) -> dict[str, float]:
    """The metrics by the ends of their names."""
    prefixes = ("metamanager_store_write_", "metamanager_store_")
    families = text_string_to_metric_families(text_of(metrics))
    return {re.sub("|".join(prefixes), "", one.name): one.samples[0].value for one in families}


def test_the_file_gives_room_back(path: Path) -> None:
    """What was deleted is free on the disk after some commits."""
    store = SqliteStore(path)
    rows = [Row(f"default/configmap/{number}", "configmap", BIG) for number in range(50)]
    for row in rows:
        store.put(row)
    store.commit()
    for row in rows:
        store.delete(row.key)
    for number in range(COMMITS_BETWEEN_LOOKS + 1):
        keep(store, Row("default/configmap/small", "configmap", str(number)))
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    assert path.stat().st_size < 2_500_000


def test_a_file_of_an_earlier_version_is_made_to_shrink(path: Path) -> None:
    with sqlite3.connect(path) as earlier:
        earlier.execute("CREATE TABLE meta (key text(256), type text(32), value text, PRIMARY KEY (key))")
        earlier.execute("INSERT INTO meta VALUES ('default/pod/a', 'pod', '{}')")
    earlier.close()
    store = SqliteStore(path)
    assert store._connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert store.get("default/pod/a") == "{}"
    store.close()


GOING = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize("number", [1, 5])
def test_deletions_are_stored_on_a_full_disk(small_disk: Path, number: int) -> None:
    """Nothing else is; there is room kept for them. They are acknowledged, and hold after a restart."""
    path = small_disk / "edgecore.db"
    with node(path) as bee:
        for each in range(number + 1):
            bee.send(META, from_cloud(bee, f"default/pod/p{each}", Operation.INSERT, thing(f"p{each}", uid=f"u{each}")))
        fill(small_disk)
        bee.forget()
        bee.send(META, from_cloud(bee, "default/configmap/b", Operation.INSERT, thing("b", text=BIG)))
        for each in range(number):
            bee.send(META, from_cloud(bee, f"default/pod/p{each}", Operation.DELETE, thing(f"p{each}", uid=f"u{each}")))
        answers = [answer.route.operation for answer in bee.sent_to(Group.HUB)]
        assert answers == [Operation.ERROR, *[Operation.RESPONSE] * number]
        told = [(m.route.operation, m.route.resource) for m in bee.sent_to("edged") if "/pod/" in m.route.resource]
        assert told == [(Operation.DELETE, f"default/pod/p{each}") for each in range(number)]
    (small_disk / "ballast").unlink()
    with node(path) as bee:
        assert len(bee.ask(META, from_edged(bee, "default/pod", Operation.QUERY), 1).content) == 1


def test_a_pod_that_the_cloud_has_forgotten_ends_on_a_full_disk(small_disk: Path) -> None:
    """Its deletion takes the same room, and holds after a restart."""
    path = small_disk / "edgecore.db"
    with asking(path, connected=False) as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, pod("a")))
        Cloud(bee, listing())
        fill(small_disk)
        bee.forget()
        connect(bee)
        pods = [(m.route.operation, m.route.resource) for m in bee.sent_to("edged") if "/pod/" in m.route.resource]
        assert pods == [(Operation.DELETE, "default/pod/a")]
    (small_disk / "ballast").unlink()
    with asking(path, connected=False) as bee:
        assert names(bee) == []


def test_the_announcement_of_a_deletion_too(small_disk: Path) -> None:
    """A pod that is to end within its grace period ends on a full disk."""
    with node(small_disk / "edgecore.db") as bee:
        bee.send(META, from_cloud(bee, "default/pod/p", Operation.INSERT, thing("p", uid="u")))
        fill(small_disk)
        bee.forget()
        going = thing("p", uid="u", version=5)
        going["metadata"].update(GOING)
        bee.send(META, from_cloud(bee, "default/pod/p", Operation.UPDATE, going))
        assert [answer.route.operation for answer in bee.sent_to(Group.HUB)] == [Operation.RESPONSE]


def test_a_pod_is_deleted_in_the_cloud_once_its_deletion_is_stored(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its successor runs elsewhere, and a start without the cloud runs it again: two pods of an identity."""
    monkeypatch.setattr(Reserve, "fill", lambda _self: None)
    going = thing("p", uid="u", version=5)
    going["metadata"].update(GOING)
    announced = "default/pod/p", Operation.UPDATE, going
    ended = "default/pod/p", Operation.DELETE, {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}
    with node(small_disk / "edgecore.db") as bee:
        connect(bee)
        bee.send(META, from_cloud(bee, "default/pod/p", Operation.INSERT, thing("p", uid="u")))
        fill(small_disk)
        bee.send(META, from_cloud(bee, *announced))
        bee.forget()
        refused = bee.ask(META, from_edged(bee, *ended), 1)
        assert (refused.route.operation, refused.content) == (Operation.ERROR, DELETION_NOT_STORED)
        assert bee.sent_to(Group.HUB) == []
        (small_disk / "ballast").unlink()
        bee.send(META, from_cloud(bee, *announced))
        bee.forget()
        bee.send(META, from_edged(bee, *ended))
        assert [sent.route.operation for sent in bee.sent_to(Group.HUB)] == [Operation.DELETE]


def test_without_a_reserve_a_deletion_reaches_the_pod_all_the_same(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For that is what frees room. The cloud gets an error and sends the deletion again; edged gets it in
    metamanager's name, so that it knows that the store has the pod still.
    """
    monkeypatch.setattr(Reserve, "fill", lambda _self: None)
    with node(small_disk / "edgecore.db") as bee:
        bee.send(META, from_cloud(bee, "default/pod/p", Operation.INSERT, thing("p", uid="u")))
        fill(small_disk)
        bee.forget()
        bee.send(META, from_cloud(bee, "default/pod/p", Operation.DELETE, thing("p", uid="u")))
        assert [answer.route.operation for answer in bee.sent_to(Group.HUB)] == [Operation.ERROR]
        told = [(m.route.operation, m.route.source) for m in bee.sent_to("edged") if "/pod/" in m.route.resource]
        assert told == [(Operation.DELETE, META)]


def test_the_cloud_gets_this_nodes_reports_for_any_failure_of_the_disk(small_disk: Path) -> None:
    """Statuses of pods and of the node leave although they cannot be kept, and edged checks the disk."""
    with node(small_disk / "edgecore.db") as bee:
        bee.send(META, from_cloud(bee, "default/pod/p", Operation.INSERT, thing("p", uid="u")))
        bee.send(META, bee.message("node/connection", "connect", "cloud_connected", source="edgehub"))
        fill(small_disk)
        bee.forget()
        patch = {"metadata": {"uid": "u"}, "status": {"phase": "Failed", "reason": "Evicted", "message": BIG}}
        for resource in ("default/podpatch/p", "null/nodepatch/n"):
            bee.send(META, from_edged(bee, resource, Operation.PATCH, patch))
        left = [m.route.resource for m in bee.sent_to(Group.HUB)]
        assert left == ["default/podpatch/p", "null/nodepatch/n"]
        assert [m.route.resource for m in bee.sent_to("edged")] == ["node/disk"]


def test_the_reserve_is_kept_again_when_there_is_room(small_disk: Path) -> None:
    path = small_disk / "edgecore.db"
    reserve = path.with_name("edgecore.db-reserve")
    with node(path) as bee:
        bee.send(META, from_cloud(bee, "default/pod/p", Operation.INSERT, thing("p", uid="u")))
        assert SMALLEST <= reserve.stat().st_size <= LARGEST
        ballast = fill(small_disk)
        bee.send(META, from_cloud(bee, "default/pod/p", Operation.DELETE, thing("p", uid="u")))
        assert not reserve.exists()
        ballast.unlink()
        bee.run_for(PROBE_AFTER + 1)
        bee.send(META, from_cloud(bee, "default/configmap/c", Operation.INSERT, thing("c")))
        assert reserve.exists()


def test_a_disk_that_is_full_at_the_start_has_no_reserve_and_no_error(small_disk: Path) -> None:
    path = small_disk / "edgecore.db"
    SqliteStore(path, keeps_room=False).close()
    fill(small_disk)
    store = SqliteStore(path)
    assert not store.make_room()
    store.close()
    assert not path.with_name("edgecore.db-reserve").exists()
