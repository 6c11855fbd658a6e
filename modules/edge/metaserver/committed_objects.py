"""The objects in the node's database, read beside metamanager without its help."""

import sqlite3
from pathlib import Path
from typing import Final

from modules.apimachinery.errors import ApiStatusError
from modules.edge.metaserver.watch_cache import CacheKey
from modules.edge.metaserver.watch_cache_store import object_of, served_tokens

_BUSY_SECONDS: Final = 2.0
_CACHE_KIB: Final = 64


class CommittedObjects:
    """Reads an SQLite database read-only, while metamanager writes it: with a write-ahead log neither waits.

    Args:
        path: the database; one that does not exist has no objects.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._seen: tuple[int, ...] = ()

    def read_if_changed(self) -> dict[CacheKey, bytes] | None:
        """Return all served objects; None if nothing was committed since the last call.

        Raises:
            ApiStatusError: 503; the database cannot be read.
        """
        try:
            state, connection = self._state()
            if connection is not None and state == self._seen:
                return None
            rows = _rows(connection) if connection is not None else {}
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            self.close()
            reason = "what is stored as text is none" if "decode" in str(error) else str(error)
            raise ApiStatusError(503, f"the node's store cannot be read: {self._path}: {reason}") from error
        self._seen = state
        return rows

    def close(self) -> None:
        """Close the database."""
        connection, self._connection, self._seen = self._connection, None, ()
        if connection is not None:
            connection.close()

    def _state(self) -> tuple[tuple[int, ...], sqlite3.Connection | None]:
        """Return numbers that change with each commit and when the file is replaced, and the open database; None
        without a file.
        """
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self.close()
            return (), None
        connection = self._connection
        if connection is None or self._seen[:2] != (found.st_dev, found.st_ino):
            self.close()
            connection = self._connection = _connect(self._path)
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        return (found.st_dev, found.st_ino, version), connection


def _rows(connection: sqlite3.Connection) -> dict[CacheKey, bytes]:
    found: dict[CacheKey, bytes] = {}
    for token in served_tokens():
        for (value,) in connection.execute("SELECT value FROM meta WHERE type = ?", (token,)):
            entry = object_of(token, str(value).encode())
            if entry is not None:
                found[entry[0]] = entry[1]
    return found


def _connect(path: Path) -> sqlite3.Connection:
    """Open the database; the caller makes sure that one thread at a time uses it."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, check_same_thread=False)
    connection.execute("PRAGMA query_only=ON")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    return connection
