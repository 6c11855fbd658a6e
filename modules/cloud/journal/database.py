"""The database of the journals, beside the tables of objects."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from sqlalchemy import Connection, MetaData
from sqlalchemy.exc import SQLAlchemyError

from beehive.turns import Turns
from modules.cloud.storage.database import IN_MEMORY
from modules.cloud.storage.database.engine import make_engine, shown, url_of
from modules.cloud.storage.database.errors import DatabaseError

_TURN_SECONDS: Final = 60.0

T = TypeVar("T")

tables: Final = MetaData()


class JournalDatabase:
    """The transactions of the journals. For one thread.

    Args:
        url: the database of cloudcore; several cloudcores may share it.
        turn: held during each transaction by all users of the database in this process.

    Raises:
        DatabaseError: the database cannot be opened, or the tables cannot be made.
    """

    def __init__(self, url: str, turn: Turns) -> None:
        self._turn = turn
        parsed = url_of(url)
        self._where = shown(parsed)
        self.is_in_memory = url == IN_MEMORY
        """Whether the database ends with the process."""
        self._engine = make_engine(parsed)
        with suppress(DatabaseError):  # another cloudcore may be making the tables
            self.run("make the tables of the journals", tables.create_all)
            return
        self.run("make the tables of the journals", tables.create_all)

    def close(self) -> None:
        """Close all connections to the database."""
        self._engine.dispose()

    def run(self, attempt: str, work: Callable[[Connection], T]) -> T:
        """Do work in a transaction, and return its result.

        Raises:
            DatabaseError: nothing was stored, or read.
        """
        if not self._turn.acquire(timeout=_TURN_SECONDS):
            raise DatabaseError(attempt, self._where, "another module's transaction does not end")
        try:
            with self._engine.begin() as connection:
                return work(connection)
        except (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error) as error:
            reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
            raise DatabaseError(attempt, self._where, reason) from error
        finally:
            self._turn.release()
