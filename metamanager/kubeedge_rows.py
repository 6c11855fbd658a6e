"""The rows that KubeEdge's edgecore has written into a database of this agent.

A node may change between the two agents, in both directions and more than once. KubeEdge knows only the columns `key`,
`type` and `value` and leaves the others empty or as they were, so that this agent would compare new states with the
versions of old ones. A table `meta_v2` shows that KubeEdge has used the file; it only has copies of the rows of `meta`,
for KubeEdge's metaserver.

KubeEdge's table `target_urls` has the URLs that the cloud allows applications to request. They are copied into a row,
which servicebus reads.
"""

import logging
import sqlite3
from typing import Any, Final

import msgspec

from beehive.names import ResourceType
from metamanager.rows import Row, row_of
from metamanager.tokens import bound_uid

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
    """Copy KubeEdge's table of URLs into the row `URLS_KEY`, if there is one that has changed.

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
