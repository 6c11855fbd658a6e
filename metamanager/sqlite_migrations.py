"""Migrates a database file to the newest schema; `PRAGMA user_version` is its version.

A file of KubeEdge's edgecore has version 0, like an empty one. Its table `meta` is adopted with its rows, so that a
node can switch to this agent without a cloud. Each step and its new version are one transaction.
"""

import sqlite3
from collections.abc import Callable

import msgspec

from metamanager import statements as sql
from metamanager.calls import COMPLETE
from metamanager.errors import StoreDamagedError, StoreOpenError
from metamanager.kubeedge_rows import copy_urls, fill_after_kubeedge, fill_all

_IMPOSSIBLE = 10_000
_NOTE = "INSERT OR REPLACE INTO meta (key, type, value) VALUES ('null/store/complete', 'store', :value)"


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
        try:
            _STEPS[version](connection)
            connection.execute(f"PRAGMA user_version={version + 1}")
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise
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


def _note_that_it_is_complete(connection: sqlite3.Connection) -> None:
    """Version 2: note that a used file contains all pods of its node; a new one lacks the note (`calls.COMPLETE`)."""
    if connection.execute("SELECT 1 FROM meta LIMIT 1").fetchone() is not None:
        connection.execute(_NOTE, {"value": msgspec.json.encode(COMPLETE).decode()})


def _make_history(connection: sqlite3.Connection) -> None:
    """Version 3: table `edgecore_history` with the last changes of each object."""
    connection.execute(sql.CREATE_HISTORY)
    connection.execute(sql.CREATE_HISTORY_INDEX)


_STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _make_or_adopt_meta,
    _note_that_it_is_complete,
    _make_history,
)
"""Step n migrates version n to n + 1. Never change a released step."""
