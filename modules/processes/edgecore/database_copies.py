"""Copies of a node's database, which the node goes on with some time after they were made."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from modules.processes.common.backup.errors import BackupError

_COMPLETE: Final = "null/store/complete"
"""Key of metamanager's note, see `metamanager.client.COMPLETE`."""


def forget_completeness(database: Path) -> None:
    """Remove the note that the database has all pods of the node: newer ones may run, and must not count as orphans.

    Raises:
        BackupError: it is no node's database.
    """
    try:
        with closing(sqlite3.connect(database)) as opened, opened:
            opened.execute("DELETE FROM meta WHERE key = ?", (_COMPLETE,))
    except sqlite3.Error as error:
        raise BackupError("cannot restore the database", database.name, f"it is no node's: {error}") from error
