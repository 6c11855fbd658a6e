"""The SQLite file itself: its mode, settings and damages, and KubeEdge's file."""

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from metamanager.errors import StoreOpenError, StoreWriteError
from metamanager.rows import Row
from metamanager.sqlite_store import SqliteStore
from tests.metamanager.support import keep
from tests.support.patience import PATIENCE

ROW = Row("default/secret/s", "secret", '{"metadata":{"uid":"u"}}', "u", 1, "default", "s", 0)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_can_read_the_database(tmp_path: Path) -> None:
    """The file, what SQLite puts beside it and the directory that is made are the owner's alone: it holds secrets."""
    path = tmp_path / "made" / "edgecore.db"
    with closing(SqliteStore(path)) as store:
        keep(store, ROW)
        assert mode(path.parent) == 0o700
        assert [mode(file) for file in path.parent.iterdir()] == [0o600] * 4


def test_a_file_that_others_could_read_is_closed_to_them(path: Path) -> None:
    """KubeEdge makes its own with mode 0644."""
    path.touch(0o644)
    SqliteStore(path).close()
    assert mode(path) == 0o600


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),
        ("busy_timeout", 5000),
        ("foreign_keys", 1),
        ("user_version", 3),
        ("secure_delete", 1),
        ("cache_size", -512),
    ],
)
def test_its_settings_follow_the_contract(tmp_path: Path, pragma: str, value: object) -> None:
    """Write-ahead log, an fsync for each commit."""
    with closing(SqliteStore(tmp_path / "edgecore.db")) as store:
        assert store._connection.execute(f"PRAGMA {pragma}").fetchone() == (value,)


@pytest.mark.parametrize(
    ("key", "kind"), [("default/secret/s", "secret"), ("default/serviceaccounttoken/a", "serviceaccounttoken")]
)
@pytest.mark.parametrize("end", ["deleted", "changed", "read meanwhile"])
def test_no_file_has_the_old_value_of_a_secret(tmp_path: Path, key: str, kind: str, end: str) -> None:
    """Neither the database nor its log, from the next commit without another reader."""
    path = tmp_path / "edgecore.db"
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        keep(store, Row(key, kind, '{"a":"old value"}', "u", 1, "default", "s", 1))
        if end == "read meanwhile":
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM meta").fetchall()
        if end == "changed":
            store.put(Row(key, kind, '{"a":"new value"}', "u", 2, "default", "s", 1))
        else:
            store.delete(key)
        store.commit()
        if end == "read meanwhile":
            assert b"old value" in b"".join(file.read_bytes() for file in tmp_path.iterdir())
            other.execute("COMMIT")
            keep(store, Row("default/pod/p", "pod", "{}"))
        assert b"old value" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_kubeedges_tools_can_read_and_write_it(path: Path) -> None:
    """Its three columns are there, a row that it replaces is found, replaced and deleted by uid."""
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path)) as kubeedge:
        keep(store, ROW)
        assert kubeedge.execute("SELECT key, type, value FROM meta").fetchall() == [(ROW.key, ROW.type, ROW.value)]
        value = '{"metadata":{"uid":"w"}}'
        kubeedge.execute("REPLACE INTO meta (key, type, value) VALUES (?, ?, ?)", (ROW.key, ROW.type, value))
        kubeedge.commit()
        assert store.get(ROW.key) == value
        assert not store.delete(ROW.key, "another")
        assert store.delete(ROW.key, "w")
        store.put(ROW)
        store.rollback()
        assert store.put(ROW)


def test_a_database_of_kubeedge_is_taken_over(path: Path) -> None:
    """Its rows stay, and get what our columns say of them; opening it twice changes nothing more."""
    pod = '{"metadata":{"uid":"u","resourceVersion":"9"}}'
    with closing(sqlite3.connect(path)) as kubeedge:
        kubeedge.execute("CREATE TABLE meta (key text(256), type text(32), value text, PRIMARY KEY (key))")
        kubeedge.execute("INSERT INTO meta VALUES ('default/pod/a', 'pod', ?), ('odd', '', 'text')", (pod,))
        kubeedge.commit()
    for _ in range(2):
        with closing(SqliteStore(path)) as store:
            assert store.get_all("pod", "default") == [pod]
            assert store.get("odd") == "text"
            assert not store.put(Row("default/pod/a", "pod", "older", "u", 8))


