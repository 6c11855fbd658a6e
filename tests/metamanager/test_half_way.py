"""What an attempt to open the store has left when a call fails half-way."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from beehive.errors import StartError
from beehive.testing import Harness
from metamanager import damage, sqlite_migrations, sqlite_store
from metamanager.errors import StoreDamagedError
from metamanager.module import MetaManager, MetaSettings
from metamanager.sqlite_migrations import migrate
from metamanager.sqlite_open import BUSY_MILLISECONDS, open_file
from metamanager.sqlite_store import SqliteStore
from metamanager.store import Store
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call


def test_a_file_that_cannot_be_made_private_is_closed(path: Path) -> None:

    def make(failing: Failing) -> Attempt:
        def run() -> None:
            path.touch()
            path.chmod(0o644)
            with failing.kernel_calls():
                open_file(path).close()

        return Attempt(run)

    assert fail_at_each_call(make) >= 3


def test_a_step_that_fails_for_any_reason_is_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the connection would hold the file against everybody else."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection, monkeypatch.context() as patched:
        first, *others = sqlite_migrations._STEPS

        def fails(there: sqlite3.Connection) -> None:
            first(there)
            raise PlannedError

        patched.setattr(sqlite_migrations, "_STEPS", (fails, *others))
        with pytest.raises(PlannedError):
            migrate(connection, "memory")
        assert not connection.in_transaction
        patched.undo()
        migrate(connection, "memory")


def test_after_a_failed_truncation_of_the_log_others_are_waited_for_as_before(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "edgecore.db")) as store:

        def refuse(_action: int, name: str | None, *_others: str | None) -> int:
            return sqlite3.SQLITE_DENY if name == "wal_checkpoint" else sqlite3.SQLITE_OK

        store._connection.set_authorizer(refuse)
        store.make_room()
        store._connection.set_authorizer(None)
        assert store._connection.execute("PRAGMA busy_timeout").fetchone() == (BUSY_MILLISECONDS,)


def test_a_store_that_is_damaged_once_more_is_closed_too() -> None:
    """The next start sets its file aside; an open one would be locked."""
    opened, closed = list[str](), list[str]()

    class Damaged:
        """A store whose events cannot be read."""

        def __getattr__(self, name: str) -> Any:
            if name == "close":
                return lambda: closed.append("closed")
            raise StoreDamagedError("read the database", "f")

    def open_store(source: str) -> Store:
        opened.append(source)
        return cast("Store", Damaged())

    with Harness() as bee:
        bee.add(MetaManager, MetaSettings("f"), open_store)
        with pytest.raises(StartError, match="read the database"):
            bee.start()
        assert (len(opened), len(closed)) == (2, 2)


def test_a_database_that_cannot_be_saved_is_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the damaged one nor the new one stays open; the next attempt copies the rows again."""
    open_file(path).close()
    with monkeypatch.context() as patched:
        patched.setattr(damage, "_sound_rows", Failing(0, MemoryError("of this test")).call(print))
        before = census()
        with pytest.raises(MemoryError, match="of this test"):
            damage.readable_rows(path)
        assert not census().more_than(before)
    damage.mark(path)
    monkeypatch.setattr(damage, "readable_rows", lambda _: [None])
    monkeypatch.setattr(sqlite_store, "statement", Failing(0, MemoryError("of this test")).call(print))
    with pytest.raises(MemoryError, match="of this test"):
        SqliteStore(path)
    assert not census().more_than(before)
