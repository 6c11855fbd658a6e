"""SQLite's failures: what a failed statement ends, what is lost then, how the store goes on; its log and its room."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from metamanager import damage, sqlite_store
from metamanager.errors import StoreDamagedError, StoreError, StoreWriteError
from metamanager.rows import Row
from metamanager.sqlite_open import reason_of
from metamanager.sqlite_store import LONGEST, MOST_ROWS, SPARE_PAGES, SqliteStore
from tests.metamanager.support import keep

IO_ERROR = sqlite3.OperationalError("disk I/O error")
LONG = "x" * (LONGEST + 1)
MALFORMED = sqlite3.DatabaseError("database disk image is malformed")


def row(name: str = "a", version: int = 1, value: str = "{}", kind: str = "configmap") -> Row:
    return Row(f"default/{kind}/{name}", kind, value, "u", version, "default", name, 7)


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """A store with one row, whose state it remembers."""
    with closing(SqliteStore(path)) as store:
        keep(store, row())
        yield store


def fail(store: SqliteStore, begin: str, error: Exception) -> None:
    """Have statements that begin so fail."""
    real = store._connection.execute

    def execute(statement: str, *parameters: Any) -> Any:
        if statement.startswith(begin):
            raise error
        return real(statement, *parameters)

    store._execute = execute


def heal(store: SqliteStore) -> None:
    store._execute = store._connection.execute


def put_and_commit(store: SqliteStore) -> None:
    keep(store, row("c"))


CALLS: dict[str, tuple[str, Callable[[SqliteStore], object], type[StoreError]]] = {
    "begin": ("BEGIN", lambda store: store.put(row("c")), StoreWriteError),
    "put": ("INSERT", lambda store: store.put(row("c")), StoreWriteError),
    "delete": ("DELETE", lambda store: store.delete("default/configmap/a"), StoreWriteError),
    "delete_owned": ("DELETE", lambda store: store.delete_owned("configmap", "u"), StoreWriteError),
    "commit": ("COMMIT", put_and_commit, StoreWriteError),
    "get": ("SELECT value", lambda store: store.get("default/configmap/a"), StoreError),
    "get_all": ("SELECT value", lambda store: store.get_all("configmap"), StoreError),
    "rows": ("SELECT key", lambda store: list(store.rows()), StoreError),
    "put of an older state": ("SELECT uid", lambda store: store.put(row("b", 4, LONG)), StoreError),
    "waiting": ("INSERT", lambda store: (store.put(row(version=2)), store.get("x")), StoreWriteError),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_failed_statement_is_an_error_and_the_store_goes_on(store: SqliteStore, path: Path, name: str) -> None:
    """All since the last commit is there after it, or nothing and the error tells it."""
    begin, call, kind = CALLS[name]
    if name != "begin":
        store.put(row("b", 5))
    fail(store, begin, IO_ERROR)
    with pytest.raises(kind, match="disk I/O error") as caught:
        call(store)
    heal(store)
    lost = isinstance(caught.value, StoreWriteError) and caught.value.batch_lost
    assert lost is (name in ("commit", "waiting"))
    if lost:
        assert not store._connection.in_transaction
        store.rollback()
    keep(store, row("d"))
    there = {one.name: one.resource_version for one in store.rows()}
    assert there == {"a": 1, "d": 1} | ({} if lost or name == "begin" else {"b": 5})
    with closing(SqliteStore(path)) as other:
        assert {one.name: one.resource_version for one in other.rows()} == there
    assert not damage.is_marked(path)


@pytest.mark.parametrize("name", CALLS)
def test_damage_that_a_statement_meets_is_marked(store: SqliteStore, path: Path, name: str) -> None:
    """Whichever it is: the next start sets the file aside. Rows that wait are given up."""
    begin, call, _ = CALLS[name]
    store.put(row("b", 5))
    if name == "begin":
        store.commit()
    fail(store, begin, MALFORMED)
    with pytest.raises(StoreDamagedError):
        call(store)
    assert damage.is_marked(path)


def test_rows_that_wait_are_among_all_rows(store: SqliteStore) -> None:
    """And no more than some wait."""
    for version in range(2, MOST_ROWS + 2):
        store.put(row(version=version))
    assert len(store._puts) == 0
    store.put(row(version=MOST_ROWS + 2))
    assert [one.resource_version for one in store.rows()] == [MOST_ROWS + 2]


def log_size(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size


def test_the_log_is_truncated_once_for_a_changed_secret(store: SqliteStore, path: Path) -> None:
    """As soon as nobody reads it. Other changes leave it alone, and a commit waits for no reader."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM meta").fetchall()
        keep(store, row("s", kind="secret"))
        assert log_size(path) > 0
        other.execute("COMMIT")
    keep(store, row("c"))
    assert log_size(path) == 0
    keep(store, row("d"))
    assert log_size(path) > 0
    assert store._connection.execute("PRAGMA busy_timeout").fetchone() == (5000,)


