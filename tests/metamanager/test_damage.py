"""A database that is spoilt: noticed, set aside, and what can be read of it taken over."""

import errno
import json
import os
import shutil
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive import Operation
from metamanager import damage
from metamanager.damage import KEPT, all_set_aside
from metamanager.errors import StoreDamagedError, StoreOpenError
from metamanager.rows import Row
from metamanager.sqlite_store import SqliteStore
from tests.metamanager.support import META, from_cloud, keep, node, store_of, thing

PAGE = 4096


def pod_row(number: int, text: str = "x" * 1500) -> Row:
    name = f"p{number:03d}"
    value = json.dumps({"metadata": {"name": name, "uid": f"u{number}", "resourceVersion": "5"}, "text": text})
    return Row(f"default/pod/{name}", "pod", value, f"u{number}", 5, "default", name, 1)


def make(path: Path, rows: int = 100) -> None:
    """A database of about that many pages, all of it in the file itself."""
    with closing(SqliteStore(path)) as store:
        for number in range(rows):
            store.put(pod_row(number))
        store.commit()
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def spoil(path: Path, offset: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\xa5" * length)


def test_a_spoilt_page_is_noticed_at_the_start_and_the_rest_is_kept(path: Path) -> None:
    """The bad file is there still, under another name; most objects are in the new one, each whole."""
    make(path)
    spoil(path, 20 * PAGE, PAGE)
    before = path.read_bytes()
    with closing(SqliteStore(path)) as store:
        kept = store.get_all("pod")
        assert not store.get_all("store")
        keep(store, pod_row(0, "new"))
    assert 20 < len(kept) < 100
    assert all(json.loads(value)["text"] == "x" * 1500 for value in kept)
    (bad,) = all_set_aside(path)
    assert bad.read_bytes() == before
    with closing(SqliteStore(path)) as store:
        assert len(store.get_all("pod")) == len(kept)


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 3 * PAGE, b"something else" * 500, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_node_starts_with_any_remains_of_a_database(path: Path, content: bytes) -> None:
    """Cut off, zeroed, overwritten: the node starts with an empty store."""
    path.write_bytes(content)
    with closing(SqliteStore(path)) as store:
        assert store.get_all("pod") == []
        assert store.put(pod_row(1))
        store.commit()


@settings(max_examples=30, deadline=None)
@given(offset=st.integers(0, 60 * PAGE), length=st.integers(1, 3 * PAGE))
def test_wherever_it_is_spoilt_the_node_starts_and_has_no_half_object(
    tmp_path_factory: pytest.TempPathFactory, offset: int, length: int
) -> None:
    """What it has was stored like that, or the damage is inside of a text, where nothing can tell."""
    path = tmp_path_factory.mktemp("spoilt") / "edgecore.db"
    make(path)
    spoil(path, offset, length)
    store = SqliteStore(path)
    with ExitStack() as stack:
        stack.callback(lambda: store.close())  # noqa: PLW0108 - of the one that is open then
        try:
            kept = store.get_all("pod")
        except StoreDamagedError:
            store.close()
            store = SqliteStore(path)
            kept = store.get_all("pod")
        if all_set_aside(path):
            assert all(json.loads(value)["metadata"]["name"] for value in kept)
        keep(store, pod_row(1, "again"))


def test_rows_between_two_that_cannot_be_read_are_kept(path: Path) -> None:
    make(path, 5)
    with closing(sqlite3.connect(path)) as connection:
        for number in (1, 3):
            bad = bytes((0xFF, number))
            connection.execute("UPDATE meta SET key = CAST(? AS TEXT) WHERE name = ?", (bad, f"p00{number}"))
        connection.commit()
    assert sorted(row.name for row in damage.readable_rows(path)) == ["p000", "p002", "p004"]


def test_a_damaged_file_that_cannot_be_renamed_is_marked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may look sound to the next start."""
    make(path, 1)
    monkeypatch.setattr(Path, "rename", Mock(side_effect=OSError(errno.EROFS, "Read-only file system")))
    with pytest.raises(StoreOpenError):
        damage.set_aside(path)
    assert damage.is_marked(path)


def test_a_new_database_that_is_not_complete_is_not_put_in_place(path: Path) -> None:
    """SQLite leaves its log beside it when the disk has no room for the pages in it."""
    path.write_bytes(b"damaged")
    new = damage.new_path(path)
    new.touch()
    new.with_name(f"{new.name}-wal").touch()
    with pytest.raises(StoreOpenError, match="free some disk space"):
        damage.put_in_place(path)
    assert path.read_bytes() == b"damaged"


def test_only_a_few_are_kept(tmp_path: Path) -> None:
    """Each holds secrets, and room."""
    path = tmp_path / "edgecore.db"
    for number in range(KEPT + 2):
        path.write_bytes(b"bad" * (1000 + number))
        SqliteStore(path).close()
    assert len(all_set_aside(path)) == KEPT
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("tick", [0, -3600], ids=["one second", "clock set back"])
def test_the_newest_are_kept_and_salvaged_whatever_the_clock_says(tmp_path: Path, tick: int) -> None:
    """The time in the name is that of the last write. Number 100 follows number 99, and is longer."""
    path, began = tmp_path / "edgecore.db", 1_800_000_000
    path.with_name(f"{path.name}.bad-20990101T000000Z.00").touch()  # an earlier version's, which numbered each second
    path.with_name(f"{path.name}.bad-20990101T000000Z.98").touch()
    for number in range(KEPT + 1):
        make(path, 1)
        damage.mark(path)
        os.utime(path, (began + number * tick, began + number * tick))
        with closing(SqliteStore(path)) as store:
            assert len(store.get_all("pod")) == 1
    assert [each.suffix for each in all_set_aside(path)] == [".100", ".101", ".102"]


def test_the_log_that_belongs_to_it_goes_with_it(tmp_path: Path) -> None:
    """Rows that were only in the write-ahead log are found there under its new name, and the new database does not use
    that log.
    """
    there, path = tmp_path / "there.db", tmp_path / "here" / "edgecore.db"
    path.parent.mkdir()
    with closing(SqliteStore(there)) as store:
        keep(store, pod_row(1))
        for side in ("", "-wal"):
            shutil.copy(f"{there}{side}", f"{path}{side}")
    damage.mark(path)
    with closing(SqliteStore(path)) as store:
        assert store.get_all("pod") == [pod_row(1).value]
    (bad,) = all_set_aside(path)
    assert bad.with_name(bad.name + "-wal").exists()


@pytest.mark.parametrize(
    "spoiling",
    [
        "UPDATE meta SET value = CAST(x'ff68756e74657232' AS TEXT) WHERE name = 'p001'",
        "UPDATE meta SET value = x'ff68756e74657232' WHERE name = 'p001'",
        "UPDATE meta SET value = NULL WHERE name = 'p001'",
    ],
)
def test_a_value_that_is_no_text_is_damage_too(path: Path, spoiling: str) -> None:
    """SQLite's check sees no difference: a byte that is wrong makes a value one of another type. Its object is lost,
    the others are not, and no error quotes it.
    """
    with closing(SqliteStore(path)) as store:
        for number in (1, 2):
            store.put(pod_row(number))
        store.commit()
        store._connection.execute(spoiling)
        for read in (lambda: store.get_all("pod"), lambda: list(store.rows())):
            with pytest.raises(StoreDamagedError) as caught:
                read()
            assert "hunter2" not in str(caught.value)
    with closing(SqliteStore(path)) as store:
        assert store.get_all("pod") == [pod_row(2).value]


def test_damage_found_in_use_is_handled_like_damage_at_the_start(path: Path) -> None:
    """metamanager is started again, sets the file aside, and what was read out of it is there; nothing that was not
    stored is acknowledged.
    """
    make(path)
    with node(path) as bee:
        bee.expect_failures()
        store = store_of(bee)
        store._connection.execute("PRAGMA cache_size=1")
        store._connection.execute("PRAGMA mmap_size=0")
        spoil(path, 2 * PAGE, 70 * PAGE)
        bee.send(META, from_cloud(bee, "default/pod/p050", Operation.UPDATE, thing("p050", uid="u50", version=9)))
        bee.run_for(10)
        assert bee.hive.restarts()[META] == 1
        assert '"9"' in (store_of(bee).get("default/pod/p050") or "")
    assert len(all_set_aside(path)) == 1


def test_what_shows_only_when_it_is_read_does_not_keep_the_node_from_starting(path: Path) -> None:
    """SQLite's check passes a text of another type; the module finds it when it first reads the events."""
    make(path, 3)
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("INSERT INTO meta (key, type, value) VALUES ('d/event/e', 'event', CAST(x'ff' AS TEXT))")
        plain.commit()
    with node(path) as bee:
        assert (len(store_of(bee).get_all("pod")), bee.hive.restarts()[META]) == (3, 0)
    assert len(all_set_aside(path)) == 1


def test_a_failed_read_is_an_error(path: Path) -> None:
    make(path)
    with closing(SqliteStore(path)) as store:
        store._connection.execute("PRAGMA cache_size=1")
        spoil(path, 2 * PAGE, 90 * PAGE)
        with pytest.raises(StoreDamagedError, match="set aside"):
            for number in range(100):
                store.get(pod_row(number).key)
    assert damage.is_marked(path)
    SqliteStore(path).close()
    assert not damage.is_marked(path)


def test_a_note_that_it_is_complete_is_not_taken_over(path: Path) -> None:
    """What could be read may not be all: pods that run and are not among it are asked of the cloud."""
    make(path, 3)
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("INSERT INTO meta (key, type, value) VALUES ('null/store/complete', 'store', '{}')")
        plain.commit()
    damage.mark(path)
    with closing(SqliteStore(path)) as store:
        assert (len(store.get_all("pod")), store.get_all("store")) == (3, [])
