"""Inspects the node's two SQLite files without changing them.

A closed file is opened as immutable, because SQLite would otherwise make the files that share it between processes.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from beehive import Clock
from metamanager.sqlite_open import reason_of
from metamanager.store import sqlite_path
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.device_commands.mappers import without_mapper
from modules.processes.edgecore.doctor.facts import DatabaseFile
from modules.processes.edgecore.doctor.machine import is_there
from modules.processes.edgecore.store_commands.database import StoreReadError, reading

SECONDS: Final = 2.0
"""Time limit of the check of all pages."""

_STEPS: Final = 20_000
"""Steps of SQLite's virtual machine between two checks of the clock."""


def database(config: EdgeCoreConfig, clock: Clock) -> DatabaseFile:
    """Inspect metamanager's database."""
    path = sqlite_path(str(config.database_url))
    if path is None:
        return DatabaseFile(path="the database", exists=True, unfinished=True, changed=clock.now())
    return inspect_database(path, "meta", clock)


def outbox(config: EdgeCoreConfig, clock: Clock) -> DatabaseFile:
    """Inspect the outbox."""
    return inspect_database(config.outbox_path, "outbox", clock)


def unserved(config: EdgeCoreConfig) -> dict[str, list[str]]:
    """Return the devices that nobody serves; none if the database cannot be read, which another check reports."""
    path = sqlite_path(str(config.database_url))
    if path is None or not is_there(path):
        return {}
    try:
        with reading(path) as reader:
            return without_mapper(reader)
    except StoreReadError:
        return {}


def inspect_database(path: Path, table: str, clock: Clock) -> DatabaseFile:
    """Inspect one file and count the rows of `table`."""
    try:
        files = [each for each in (path, path.with_name(f"{path.name}-wal")) if each.exists()]
        stats = [each.stat() for each in files]
    except OSError as error:
        return DatabaseFile(path=str(path), exists=True, problem=str(error.strerror))
    if path not in files:
        return DatabaseFile(path=str(path))
    size, changed = sum(each.st_size for each in stats), max(each.st_mtime for each in stats)
    found = DatabaseFile(path=str(path), exists=True, size=size, changed=changed)
    mode = "mode=ro" if len(files) > 1 else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=SECONDS)) as connection:
            return _checked(found, connection, table, clock)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return msgspec.structs.replace(found, problem=reason_of(error))


def _checked(found: DatabaseFile, connection: sqlite3.Connection, table: str, clock: Clock) -> DatabaseFile:
    connection.execute("PRAGMA query_only=ON")
    deadline = clock.monotonic() + SECONDS
    connection.set_progress_handler(lambda: clock.monotonic() > deadline, _STEPS)
    problem, rows, unfinished = "", 0, False
    try:
        (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        problem = "" if said == "ok" else f"it is damaged: {said}"
        (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - our own constants
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        unfinished = True
    return msgspec.structs.replace(found, problem=problem, unfinished=unfinished, rows=rows)
