"""Damaged rows of the tables about nodes, in SQLite, which does not enforce the type of a column.

A repair by hand or a lost page can leave them. Each row is only a record of objects that were sent, so a row that
cannot be read is replaced by a row that records less: cloudcore then sends objects again that the node has. Other
databases check the types themselves.

A damaged page of SQLite's file is refused at the start: later it would stop cloudcore in the middle of its work, each
time that the page is read.
"""

import logging
import sqlite3
from typing import Final

from sqlalchemy import Connection

from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.database.tables import prepare

ADVICE: Final = "put a backup in its place, or, in front of a cluster, delete it"
"""The advice for a damaged file."""

_log = logging.getLogger(__name__)

_REPAIRS: Final = (
    "DELETE FROM cluster_syncs WHERE typeof(node) <> 'text' OR typeof(uid) <> 'text' OR uid = '' "
    "OR typeof(kind) <> 'text' OR kind = '' OR typeof(namespace) <> 'text' OR typeof(name) <> 'text' OR name = '' "
    "OR (namespace = '' AND kind IN ('Pod', 'ConfigMap', 'Secret'))",
    "UPDATE cluster_syncs SET version = 0 WHERE typeof(version) <> 'integer'",
    "UPDATE cluster_node_states SET epoch = -1 WHERE epoch <> -1 AND (typeof(epoch) <> 'integer' OR epoch < 0)",
    "UPDATE cluster_node_states SET node_uid = '', epoch = -1 WHERE typeof(node_uid) <> 'text'",
    "UPDATE cluster_state SET revision = (SELECT coalesce(max(revision), 0) FROM cluster_objects "
    "WHERE typeof(revision) = 'integer') WHERE typeof(revision) <> 'integer' OR revision < 0",
    "UPDATE cluster_state SET compacted = revision WHERE typeof(compacted) <> 'integer' OR compacted < 0",
    "DELETE FROM cluster_sessions WHERE typeof(node) <> 'text' OR typeof(cloudcore) <> 'text' "
    "OR typeof(revision) <> 'integer' OR revision > (SELECT revision FROM cluster_state)",
    "DELETE FROM cluster_epochs "
    "WHERE id <> 1 OR typeof(epoch) <> 'integer' OR epoch < 0 OR typeof(newest) <> 'integer' OR newest < 0",
    "INSERT INTO cluster_epochs (id, epoch, newest) SELECT 1, coalesce(max(epoch), 0) + 1, 0 FROM cluster_node_states "
    "HAVING NOT EXISTS (SELECT * FROM cluster_epochs WHERE id = 1)",
)
"""In this order. A node whose state is of epoch -1 is sent everything again, and so are all when the epoch is lost: one
that no node has takes its place.
"""


def is_damaged(error: Exception) -> bool:
    """Return whether an error of SQLite means that its file is damaged, or is no database."""
    code = getattr(getattr(error, "orig", None) or error, "sqlite_errorcode", None) or 0
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def prepare_and_repair(connection: Connection, where: str) -> bool:
    """Create missing tables, repair damaged rows, and return whether nothing was ever stored.

    Raises:
        DatabaseError: a newer version of cloudcore has made the tables, or the file is damaged.
    """
    if connection.dialect.name == "sqlite":
        _check_pages(connection, where)
    is_new = prepare(connection, where)
    if connection.dialect.name == "sqlite":
        repaired = sum(connection.exec_driver_sql(statement).rowcount for statement in _REPAIRS)
        if repaired:
            _log.warning("%d damaged rows in %s: nodes are sent again what they say nothing of", repaired, where)
    return is_new


def _check_pages(connection: Connection, where: str) -> None:
    """Refuse a damaged file. It takes some 3 ms for each megabyte."""
    (found,) = connection.exec_driver_sql("PRAGMA quick_check(1)").one()
    if found != "ok":
        hint = f"the file is damaged: {found}; {ADVICE}"
        raise DatabaseError("open the database", where, hint)
