"""Reads the node's database while the agent may be writing it."""

import argparse
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from beehive.errors import BeehiveError
from beehive.names import ResourceType
from beehive.printable import printable
from metamanager.store import sqlite_path
from modules.processes.edgecore.location import load_node

KINDS: Final = frozenset((*(str(each) for each in ResourceType), "store"))
"""Kinds that a node can have; others have an empty list."""

_SHORT: Final = {"po": "pod", "cm": "configmap", "no": "node", "svc": "service", "ev": "event", "ep": "endpoints"}
_BUSY_SECONDS: Final = 5.0


class StoreReadError(BeehiveError):
    """The database cannot be read, or lacks the object."""


class StoredObject(msgspec.Struct, frozen=True):
    """One stored object."""

    key: str
    kind: str
    value: str
    resource_version: int
    updated: int
    """Milliseconds since the epoch; 0 if unknown."""


class HistoryRow(msgspec.Struct, frozen=True):
    """A change of an object, see `metamanager.history`."""

    id: int
    key: str
    at: int
    """Milliseconds since the epoch."""
    cause: str
    message: str
    uid: str
    resource_version: int
    size: int | None
    """Characters of the new state; None for a deletion."""
    value: str | None
    """The new state; None if it is not kept."""


class StoreReader:
    """Queries of the node's database.

    SQLite's write-ahead log lets it read beside the agent, and neither waits. The file is opened read-only. A database
    of another program, or of an earlier edgecore without a history, is read as far as possible.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path

    def objects(self, kind: str = "", namespace: str = "") -> list[StoredObject]:
        """Return the stored objects in the order of their keys; empty arguments mean all. Rows of the store itself are
        returned only for their kind.
        """
        rows = self._connection.execute(
            "SELECT key, type, value, coalesce(resource_version, 0), coalesce(updated, 0) FROM meta WHERE "
            "(type = :kind OR :kind = '' AND type <> 'store') AND (namespace = :namespace OR :namespace = '') "
            "ORDER BY key",
            {"kind": kind, "namespace": namespace},
        )
        return [StoredObject(*row) for row in rows]

    def kinds(self) -> list[str]:
        """Return the kinds that have objects."""
        rows = self._connection.execute("SELECT DISTINCT type FROM meta WHERE type <> 'store' ORDER BY type")
        return [str(row[0]) for row in rows]

    def kind_called(self, word: str) -> str:
        """Return the kind that a user means: `pod`, `pods`, `po`, `Pod`.

        Raises:
            StoreReadError: there is no object of such a kind, and no node can have one.
        """
        there = self.kinds()
        lower = word.lower()
        for kind in (word, lower, _SHORT.get(lower, lower), lower.removesuffix("s")):
            if kind in there or kind in KINDS:
                return kind
        hint = f"there are: {', '.join(printable(each) for each in there) or 'no objects'}"
        raise StoreReadError("there is no such kind", word, hint)

    def get(self, key: str) -> StoredObject:
        """Return one object. Raises StoreReadError if it does not exist."""
        row = self._connection.execute(
            "SELECT key, type, value, coalesce(resource_version, 0), coalesce(updated, 0) FROM meta WHERE key = ?",
            (key,),
        ).fetchone()
        if row is None:
            raise StoreReadError("get an object", key, "it is not in the store; `edgecore store list` shows what is")
        return StoredObject(*row)

    def changes(self, key: str = "") -> list[HistoryRow]:
        """Return the changes of one object, or of all, oldest first. Raises StoreReadError for a file without a
        history.
        """
        try:
            rows = self._connection.execute(
                "SELECT id, key, at, cause, message, coalesce(uid, ''), coalesce(resource_version, 0), size, value "
                "FROM edgecore_history WHERE key = :key OR :key = '' ORDER BY id",
                {"key": key},
            ).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            hint = "it was made by KubeEdge or an earlier edgecore; the next start of this one begins a history"
            raise StoreReadError("read the history", str(self.path), hint) from error
        return [HistoryRow(*row) for row in rows]


@contextmanager
def opened(chosen: argparse.Namespace) -> Iterator[StoreReader]:
    """Open the database that the arguments select.

    Raises:
        StoreReadError: the database cannot be read.
        ConfigError: the configuration with its path is wrong.
    """
    path = _path(chosen)
    if not path.is_file():
        hint = "has edgecore run here? --config, --root or --database say which database is meant"
        raise StoreReadError("open the database", str(path), hint)
    with reading(path) as reader:
        yield reader


@contextmanager
def reading(path: Path) -> Iterator[StoreReader]:
    """Open a database that exists. Raises StoreReadError."""
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as connection:
            connection.execute("PRAGMA query_only=ON")
            yield StoreReader(connection, path)
    except sqlite3.Error as error:
        raise StoreReadError("read the database", str(path), f"{_reason(error)}; is it the owner who asks?") from error


def _path(chosen: argparse.Namespace) -> Path:
    if chosen.database:
        return Path(chosen.database)
    path = sqlite_path(str(load_node(chosen).config.database_url))
    if path is None:
        raise StoreReadError("open the database", "it is no SQLite file", "ask its own server, table meta")
    return path


def _reason(error: sqlite3.Error) -> str:
    """Return the error without Python's quote of undecodable text."""
    return "a value stored as text is not text" if "Could not decode" in str(error) else str(error)
