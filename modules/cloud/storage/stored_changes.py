"""Rows of the changes of objects, from which watches go on after a restart and other cloudcores follow."""

from typing import Final, NamedTuple

import msgspec

from modules.apimachinery.kinds import LAST_APPLIED, JsonObject, metadata_of
from modules.cloud.storage.object_storage import EventType, ObjectEvent, StoredChange

_SECRET: Final = "Secret"  # noqa: S105 - the kind
_SECRET_VALUES: Final = ("data", "stringData")


def stored_change(event: ObjectEvent) -> StoredChange:
    """Return the row of a change."""
    version, old, kind = int(event.new["metadata"]["resourceVersion"]), event.old, event.key.kind
    before = None
    if event.type is EventType.MODIFIED and old is not None:
        before = None if event.is_selected_alike else _encoded_without_values(kind, old)
    if kind == _SECRET:
        body = _encoded_without_values(kind, event.new) if event.type is EventType.DELETED else None
    else:
        body = event.body or msgspec.json.encode(event.new)
    return StoredChange(version, event.key, event.type, body, before)


def _encoded_without_values(kind: str, obj: JsonObject) -> bytes:
    """Return an object as JSON, a Secret without its values, which kubectl's annotation has, too."""
    if kind != _SECRET:
        return msgspec.json.encode(obj)
    shown = {name: value for name, value in obj.items() if name not in _SECRET_VALUES}
    annotations = metadata_of(obj).get("annotations") or {}
    if LAST_APPLIED in annotations:
        kept = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
        shown["metadata"] = {**obj["metadata"], "annotations": kept}
    return msgspec.json.encode(shown)


class StoredHistory(NamedTuple):
    """The changes that the database has kept, in order, and the version that they are complete from."""

    changes: list[StoredChange]
    began: dict[str, int]
    """By kind, the version after which all its changes are known; "" for all other kinds."""
