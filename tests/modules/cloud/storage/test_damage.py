"""Damaged rows of what cloudcore keeps of nodes: each node is served, and no more is assumed than was true."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from modules.apimachinery.kinds import ObjectKey
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.object_sync import Epoch, NodeState, ObjectSync

WEB, SETTINGS = ObjectKey("Pod", "default", "web"), ObjectKey("ConfigMap", "default", "settings")
UNDAMAGED = {"u1": ObjectSync(WEB, 7), "u2": ObjectSync(SETTINGS, 9)}
HUGE = 1 << 62
PAGE = 4096


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    """The database in a transaction of a cloudcore that starts."""
    with closing(Database(str(path), "b", stores_objects=False)) as database:
        database.begin()
        yield database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """With the state of two nodes."""
    found = tmp_path / "cloud.db"
    with closing(Database(str(found), "a", stores_objects=False)) as database:
        database.begin()
        for node in ("n1", "n2"):
            for uid, sync in UNDAMAGED.items():
                database.put_object_sync(node, uid, sync)
            database.put_node_state(node, NodeState("u", 3))
            database.claim(node, "link", 5)
        database.put_epoch(Epoch(3, 9))
        database.commit(6)
    return found


def damage(path: Path, table: str, columns: str, where: str = "TRUE") -> None:
    """Change a row as a repair by hand does."""
    statement = f"UPDATE {table} SET {columns} WHERE {where}"  # noqa: S608 - all are written below
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement).rowcount == 1


@pytest.mark.parametrize("version", ["'damaged'", "x'00ff'", "1.5"])
def test_an_invalid_version_counts_as_not_acknowledged(path: Path, version: str) -> None:
    damage(path, "cluster_syncs", f"version = {version}", "node = 'n1' AND uid = 'u1'")
    with opened(path) as database:
        assert database.object_syncs_of("n1") == {**UNDAMAGED, "u1": ObjectSync(WEB)}
        assert database.object_syncs_of("n2") == UNDAMAGED


@pytest.mark.parametrize("sync", [ObjectSync(WEB, sent=7), ObjectSync(WEB, deleted=7)])
def test_what_is_not_damaged_is_left(path: Path, sync: ObjectSync, caplog: pytest.LogCaptureFixture) -> None:
    """The number of an object that was sent, or deleted, is negative."""
    damage(path, "cluster_syncs", f"version = {sync.number}", "node = 'n1' AND uid = 'u1'")
    with opened(path) as database:
        assert database.object_syncs_of("n1")["u1"] == sync
    assert caplog.text == ""


@pytest.mark.parametrize("columns", ["uid = ''", "uid = x'00'", "kind = x'00'", "name = ''", "namespace = ''"])
def test_an_object_that_has_no_name_is_forgotten(path: Path, columns: str) -> None:
    """The node is sent it again. A pod without a namespace would be taken for a deleted one."""
    damage(path, "cluster_syncs", columns, "node = 'n1' AND uid = 'u1'")
    with opened(path) as database:
        assert database.object_syncs_of("n1") == {"u2": UNDAMAGED["u2"]}


@pytest.mark.parametrize(
    ("columns", "left"),
    [
        ("epoch = 'damaged'", NodeState("u", -1)),
        ("epoch = -5", NodeState("u", -1)),
        ("node_uid = x'00ff'", NodeState("", -1)),
    ],
)
def test_a_node_whose_state_cannot_be_read_has_acknowledged_nothing(path: Path, columns: str, left: NodeState) -> None:
    """Nothing of the epoch -1 counts; what it is owed stays."""
    damage(path, "cluster_node_states", columns, "node = 'n1'")
    with opened(path) as database:
        assert database.node_states() == {"n1": left, "n2": NodeState("u", 3)}
        assert database.object_syncs_of("n1") == UNDAMAGED


@pytest.mark.parametrize("columns", ["epoch = 'damaged'", "epoch = -1", "newest = 'damaged'", "id = 2"])
def test_a_lost_epoch_is_followed_by_a_new_one(path: Path, columns: str) -> None:
    damage(path, "cluster_epochs", columns)
    for _ in range(2):
        with opened(path) as database:
            assert database.epoch() == Epoch(4, 0)


@pytest.mark.parametrize("columns", ["cloudcore = x'00'", "revision = 'damaged'", f"revision = {HUGE}"])
def test_a_claim_that_cannot_be_read_or_is_of_the_future_does_not_count(path: Path, columns: str) -> None:
    damage(path, "cluster_sessions", columns, "node = 'n1'")
    with opened(path) as database:
        assert database.claims() == {"n2": "a"}


@pytest.mark.parametrize("columns", ["revision = 'damaged'", "revision = -1", "compacted = 'damaged'"])
def test_a_lost_revision_is_counted_again(path: Path, columns: str, caplog: pytest.LogCaptureFixture) -> None:
    """A line of the log says that something was wrong, once."""
    damage(path, "cluster_state", columns)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with opened(path) as database:
                assert database.object_syncs_of("n1") == UNDAMAGED
    assert [record.message.partition(" in ")[0] for record in caplog.records] in (
        ["1 damaged rows"],
        ["3 damaged rows"],
    )


def test_after_a_lost_number_of_forgotten_deletions_all_count_as_forgotten(path: Path) -> None:
    """A cloudcore that was away would keep what was deleted meanwhile."""
    damage(path, "cluster_state", "compacted = 'damaged'")
    with opened(path), closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT compacted = revision FROM cluster_state").fetchone() == (1,)


def test_a_file_with_a_damaged_page_is_refused_and_left_as_it_is(path: Path) -> None:
    """Whichever page it is: at the start, and not when it is read."""
    whole = path.read_bytes()
    assert len(whole) >= 5 * PAGE
    for page in range(0, len(whole), PAGE):
        damaged = whole[:page] + b"damaged " * (PAGE // 8) + whole[page + PAGE :]
        path.write_bytes(damaged)
        with pytest.raises(DatabaseError, match="open the database"):
            Database(str(path), "b", stores_objects=False)
        assert path.read_bytes() == damaged


def test_a_row_of_a_database_that_holds_nothing_yet_is_repaired_too(tmp_path: Path) -> None:
    """A cloudcore that was killed before its first transaction has made the tables, and their first rows."""
    path = tmp_path / "cloud.db"
    Database(str(path), "a", stores_objects=False).close()
    damage(path, "cluster_epochs", "newest = 'damaged'")
    with opened(path) as database:
        assert database.is_new
        assert database.epoch() == Epoch(1, 0)