def test_a_file_of_a_newer_version_is_left_alone(path: Path) -> None:
    """The error says which versions, and that the newer program is wanted."""
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version=99")
    with pytest.raises(StoreOpenError, match=r"version 99.*newer edgecore"):
        SqliteStore(path)


def test_a_file_that_never_was_a_database_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    """A configuration may name any file by mistake: it is neither overwritten nor renamed."""
    path = tmp_path / "notes.txt"
    path.write_bytes(b"something else" * 100)
    with pytest.raises(StoreOpenError, match=r"notes\.txt.*dataBase\.dataSource"):
        SqliteStore(path)
    assert path.read_bytes().startswith(b"something else")
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_a_path_that_cannot_be_is_an_error_with_its_reason(tmp_path: Path) -> None:
    """Here a file stands where the directory should."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreOpenError, match=r"file/edgecore\.db.*(exists|directory)"):
        SqliteStore(tmp_path / "file" / "edgecore.db")
    with pytest.raises(StoreOpenError, match="directory"):
        SqliteStore(tmp_path)


def test_another_process_that_holds_it_is_named_as_the_reason(path: Path) -> None:
    """The write fails after the busy timeout, the transaction is not begun, the next one succeeds."""
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        store._connection.execute("PRAGMA busy_timeout=10")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreWriteError, match="another process") as caught:
            store.put(ROW)
        assert not caught.value.batch_lost
        other.execute("COMMIT")
        assert store.put(ROW)


def test_a_full_disk_fails_the_change_and_not_the_store(tmp_path: Path) -> None:
    """What was committed stays readable; once there is room it goes on."""
    with closing(SqliteStore(tmp_path / "edgecore.db")) as store:
        keep(store, ROW)
        store._connection.execute("PRAGMA max_page_count=8")
        with pytest.raises(StoreWriteError, match="disk space"):
            store.put(Row("default/secret/big", "secret", "x" * 100_000))
        store.rollback()
        assert store.get(ROW.key) == ROW.value
        store._connection.execute("PRAGMA max_page_count=1000")
        assert store.put(Row("default/secret/big", "secret", "x" * 100_000))
        store.commit()


def test_no_error_quotes_the_row(tmp_path: Path) -> None:
    """It may be a secret."""
    with closing(SqliteStore(tmp_path / "edgecore.db")) as store:
        with pytest.raises(StoreWriteError) as caught:
            store.put(Row("default/secret/s", "secret", "hunter2\ud800"))
        assert "hunter2" not in str(caught.value)


def loaded_after(code: str) -> set[str]:
    """Which modules of SQLAlchemy a fresh Python has loaded after running some code."""
    script = f"{code}\nimport sys; print(*(name for name in sys.modules if name.startswith('sqlalchemy')))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=PATIENCE)
    return set(done.stdout.split())


def test_a_node_with_sqlite_does_not_load_sqlalchemy(tmp_path: Path) -> None:
    """It would take a fifth of the agent's memory."""
    code = f"import metamanager.module, metamanager.client\nmetamanager.module.open_store({str(tmp_path / 'x.db')!r})"
    assert loaded_after(code) == set()


def test_another_database_loads_sqlalchemy_without_its_orm(tmp_path: Path) -> None:
    """Core only."""
    loaded = loaded_after(f"import metamanager.core_store as c\nc.CoreStore({f'sqlite:///{tmp_path}/x.db'!r}).close()")
    assert "sqlalchemy" in loaded
    assert not [name for name in loaded if name.startswith("sqlalchemy.orm")]
