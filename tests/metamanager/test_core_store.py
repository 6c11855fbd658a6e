"""The store on a server: what was changed before a failure is never taken for durable, and the next call reconnects."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from metamanager.core_store import CoreStore
from metamanager.errors import StoreError, StoreOpenError, StoreWriteError
from metamanager.rows import Row
from tests.metamanager.support import keep
from tests.support.descriptors import open_descriptors
from tests.support.postgresql import PrivatePostgresql, needs_postgresql

A, B = (Row(f"default/pod/{name}", "pod", name, "u", 1, "default", name, 0) for name in "ab")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CoreStore]:
    """A store with one row."""
    store = CoreStore(f"sqlite:///{tmp_path}/edgecore.db")
    keep(store, A)
    yield store
    store.close()


def execute(store: CoreStore, statement: str) -> None:
    store._connection.execute(sa.text(statement))


def test_a_row_is_read_as_it_was_written(store: CoreStore) -> None:
    """Columns that KubeEdge leaves NULL are empty."""
    execute(store, "INSERT INTO meta (key, type, value) VALUES ('null/x/y', NULL, NULL)")
    assert list(store.rows()) == [A, Row("null/x/y", "", "")]


def test_what_was_changed_before_a_failed_read_is_not_committed(store: CoreStore) -> None:
    """The server has dropped it with the transaction: no commit succeeds until the changes are known to be lost."""
    store.put(B)
    execute(store, "ALTER TABLE meta RENAME TO elsewhere")
    with pytest.raises(StoreError):
        store.get(B.key)
    assert (store.get(A.key), store.get(B.key)) == ("a", None)
    execute(store, "ALTER TABLE meta RENAME TO elsewhere")
    with pytest.raises(StoreError):
        store.get_all("pod")
    execute(store, "ALTER TABLE elsewhere RENAME TO meta")
    for _ in range(3):
        with pytest.raises(StoreWriteError) as caught:
            store.commit()
        assert caught.value.batch_lost
        assert len(caught.traceback) == 2, "it keeps no frames of earlier times"
    store.rollback()
    assert store.put(B)
    store.commit()
    store.rollback()
    assert store.get_all("pod") == ["a", "b"]


@pytest.mark.parametrize("end", ["rollback", "commit"])
def test_a_failed_read_without_changes_fails_no_later_change(store: CoreStore, end: str) -> None:
    """Changes that were rolled back before it are known to be lost, and committed ones are safe."""
    store.put(B)
    getattr(store, end)()
    execute(store, "ALTER TABLE meta RENAME TO elsewhere")
    with pytest.raises(StoreError):
        next(store.rows())
    execute(store, "ALTER TABLE elsewhere RENAME TO meta")
    keep(store, B)
    assert store.get_all("pod") == ["a", "b"]


@pytest.mark.parametrize("call", ["put", "delete", "delete_owned"])
def test_a_refused_change_takes_all_since_the_last_commit_with_it(store: CoreStore, call: str) -> None:
    """And says so, so that none of them is acknowledged. The error has no values, which may be secrets."""
    store.put(B)
    execute(store, "ALTER TABLE meta RENAME TO elsewhere")
    execute(store, "CREATE VIEW meta AS SELECT * FROM elsewhere")
    calls: dict[str, Callable[[], object]] = {
        "put": lambda: store.put(Row("default/secret/s", "secret", "a-secret", "v", 1)),
        "delete": lambda: store.delete(A.key, "u"),
        "delete_owned": lambda: store.delete_owned("pod", "u"),
    }
    with pytest.raises(StoreWriteError, match="meta") as caught:
        calls[call]()
    assert caught.value.batch_lost
    assert "a-secret" not in f"{caught.value} {caught.value.__cause__}", "a traceback has the cause, too"
    store.commit()
    assert store.get_all("pod") == ["a"]


@pytest.mark.parametrize("statement", ["UPDATE edgecore_schema SET version = 99", "DROP TABLE edgecore_schema"])
def test_a_database_that_cannot_be_used_is_not_kept_open(tmp_path: Path, statement: str) -> None:
    """The module is started again and again until it can be."""
    url = f"sqlite:///{tmp_path}/edgecore.db"
    CoreStore(url).close()
    with closing(sqlite3.connect(tmp_path / "edgecore.db")) as connection:
        connection.execute(statement)
        connection.execute("CREATE VIEW IF NOT EXISTS edgecore_schema AS SELECT 99 AS version")
        connection.commit()
    before = open_descriptors()
    with pytest.raises(StoreOpenError) as caught:
        CoreStore(url)
    assert caught.value  # and with it what it refers to
    assert open_descriptors() <= before


@pytest.mark.parametrize("url", ["postgresql+psycopg://u:geheim@h:x/y", "postgresql+psycopg://h/x?no=geheim"])
@needs_postgresql
def test_the_error_of_a_url_does_not_show_its_password(url: str) -> None:
    with pytest.raises(StoreOpenError) as caught:
        CoreStore(url)
    assert "geheim" not in str(caught.value)


@needs_postgresql
def test_a_node_whose_server_was_restarted_loses_no_acknowledged_change_and_reads_again() -> None:
    with PrivatePostgresql() as server:
        store = CoreStore(server.url.replace("postgresql", "postgresql+psycopg", 1))
        keep(store, A)
        store.get(A.key)
        end_connections(server)
        with pytest.raises(StoreError):
            store.get(A.key)
        assert store.get(A.key) == "a"
        store.put(B)
        with pytest.raises(sa.exc.DataError):
            execute(store, "SELECT 1 / 0")
        with pytest.raises(StoreError):
            store.get(A.key)
        with pytest.raises(StoreWriteError):
            store.commit()
        store.rollback()
        store.put(B)
        end_connections(server)
        with pytest.raises(StoreWriteError):
            store.commit()
        assert store.get_all("pod") == ["a"]
        store.close()


def end_connections(server: PrivatePostgresql) -> None:
    """As a restart of the server does."""
    engine = sa.create_engine(server.url.replace("postgresql", "postgresql+psycopg", 1))
    with engine.connect() as connection:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname <> ''"
        connection.execute(sa.text(ended))
    engine.dispose()
