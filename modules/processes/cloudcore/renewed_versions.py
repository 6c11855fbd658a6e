"""Gives the objects of a restored database new versions.

Nodes compare versions, and ignore an object that is older than theirs. After a restore the cloud has older states, and
would give versions again that it has given before: nodes would keep their objects, and ignore changes for a while.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from beehive.decoding import decode_json
from modules.processes.common.backup.errors import BackupError

MOST_LOST: Final = 1_000_000
"""More changes than a cloud makes between a backup and the loss of its database."""


def renew_versions(path: Path, now: float) -> None:
    """Renumber all objects, above every version that the cloud can have given. Nodes then get them all again.

    Args:
        path: SQLite file, which no cloudcore uses.
        now: seconds since the epoch: the first version of a new database.

    Raises:
        BackupError: it is no database of cloudcore.
    """
    try:
        with closing(sqlite3.connect(path)) as database, database:
            (revision,) = database.execute("SELECT revision FROM cluster_state").fetchone()
            first = max(int(revision), int(now)) + MOST_LOST
            rows = database.execute(
                "SELECT rowid, body FROM cluster_objects WHERE body IS NOT NULL ORDER BY revision"
            ).fetchall()
            renewed = [
                (version, _with_version(body, version), row) for version, (row, body) in enumerate(rows, first + 1)
            ]
            database.executemany("UPDATE cluster_objects SET revision = ?, body = ? WHERE rowid = ?", renewed)
            database.execute("UPDATE cluster_state SET revision = ?", (first + len(renewed),))
    except (sqlite3.Error, msgspec.DecodeError, KeyError, TypeError) as error:
        raise BackupError("cannot restore the database", path.name, f"it is not cloudcore's: {error}") from error


def _with_version(body: bytes, version: int) -> bytes:
    """Return an object with another resourceVersion."""
    found = decode_json(body)
    found["metadata"]["resourceVersion"] = str(version)
    return msgspec.json.encode(found)
