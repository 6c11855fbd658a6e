"""The beginning of a transaction, by the database's driver."""

from typing import Any

from sqlalchemy import Connection, Dialect, select
from sqlalchemy.exc import SQLAlchemyError

from modules.cloud.storage.database.tables import state

BEGIN = "BEGIN IMMEDIATE"
"""How a transaction of SQLite begins: with the only lock."""


class Beginning:
    """Takes the lock of the database and reads the state's row.

    The driver needs 0.02 ms of processor time for it, SQLAlchemy 0.2. A database in memory begins a transaction with
    its first use.

    Args:
        dialect: of SQLite or PostgreSQL.
    """

    def __init__(self, dialect: Dialect) -> None:
        query = select(state.c.revision, state.c.compacted).with_for_update()
        self._query = str(query.compile(dialect=dialect))
        self._begins_itself = dialect.name == "sqlite"
        self.errors: tuple[type[Exception], ...] = (SQLAlchemyError, dialect.loaded_dbapi.Error)
        """The error that `begin` raises."""

    def begin(self, connection: Connection) -> tuple[int, int]:
        """Begin a transaction, and return the revision and the last one of compacted deletions."""
        self.lock(connection)
        driver: Any = connection.connection.driver_connection
        revision, compacted = driver.execute(self._query).fetchone()
        return revision, compacted

    def lock(self, connection: Connection) -> None:
        """Begin a transaction of a database that no other process can have changed."""
        if self._begins_itself:
            driver: Any = connection.connection.driver_connection
            driver.execute(BEGIN)