def test_a_log_that_cannot_be_truncated_fails_no_commit(store: SqliteStore, path: Path) -> None:
    """It is tried again at the next one."""
    fail(store, "PRAGMA wal_checkpoint", IO_ERROR)
    keep(store, row("s", kind="secret"))
    assert log_size(path) > 0
    assert store._connection.execute("PRAGMA busy_timeout").fetchone() == (5000,)
    heal(store)
    keep(store, row("c"))
    assert log_size(path) == 0


def test_room_for_deletions_is_the_reserve_and_the_log(store: SqliteStore, path: Path) -> None:
    """Made once, and reserved again by the next commit."""
    keep(store, row("c"))
    assert log_size(path) > 0
    assert store.make_room()
    assert log_size(path) == 0
    assert not store.make_room()
    keep(store, row("d"))
    assert store.make_room()


def test_of_free_pages_some_stay_for_later_rows(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure to shrink is no failure of the commit."""
    monkeypatch.setattr(sqlite_store, "COMMITS_BETWEEN_LOOKS", 1)

    def free(*, number: int) -> int:
        keep(store, row("big", value="x" * 4096 * number))
        store.delete("default/configmap/big")
        store.commit()
        (pages,) = store._connection.execute("PRAGMA freelist_count").fetchone()
        return int(pages)

    assert free(number=2 * SPARE_PAGES + SPARE_PAGES // 2) == SPARE_PAGES
    assert free(number=SPARE_PAGES + SPARE_PAGES // 2) > SPARE_PAGES
    fail(store, "PRAGMA freelist_count", IO_ERROR)
    assert free(number=3 * SPARE_PAGES) > 2 * SPARE_PAGES


def test_rows_of_a_damaged_database_are_durable_before_the_next_change(path: Path) -> None:
    """Only objects: a text that is no JSON may be half of one."""
    with closing(SqliteStore(path)) as store:
        keep(store, row(value='{"metadata":{"name":"a"}}'), row("half", value='{"metadata":{"name":"half"},"data":'))
    damage.mark(path)
    SqliteStore(path).close()
    with closing(SqliteStore(path)) as store:
        assert [one.name for one in store.rows()] == ["a"]


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (MALFORMED, "database disk image is malformed; move the file away"),
        (sqlite3.OperationalError("database is locked"), "is a second edgecore running"),
        (sqlite3.OperationalError("database or disk is full"), "free some disk space"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "see the owner and the mode"),
        (IO_ERROR, "disk I/O error"),
        (sqlite3.OperationalError("Could not decode to UTF-8 column 'value' with text 'hunter2'"), "is not text; move"),
        (UnicodeDecodeError("utf-8", b"hunter2\xff", 7, 8, "invalid start byte"), "is not text; move"),
    ],
)
def test_the_reason_has_its_remedy_and_no_value(error: Exception, remedy: str) -> None:
    assert remedy in reason_of(error)
    assert "hunter2" not in reason_of(error)
