"""The rows that KubeEdge's edgecore has written into a database of this agent.

A node may change between the two agents, in both directions and more than once. KubeEdge knows only the columns `key`,
`type` and `value` and leaves the others empty or as they were, so that this agent would compare new states with the
versions of old ones. KubeEdge's table `meta_v2` tells that a file has been in its hands; it only has copies of what is
in `meta`, for KubeEdge's metaserver.
"""

import sqlite3
from typing import Final

from beehive.names import ResourceType
from metamanager.rows import Row, row_of
from metamanager.tokens import bound_uid

_HAS_BEEN_KUBEEDGES: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta_v2'"
_ROWS: Final = "SELECT key, type, value, uid, resource_version, name FROM meta"
_FILL: Final = (
    "UPDATE meta SET uid = :uid, resource_version = :resource_version, namespace = :namespace, name = :name "
    "WHERE key = :key"
)


def fill_all(connection: sqlite3.Connection) -> None:
    """Set this agent's columns of every row to what its value says."""
    for key, kind, value, uid, version, name in connection.execute(_ROWS).fetchall():
        row = _row_of(key, kind, str(value))
        if (uid or "", version, name) != (row.uid, row.resource_version, row.name):
            connection.execute(_FILL, {
                "key": key, "uid": row.uid or None, "resource_version": row.resource_version,
                "namespace": row.namespace, "name": row.name,
            })  # fmt: skip


def fill_after_kubeedge(connection: sqlite3.Connection) -> None:
    """Do the same, in a transaction of its own, if the file has been KubeEdge's.

    Raises:
        sqlite3.Error: a row could not be read or written; the file is as before.
    """
    if connection.execute(_HAS_BEEN_KUBEEDGES).fetchone() is None:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        fill_all(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _row_of(key: str, kind: str, value: str) -> Row:
    if kind != ResourceType.SERVICE_ACCOUNT_TOKEN:
        return row_of(key, value.encode(), 0)
    return Row(key, kind, value, uid=bound_uid(value))
