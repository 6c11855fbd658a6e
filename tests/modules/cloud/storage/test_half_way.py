"""What is left of a database's calls that fail half-way."""

import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from beehive.files.reserve import Reserve
from beehive.trace_context import own_context
from beehive.turns import Turns
from modules.cloud.storage import transactions
from modules.cloud.storage.database.database import Database, RemoteChanges
from modules.cloud.storage.database.engine import make_engine, truncate_log, url_of
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.database.kept_copy import keep_copy
from modules.cloud.storage.database.listener import DatabaseListener
from modules.cloud.storage.database.room import Room
from modules.cloud.storage.database.rows import Statement
from modules.cloud.storage.database.tables import state
from modules.cloud.storage.object_sync import Holder
from tests.modules.cloud.storage.test_transactions import SYNC, Core
from tests.support.descriptors import open_descriptors
from tests.support.failing import Attempt, Failing, PlannedError, fail_at_each_call, fail_at_each_kernel_call


def test_a_database_that_cannot_be_used_is_closed(tmp_path: Path) -> None:
    """The file would stay open, and locked, while cloudcore tries again."""
    path = tmp_path / "db"
    Database(str(path), "one").close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE cluster_state SET schema_version = 99")
    with pytest.raises(DatabaseError, match="version 99") as caught:
        Database(str(path), "one")
    assert not [target for _, target in open_descriptors() if target.startswith(str(path))]
    assert caught.value is not None, "what the error holds is not collected before"


def test_a_database_that_cannot_be_reached_lets_others_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another module of the process would wait a minute for its turn."""
    turns = Turns()
    database = Database(str(tmp_path / "db"), "one", turn=turns)
    failing = Failing(0, sqlite3.OperationalError("unable to open database file"))
    monkeypatch.setattr(database, "_connect", failing.call(database._connect))
    with pytest.raises(DatabaseError, match="unable to open"):
        database.begin()
    assert not turns.locked()
    database.begin()
    database.close()


def test_a_commit_that_fails_unforeseen_lets_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next transaction would begin within this one, with its changes, and other modules would wait for a turn."""
    turns = Turns()
    database = Database(str(tmp_path / "db"), "one", turn=turns)
    database.begin()
    database.put_object_sync("n1", "u1", SYNC)
    monkeypatch.setattr(database, "_write_durably", Failing(0, MemoryError()).call(print))
    with pytest.raises(MemoryError):
        database.commit(1)
    assert (turns.locked(), database.in_transaction, bool(database._transaction)) == (False, False, False)
    database.close()


def test_a_transaction_whose_end_fails_unforeseen_lets_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each further transaction of the process would wait a minute for its turn, and then fail."""
    turns = Turns()
    database = Database(str(tmp_path / "db"), "one", turn=turns)
    for ended in (database.abandon, database.close):
        database.begin()
        with monkeypatch.context() as patched:
            patched.setattr(Connection, "in_transaction", Failing(0, MemoryError()).call(print))
            with pytest.raises(MemoryError):
                ended()
        assert not turns.locked()
        assert database._kept is None, "its transaction may not have ended"
        with closing(sqlite3.connect(tmp_path / "db", timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
    database.close()


def test_a_file_that_cannot_be_made_private_is_closed(tmp_path: Path) -> None:
    make_engine(url_of(str(tmp_path / "db"))).dispose()  # imports its driver
    assert fail_at_each_kernel_call(lambda: make_engine(url_of(str(tmp_path / "db"))).dispose()) >= 2


class _Driver:
    """A driver's connection and cursor, one of whose calls fails."""

    def __init__(self, failing: Failing) -> None:
        self._failing = failing
        self.calls: list[str] = []

    def execute(self, text: str) -> Any:
        """Execute a statement, or fail."""
        self.calls.append(text)
        if "wal_checkpoint" in text:
            self._failing.step()
        return self

    def fetchone(self) -> tuple[int, int, int]:
        """Return the answer of a checkpoint."""
        return 0, 0, 0

    def cursor(self) -> "_Driver":
        """Return itself."""
        return self

    def executemany(self, _text: str, _parameters: object) -> None:
        """Fail."""
        self._failing.step()

    def close(self) -> None:
        """Note it."""
        self.calls.append("closed")


def _connection(driver: _Driver) -> Connection:
    return cast("Connection", SimpleNamespace(connection=SimpleNamespace(driver_connection=driver)))


@pytest.mark.parametrize("at", [None, 0])
def test_a_database_waits_for_its_lock_again_after_a_log_that_could_not_be_truncated(at: int | None) -> None:
    """Otherwise the next transaction would fail while another cloudcore writes."""
    driver = _Driver(Failing(at, sqlite3.OperationalError("disk I/O error")))
    assert truncate_log(_connection(driver)) == (at is None)
    assert driver.calls[0] == "PRAGMA busy_timeout=0"
    assert driver.calls[-1].startswith("PRAGMA busy_timeout=")
    assert driver.calls[-1] != driver.calls[0]


def test_a_reserve_that_is_not_there_is_not_given_up(tmp_path: Path) -> None:
    """Changes would be refused for the want of it although there is room."""
    room = Room(tmp_path / "db")
    assert (room.give(), room.is_short) == (False, False)
    room.fill()
    assert (room.give(), room.is_short) == (True, True)
    assert (room.give(), room.is_short) == (False, True)
    assert (room.fill(), room.is_short) == (True, False)


