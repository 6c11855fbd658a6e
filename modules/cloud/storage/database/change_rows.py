"""Reading the changes of objects that the database keeps."""

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import Connection, func, select

from modules.apimachinery.kinds import ObjectKey
from modules.cloud.storage.database.tables import changes, history, objects
from modules.cloud.storage.object_storage import EventType, StoredChange
from modules.cloud.storage.stored_changes import StoredHistory

_ROWS = 16
"""Rows that are in memory at a time while they are read."""
_TYPES = frozenset(EventType)
_KEPT = changes.c
KEPT: Final = select(
    _KEPT.revision, _KEPT.kind, _KEPT.namespace, _KEPT.name, _KEPT.type, _KEPT.body, _KEPT.old
).order_by(_KEPT.revision)
"""The kept changes, in order."""


def changes_in(rows: Iterable[Iterable[Any]]) -> list[StoredChange] | None:
    """Return the changes in rows of `KEPT`; None if a row cannot be read."""
    found = [_change_of(row) for row in rows]
    read = [change for change in found if change is not None]
    return read if len(read) == len(found) else None


def stored_history(connection: Connection, revision: int) -> StoredHistory:
    """Return all kept changes, and the version that they are complete from; no changes if a row of them is damaged.

    Cloudcores of earlier versions write no changes: the changes of a kind are complete after the newest state of an
    object that no change leads to.

    Args:
        connection: in a transaction.
        revision: the newest one.
    """
    kept, began = changes_in(connection.execute(KEPT, execution_options={"yield_per": _ROWS})), {"": revision}
    if kept is None:
        return StoredHistory([], began)
    began |= {
        str(kind): version if isinstance(version, int) else revision
        for kind, version in connection.execute(select(history.c.kind, history.c.began))
    }
    is_kept = select(changes.c.revision).where(changes.c.revision == objects.c.revision).exists()
    newest = select(objects.c.kind, func.max(objects.c.revision)).where(~is_kept).group_by(objects.c.kind)
    for kind, version in connection.execute(newest):
        began[kind] = max(began.get(kind, began[""]), version if isinstance(version, int) else revision)
    return StoredHistory([change for change in kept if change.version > _began_of(began, change)], began)


def _began_of(began: dict[str, int], change: StoredChange) -> int:
    return began.get(change.key.kind, began[""])


def _change_of(row: Iterable[Any]) -> StoredChange | None:
    revision, kind, namespace, name, what, body, old = row
    texts = (kind, namespace, name)
    is_read = type(revision) is int and all(isinstance(text, str) for text in texts) and what in _TYPES
    if not is_read or not isinstance(body, bytes | None) or not isinstance(old, bytes | None):
        return None
    return StoredChange(revision, ObjectKey(*texts), EventType(what), body, old)
