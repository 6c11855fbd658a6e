"""The contract of the node's database, and the function that opens it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from metamanager.errors import StoreOpenError
from metamanager.rows import UNNOTED, Cause, Row
from metamanager.sqlite_store import SqliteStore

_SQLITE = "sqlite:///"


class Store(Protocol):
    """A table of objects by their keys, on one connection and one thread.

    The first change opens a transaction and `commit` ends it; nothing may be reported before. Methods that change raise
    `StoreWriteError`, methods that read raise `StoreError`. `metamanager.sqlite_store` implements it in a file, the
    usual case; `metamanager.core_store` in any other database with a dialect and a driver for SQLAlchemy.
    """

    def get(self, key: str) -> str | None:
        """Return the value of a key; None for an unknown key."""

    def get_all(self, kind: str, namespace: str | None = None) -> list[str]:
        """Return the values of a type, of one namespace or of all, in the order of their keys."""

    def rows(self) -> Iterator[Row]:
        """Yield all rows in the order of their keys; nothing may be changed meanwhile."""

    def put(self, row: Row) -> bool:
        """Insert or replace a row. Return False, without a change, if a newer state of the same object is stored; True
        otherwise, also if the same state is stored already.
        """

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:
        """Delete a row if it has the uid (empty: any), and return whether there was one.

        `cause` and `now_ms` (milliseconds since the Unix epoch) go into the history.
        """

    def delete_owned(self, kind: str, uid: str) -> int:
        """Delete the rows of a type and uid; return their number."""

    def commit(self) -> None:
        """Make all changes since the last commit durable; they survive a loss of power once it returns."""

    def make_room(self) -> bool:
        """Release the room reserved for deletions; return whether there was some. A later commit reserves it again.
        Never raises.
        """

    def rollback(self) -> None:
        """Undo all changes since the last commit. Never raises."""

    def close(self) -> None:
        """Close the connection; uncommitted changes are lost. Never raises."""


def open_store(source: str) -> Store:
    """Open a database; make or migrate its tables.

    Args:
        source: path of an SQLite file, or a URL of SQLAlchemy. Errors quote only a path, for a URL may hold a password.

    Raises:
        StoreOpenError: the database cannot be opened; the hint names the remedy.
    """
    path = sqlite_path(source)
    if path is not None:
        return SqliteStore(path)
    from metamanager.core_store import CoreStore  # noqa: PLC0415 - it loads SQLAlchemy

    return CoreStore(source)


def sqlite_path(source: str) -> Path | None:
    """Return the file of an SQLite source; None for another database.

    Raises:
        StoreOpenError: the source is empty, or an SQLite URL with more than a path.
    """
    if not source:
        raise StoreOpenError("open the database", "no source is given", "set dataBase.dataSource to a path or a URL")
    if "://" not in source:
        return Path(source)
    if not source.startswith("sqlite"):
        return None
    path = source.removeprefix(_SQLITE)
    if path == source or not path or "?" in path:
        hint = "for SQLite give a path, or sqlite:////absolute/path without parameters"
        raise StoreOpenError("open the database", "an SQLite URL of another form", hint)
    return Path(path)
