"""Migrates a database file to the newest schema; `PRAGMA user_version` is its version.

A file of KubeEdge's edgecore has version 0, like an empty one. Its table `meta` is adopted with its rows, so that a
node can switch to this agent without a cloud. Each step and its new version are one transaction.

A node may change between the two agents, in both directions and more than once. KubeEdge knows only the columns `key`,
`type` and `value` and leaves the others empty or as they were, so that this agent would compare new states with the
versions of old ones. A table `meta_v2` shows that KubeEdge has used the file; it only has copies of the rows of `meta`,
for KubeEdge's metaserver.

KubeEdge's table `target_urls` has the URLs that the cloud allows applications to request. They are copied into a row,
which servicebus reads.
"""

import logging
import sqlite3
from collections.abc import Callable
from typing import Any, Final

import msgspec

from beehive.names import ResourceType
from beehive.on_failure import on_failure
from metamanager import statements as sql
from metamanager.client import COMPLETE
from metamanager.errors import StoreDamagedError, StoreOpenError
from metamanager.rows import Row, row_of
from metamanager.tokens import bound_uid

_IMPOSSIBLE = 10_000
_NOTE = "INSERT OR REPLACE INTO meta (key, type, value) VALUES ('null/store/complete', 'store', :value)"

_log = logging.getLogger(__name__)

_HAS_BEEN_KUBEEDGES: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta_v2'"
URLS_KEY: Final = f"null/{ResourceType.TARGET_URLS}/kubeedge"
MOST_URLS: Final = 1000
"""URLs that are copied, as many as servicebus takes."""
_HAS_URLS: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'target_urls'"
_URLS: Final = "SELECT url FROM target_urls WHERE length(url) <= 1024 ORDER BY url LIMIT ?"
_PUT: Final = "INSERT OR REPLACE INTO meta (key, type, value, namespace, name) VALUES (?, ?, ?, ?, ?)"
_ROWS: Final = "SELECT key, type, value, uid, resource_version, name FROM meta"
_FILL: Final = (
    "UPDATE meta SET uid = :uid, resource_version = :resource_version, namespace = :namespace, name = :name "
    "WHERE key = :key"
)


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Run the missing steps, and take over rows that KubeEdge has written since the last start.

    Raises:
        StoreOpenError: a newer edgecore has made the file.
        StoreDamagedError: the version is impossible.
        sqlite3.Error: a step failed; the file is as before that step.
    """
    version = _version(connection)
    if not 0 <= version < _IMPOSSIBLE:
        raise StoreDamagedError("open the database", path, f"its schema cannot have version {version}")
    if version > len(_STEPS):
        hint = f"its schema has version {version}, this edgecore knows {len(_STEPS)}; use the newer edgecore again"
        raise StoreOpenError("open the database", path, hint)
    while (version := _version(connection)) < len(_STEPS):
        connection.execute("BEGIN IMMEDIATE")
        with on_failure(connection.rollback):
            _STEPS[version](connection)
            connection.execute(f"PRAGMA user_version={version + 1}")
            connection.execute("COMMIT")
    fill_after_kubeedge(connection, path)
    copy_urls(connection, path)


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _make_or_adopt_meta(connection: sqlite3.Connection) -> None:
    """Version 1: table `meta` with the additional columns."""
    connection.execute(sql.CREATE_META)
    columns = {row[1] for row in connection.execute("PRAGMA table_info(meta)")}
    missing = [statement for column, statement in sql.ADDED_COLUMNS.items() if column not in columns]
    for statement in missing:
        connection.execute(statement)
    connection.execute(sql.CREATE_INDEX)
    if missing:
        fill_all(connection)


def _record_completeness(connection: sqlite3.Connection) -> None:
    """Version 2: note that a used file contains all pods of its node; a new one lacks the note (`client.COMPLETE`)."""
    if connection.execute("SELECT 1 FROM meta LIMIT 1").fetchone() is not None:
        connection.execute(_NOTE, {"value": msgspec.json.encode(COMPLETE).decode()})


def _make_history(connection: sqlite3.Connection) -> None:
    """Version 3: table `edgecore_history` with the last changes of each object."""
    connection.execute(sql.CREATE_HISTORY)
    connection.execute(sql.CREATE_HISTORY_INDEX)


_STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _make_or_adopt_meta,
    _record_completeness,
    _make_history,
)
"""Step n migrates version n to n + 1. Never change a released step."""

NEWEST: Final = len(_STEPS)
"""The version of the schema that this edgecore uses."""


def fill_all(connection: sqlite3.Connection) -> None:
    """Fill this agent's columns of every row from the row's value, in the caller's transaction."""
    connection.executemany(_FILL, _changes(connection))


def fill_after_kubeedge(connection: sqlite3.Connection, path: str) -> None:
    """Do the same in a transaction of its own, if KubeEdge has used the file.

    If the file cannot be written now (a full disk), the node starts nevertheless, and the next start tries again.

    Args:
        connection: to the file.
        path: of the file, for the log.

    Raises:
        sqlite3.Error: the rows cannot be read.
    """
    if connection.execute(_HAS_BEEN_KUBEEDGES).fetchone() is None:
        return
    changes = _changes(connection)
    if not changes:
        return
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_FILL, changes)
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        connection.rollback()
        text = "database %s: the versions of %d objects that KubeEdge has written could not be noted (%s)"
        _log.warning(text, path, len(changes), error)


def copy_urls(connection: sqlite3.Connection, path: str) -> None:
    """Copy KubeEdge's table of URLs into the row `URLS_KEY`, if it has changed.

    If the file cannot be written now (a full disk), the node starts nevertheless, and the next start tries again.

    Args:
        connection: to the file.
        path: of the file, for the log.

    Raises:
        sqlite3.Error: the rows cannot be read.
    """
    if connection.execute(_HAS_URLS).fetchone() is None:
        return
    urls = [url for (url,) in connection.execute(_URLS, (MOST_URLS,)) if isinstance(url, str)]
    value = msgspec.json.encode({"urls": urls}).decode()
    stored = connection.execute("SELECT value FROM meta WHERE key = ?", (URLS_KEY,)).fetchone()
    if value == stored[0] if stored is not None else not urls:
        return
    row = row_of(URLS_KEY, value.encode(), 0)
    try:
        connection.execute(_PUT, (row.key, row.type, row.value, row.namespace, row.name))
    except sqlite3.OperationalError as error:
        _log.warning("database %s: the URLs that KubeEdge has stored could not be copied (%s)", path, error)


def _changes(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return the required changes; only one value is in memory at any moment."""
    return [change for row in connection.execute(_ROWS) if (change := _change_of(*row)) is not None]


def _change_of(
    key: str, kind: str, value: str, uid: str | None, version: int | None, name: str | None
) -> dict[str, Any] | None:
    """Return the parameters of `_FILL`; None if the columns are right."""
    row = _row_of(key, kind, str(value))
    if (uid or "", version, name) == (row.uid, row.resource_version, row.name):
        return None
    columns = {"resource_version": row.resource_version, "namespace": row.namespace, "name": row.name}
    return {"key": key, "uid": row.uid or None, **columns}


def _row_of(key: str, kind: str, value: str) -> Row:
    if kind != ResourceType.SERVICE_ACCOUNT_TOKEN:
        return row_of(key, value.encode(), 0)
    return Row(key, kind, value, uid=bound_uid(value))
