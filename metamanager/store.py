"""The database of what the node must know, as the module sees it.

Changes are made in a transaction that opens with the first of them and ends with `commit`; until then nobody may be
told of them. One connection, used on one thread.

Two things stand behind it: `metamanager.sqlite_store` for a file, which is what nodes have, and
`metamanager.core_store` for any other database that SQLAlchemy has a dialect and a driver for. A later part that keeps
other tables (an outbox, a history) shares the connection and the transaction, and has its own class beside this one.
"""

from pathlib import Path
from typing import Protocol

from metamanager.errors import StoreOpenError
from metamanager.rows import UNNOTED, Cause, Row
from metamanager.sqlite_store import SqliteStore

_SQLITE = "sqlite:///"


class Store(Protocol):
    """What both kinds can do. Everything that changes raises `StoreWriteError`, everything that reads `StoreError`."""

    def get(self, key: str) -> str | None:
        """The value under a key; None when there is none."""

    def get_all(self, kind: str, namespace: str | None = None) -> list[str]:
        """The values of a type, of one namespace or of all, in the order of their keys."""

    def put(self, row: Row) -> bool:
        """Insert or replace. False when what is stored is a newer state of the same object: nothing is changed. Nor is
        it when that very state is stored, which is True.
        """

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:
        """Delete the row if it is of that uid (empty: of any). Whether there was one. The last two are for the history,
        where there is one.
        """

    def delete_owned(self, kind: str, uid: str) -> int:
        """Delete the rows of a type that carry a uid. How many there were."""

    def commit(self) -> None:
        """Make all changes since the last commit durable: once it returns they survive a loss of power."""

    def make_room(self) -> bool:
        """Give up what is kept free on the disk for deletions; whether there was some. It is kept free again after a
        commit, when there is room. Never raises.
        """

    def rollback(self) -> None:
        """Undo all changes since the last commit. Never raises."""

    def close(self) -> None:
        """Give up the connection; what was not committed is lost. Never raises."""


def open_store(source: str) -> Store:
    """Open a database, make or migrate its tables.

    Args:
        source: path of an SQLite file, or a URL as SQLAlchemy takes it. It may hold a password and is never quoted
            but for a path.

    Raises:
        StoreOpenError: it cannot be opened; says why and what to do.
    """
    path = sqlite_path(source)
    if path is not None:
        return SqliteStore(path)
    from metamanager.core_store import CoreStore  # noqa: PLC0415 - it loads SQLAlchemy, see metamanager.schema

    return CoreStore(source)


def sqlite_path(source: str) -> Path | None:
    """The file that a source names, None when it names another database.

    Raises:
        StoreOpenError: it is empty, or an SQLite URL with more than a path.
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