def test_a_shortage_lasts_until_the_reserve_is_there_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not until the first attempt to make it, for which there may be no room."""
    room = Room(tmp_path / "db")
    room.fill()
    assert room.give()
    with monkeypatch.context() as full:
        full.setattr(Reserve, "fill", lambda _reserve: None)
        assert (room.fill(), room.is_short) == (False, True)
    assert (room.fill(), room.is_short) == (True, False)


@pytest.mark.parametrize(("state_of_sql", "is_full"), [("53100", True), ("53200", False), (None, False)])
def test_a_full_disk_of_postgresql_is_known_by_its_state(state_of_sql: str | None, *, is_full: bool) -> None:
    """A transaction that it has refused is undone, and cloudcore goes on."""
    error = Exception("could not extend file")
    error.sqlstate = state_of_sql  # type: ignore[attr-defined]
    assert Room().is_full(error) == is_full


def test_a_connection_that_has_listened_is_nobody_elses() -> None:
    """It gets notifications, and commits each statement."""
    calls: list[str] = []
    connection = SimpleNamespace(invalidate=lambda: calls.append("invalidated"), close=lambda: calls.append("closed"))
    DatabaseListener.on_end(cast("Any", SimpleNamespace(_connection=connection)))
    assert calls == ["invalidated", "closed"]


def test_the_cursor_of_a_statement_that_fails_is_closed() -> None:
    driver = _Driver(Failing(0))
    with pytest.raises(PlannedError):
        Statement(state.insert(), SQLiteDialect_pysqlite()).execute(driver, [])
    assert driver.calls == ["closed"]


def test_claims_that_were_read_in_a_lost_transaction_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction is over with what it has seen; the next one takes the claim of another cloudcore over."""
    one, other = Core(tmp_path / "db", "one"), Core(tmp_path / "db", "other")
    other.claim("n1")

    def work() -> None:
        one.database.put_object_sync("n1", "u1", SYNC)
        raise DatabaseError("read", "the database", "the disk has gone")

    with pytest.raises(DatabaseError):
        one.transactions.attempt(work, begins=False)
    assert one.done == []
    connection = one.database._driver
    one.transactions.abandon()
    one.turn(lambda: None)
    assert one.done == ["n1 is other's"]
    assert one.database._driver is not connection, "what is wrong may be the connection"
    for each in (one, other):
        each.database.close()


def test_a_copy_of_a_file_that_fails_leaves_neither_descriptor_nor_part(tmp_path: Path) -> None:
    """A schema is changed at a start; the next one copies the file again. The part would take the room of a full disk
    from the earlier cloudcore that goes on with the file.
    """
    engine = make_engine(url_of(str(tmp_path / "db")))
    with engine.connect() as connection:

        def attempt(failing: Failing) -> Attempt:
            copy = failing.in_kernel(lambda: keep_copy(connection, 1, "db"))
            return Attempt(copy, left=lambda: sorted(tmp_path.glob(".*")))

        assert fail_at_each_call(attempt) >= 4
        (tmp_path / "db").write_bytes(b"no database" * 1000)
        before = open_descriptors()
        with pytest.raises(DatabaseError, match="not a database"):
            keep_copy(connection, 1, "db")
        assert open_descriptors() <= before
    engine.dispose()


def test_changes_that_could_not_be_taken_over_come_with_the_next_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once: what they have led to had begun a transaction, which is lost with the same fault."""
    one, other = Core(tmp_path / "db", "one"), Core(tmp_path / "db", "other")
    other.claim("n1")
    news = RemoteChanges([], one.mirror.version, sessions=[("n2", Holder("other", 1))])
    monkeypatch.setattr(one.database, "changes_elsewhere", lambda _reader: news)

    calls: list[object] = []

    def claimed(claims: object) -> None:
        calls.append(claims)
        one.database.put_object_sync("n2", "u1", SYNC)
        raise DatabaseError("read", "the database", "the disk has gone")

    with monkeypatch.context() as failing:
        failing.setattr(one, "nodes_claimed", claimed)
        with pytest.raises(DatabaseError):
            one.transactions.adopt()
    assert len(calls) == 1
    one.transactions.abandon()
    assert not one.transactions.is_under_way
    one.turn(lambda: None)
    assert one.done == ["n1 is other's"]
    for each in (one, other):
        each.database.close()


def test_a_transaction_whose_calls_fail_after_it_leaves_the_cause_of_others_alone(tmp_path: Path) -> None:
    """Later messages of the module would have the trace of the one that failed."""
    core, context = Core(tmp_path / "db", "one"), own_context()
    before, (context.span, context.trace) = (context.span, context.trace), (7, 7)
    core.transactions.after_commit(Failing(0).step)
    context.span, context.trace = before
    with pytest.raises(PlannedError):
        core.transactions.commit()
    assert (context.span, context.trace) == before
    core.turn(lambda: None)
    core.database.close()


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_long_transaction_is_not_the_next_ones_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_lost: bool
) -> None:
    """Each message would then have a transaction, and wait for the disk, of its own."""
    monkeypatch.setattr(transactions, "_MANY", 4)
    core = Core(tmp_path / "db", "one")

    def work() -> None:
        core.database.put_object_sync("n1", "u1", SYNC)
        core.transactions.after_commit(lambda: None)

    for _ in range(2):
        lengths: list[bool] = []
        for _ in range(2):
            core.transactions.attempt(work)
            lengths.append(core.transactions.is_long)
        assert lengths == [False, True]
        core.transactions.abandon() if is_lost else core.transactions.commit()
    core.database.close()
