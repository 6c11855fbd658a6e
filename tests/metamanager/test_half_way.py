"""What an attempt to open the store has left when a call fails half-way."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from metamanager import sqlite_migrations
from metamanager.sqlite_migrations import migrate
from metamanager.sqlite_open import BUSY_MILLISECONDS, open_file
from metamanager.sqlite_store import SqliteStore
from tests.support.failing import Attempt, Failing, PlannedError, fail_at_each_call


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
