"""A copy of an SQLite file as it is before its schema gets another version, which earlier cloudcores do not know."""

import logging
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection

from beehive.files.advice import advice
from beehive.files.descriptors import OwnedFd
from beehive.files.durable import beside, put_in_place
from beehive.on_failure import on_failure
from modules.cloud.storage.database.errors import DatabaseError

_log = logging.getLogger(__name__)


def keep_copy(connection: Connection, version: int, where: str) -> None:
    """Copy an SQLite file, as it was last committed, to `FILE-schema-VERSION`, with mode 0600.

    Nothing is done for other databases: their own tools back them up.

    Args:
        connection: to the database; it may hold its lock.
        version: of the schema.
        where: the database, in errors.

    Raises:
        DatabaseError: it cannot be copied, and nothing was changed.
    """
    name = connection.engine.url.database
    if connection.dialect.name != "sqlite" or not name or name == ":memory:":
        return
    copy = Path(f"{name}-schema-{version}")
    part = beside(copy)
    try:
        part.unlink(missing_ok=True)
        with on_failure(lambda: part.unlink(missing_ok=True)):  # of a full disk it would take the rest
            with OwnedFd(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)) as descriptor:
                with (
                    closing(sqlite3.connect(f"{Path(name).absolute().as_uri()}?mode=ro", uri=True)) as original,
                    closing(sqlite3.connect(part)) as copied,
                ):
                    original.backup(copied)
                    copied.execute("PRAGMA journal_mode=DELETE")
                os.fsync(descriptor)
            put_in_place(part, copy)
    except sqlite3.Error as error:
        raise DatabaseError("copy the database before its schema is changed", where, str(error)) from error
    except OSError as error:
        raise DatabaseError("copy the database before its schema is changed", where, advice(error)) from error
    _log.warning("%s: its schema is changed; a copy for earlier cloudcores is %s", where, copy)
