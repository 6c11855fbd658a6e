"""Brings a database file to the newest schema; its version is in `PRAGMA user_version`.

A file of KubeEdge's edgecore has version 0 like an empty one: its `meta` table is taken over with what is in it, so
that a node can be switched to this agent while the cloud is away. Each step runs in a transaction of its own with the
new version: it is done or it is not.
"""

import sqlite3
from collections.abc import Callable

from metamanager import _sqlite_sql as sql
from metamanager.errors import StoreOpenError
from metamanager.rows import row_of

_FILL = (
    "UPDATE meta SET uid = :uid, resource_version = :resource_version, namespace = :namespace, name = :name "
    "WHERE key = :key"
)


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Run the steps that are missing.

    Raises:
        StoreOpenError: the file was made by a newer version.
        sqlite3.Error: a step failed; the file is as before that step.
    """
    version = _version(connection)
    if version > len(_STEPS):
        hint = f"its schema has version {version}, this edgecore knows {len(_STEPS)}; use the newer edgecore again"
        raise StoreOpenError("open the database", path, hint)
    while (version := _version(connection)) < len(_STEPS):
        connection.execute("BEGIN IMMEDIATE")
        try:
            _STEPS[version](connection)
            connection.execute(f"PRAGMA user_version={version + 1}")
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _make_or_adopt_meta(connection: sqlite3.Connection) -> None:
    """Version 1: table `meta`, with our columns."""
    connection.execute(sql.CREATE_META)
    columns = {row[1] for row in connection.execute("PRAGMA table_info(meta)")}
    missing = [statement for column, statement in sql.ADDED_COLUMNS.items() if column not in columns]
    for statement in missing:
        connection.execute(statement)
    connection.execute(sql.CREATE_INDEX)
    if missing:
        _fill_columns(connection)


def _fill_columns(connection: sqlite3.Connection) -> None:
    for key, value in connection.execute("SELECT key, value FROM meta").fetchall():
        row = row_of(key, str(value).encode(), 0)
        connection.execute(_FILL, {
            "key": key, "uid": row.uid or None, "resource_version": row.resource_version,
            "namespace": row.namespace, "name": row.name,
        })  # fmt: skip


_STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (_make_or_adopt_meta,)
"""Step n brings version n to n + 1. Never change one that has been released."""
