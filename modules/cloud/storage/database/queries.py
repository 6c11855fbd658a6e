"""Beginning transactions and reading rows, with SQL that is rendered once for each driver."""

from typing import Any, Final

from sqlalchemy import Connection, Dialect, Select, bindparam, select
from sqlalchemy.exc import SQLAlchemyError

from modules.cloud.storage.database.change_rows import KEPT
from modules.cloud.storage.database.tables import (
    changes,
    epochs,
    history,
    node_states,
    object_syncs,
    objects,
    sessions,
    state,
)

OBJECTS: Final = select(
    objects.c.kind, objects.c.namespace, objects.c.name, objects.c.revision, objects.c.body
).order_by(objects.c.revision)
"""The objects, in the order of their last changes; one without a body is deleted."""
BEGIN = "BEGIN IMMEDIATE"
"""How a transaction of SQLite begins: with the only lock."""


class Beginning:
    """The beginning of a transaction, which takes the lock of the database and reads the state's row.

    The driver needs 0.02 ms of processor time for it, SQLAlchemy 0.2. A database in memory begins a transaction with
    its first use.

    Args:
        dialect: of SQLite or PostgreSQL.
    """

    def __init__(self, dialect: Dialect) -> None:
        query = select(state.c.revision, state.c.compacted, state.c.schema_version)
        self._state = str(query.compile(dialect=dialect))
        self._query = str(query.with_for_update().compile(dialect=dialect))
        self._begins_itself = dialect.name == "sqlite"
        self.errors: tuple[type[Exception], ...] = (SQLAlchemyError, dialect.loaded_dbapi.Error)
        """The error that `begin` raises."""

    def begin(self, driver: Any) -> tuple[int, int, int]:
        """Begin a transaction of a driver's connection; return the revision, the last one of compacted deletions, and
        the schema.
        """
        self.lock(driver)
        revision, compacted, schema = driver.execute(self._query).fetchone()
        return revision, compacted, schema

    def begin_reading(self, connection: Connection) -> tuple[int, int, int]:
        """Let a connection to PostgreSQL see the database as it is now until its transaction ends, without the lock;
        return the same.
        """
        driver: Any = connection.connection.driver_connection
        driver.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        revision, compacted, schema = driver.execute(self._state).fetchone()
        return revision, compacted, schema

    def lock(self, driver: Any) -> None:
        """Begin a transaction of a database that no other process can have changed."""
        if self._begins_itself:
            driver.execute(BEGIN)


class Query:
    """A query as a database's driver takes it: SQLAlchemy takes ten times as long to find it in its cache.

    Args:
        query: with `bindparam`s only.
        dialect: of the database.
    """

    def __init__(self, query: Select[Any], dialect: Dialect) -> None:
        compiled = query.compile(dialect=dialect)
        self._text: Final = str(compiled)
        self._order: Final = compiled.positiontup
        """The names of the parameters, if the driver takes them by their places."""

    def rows(self, connection: Connection, **parameters: str | int) -> list[tuple[Any, ...]]:
        """Return the rows, in a transaction that has begun.

        Raises:
            Exception: the driver's own error.
        """
        driver: Any = connection.connection.driver_connection
        order = self._order
        given = parameters if order is None else tuple(map(parameters.__getitem__, order))
        rows: list[tuple[Any, ...]] = driver.execute(self._text, given).fetchall()
        return rows


class Queries:
    """The rows that each connection of a node reads, and what others have written after a revision, `seen`.

    Args:
        dialect: of the database.
    """

    def __init__(self, dialect: Dialect) -> None:
        syncs, states, claims = object_syncs.c, node_states.c, sessions.c
        of_node = select(syncs.uid, syncs.kind, syncs.namespace, syncs.name, syncs.version)
        self.object_syncs = Query(of_node.where(syncs.node == bindparam("node")), dialect)
        state = select(states.node_uid, states.epoch).where(states.node == bindparam("node"))
        self.node_state = Query(state, dialect)
        self.epoch = Query(select(epochs.c.epoch, epochs.c.newest), dialect)
        later = select(claims.node, claims.cloudcore, claims.connected_at, claims.connected_at_ms, claims.revision)
        self.claims = Query(later.where(claims.revision > bindparam("seen")), dialect)
        self.changes = Query(KEPT.where(changes.c.revision > bindparam("seen")), dialect)
        self.gaps = Query(select(history.c.kind).where(history.c.began > bindparam("seen")), dialect)
        """The kinds with changes that are not kept: the disk was full, or the history has grown too long."""
        self.objects = Query(OBJECTS.where(objects.c.revision > bindparam("seen")), dialect)
