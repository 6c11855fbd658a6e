"""`metadata.managedFields`: the entries of managers, read and written as Kubernetes does."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json, encode_to_keep
from modules.apimachinery.kinds import JsonObject, metadata_of
from modules.cloud.apiserver.field_manager.paths import NOTHING, FieldSet, from_fields_v1, to_fields_v1

APPLY: Final = "Apply"
UPDATE: Final = "Update"
ANCIENT: Final = "ancient-changes"
"""The manager of updates whose managers are no longer kept apart."""
MOST_UPDATERS: Final = 10
"""Managers of updates that are kept apart."""
_FIELDS_V1: Final = "FieldsV1"
_MOST_ENTRIES: Final = 100
"""Entries that a client may set."""


class Manager(msgspec.Struct, frozen=True):
    """Setter of fields, and its way of setting them."""

    name: str
    operation: str = UPDATE
    subresource: str = ""
    api_version: str = ""
    """Of the request; an Apply of another version is the same manager's."""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The identity of an entry."""
        return self.name, self.operation, self.subresource, "" if self.operation == APPLY else self.api_version


class Managed(msgspec.Struct, frozen=True):
    """The fields of one manager."""

    manager: Manager
    fields: FieldSet
    time: str = ""


Entries = Mapping[tuple[str, str, str, str], Managed]


def listed(managed: Any) -> Any:
    """Return the value of `managedFields`, which is JSON in a stored object."""
    return decode_json(managed) if isinstance(managed, msgspec.Raw) else managed


def read_entries(obj: JsonObject | None) -> Entries | None:
    """Return the entries of an object; None if they cannot be read."""
    found = listed(metadata_of(obj or {}).get("managedFields") or [])
    if not isinstance(found, list) or len(found) > _MOST_ENTRIES:
        return None
    entries: dict[tuple[str, str, str, str], Managed] = {}
    try:
        for one in found:
            read = _entry(one)
            before = entries.get(read.manager.identity)
            fields = read.fields | before.fields if before else read.fields
            entries[read.manager.identity] = msgspec.structs.replace(read, fields=fields)
    except ValueError:
        return None
    return entries


def _entry(one: Any) -> Managed:
    if not isinstance(one, dict) or one.get("operation") not in (APPLY, UPDATE):
        raise ValueError("an entry with an operation is wanted")
    if one.get("fieldsType", _FIELDS_V1) != _FIELDS_V1:
        raise ValueError("FieldsV1 is wanted")
    names = [one.get(name, "") for name in ("manager", "operation", "subresource", "apiVersion", "time")]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a text is wanted")
    *identity, time = names
    return Managed(Manager(*identity), from_fields_v1(one.get("fieldsV1", {})), time or "")


def written_entries(entries: Entries) -> list[JsonObject]:
    """Return the entries as an object has them: applies first, each by time."""
    return [_written(one) for one in sorted(capped(entries).values(), key=_order)]


def _order(one: Managed) -> tuple[str, str, str, str, str]:
    of = one.manager
    return of.operation, one.time, of.name, of.api_version, of.subresource


def _written(one: Managed) -> JsonObject:
    of = one.manager
    found = {
        "apiVersion": of.api_version,
        "fieldsType": _FIELDS_V1,
        "fieldsV1": to_fields_v1(one.fields),
        "manager": of.name,
        "operation": of.operation,
        "subresource": of.subresource,
        "time": one.time,
    }
    return {name: value for name, value in found.items() if value != "" or name == "fieldsV1"}


def capped(entries: Entries) -> Entries:
    """Return the entries with at most ten managers of updates: the oldest updates become one."""
    updates = sorted((one for one in entries.values() if one.manager.operation == UPDATE), key=_order)
    surplus = len(updates) - MOST_UPDATERS
    if surplus <= 0:
        return entries
    kept = dict(entries)
    of_version: dict[str, list[Managed]] = {}
    for one in updates:
        of_version.setdefault(one.manager.api_version, []).append(one)
    for version, some in of_version.items():
        oldest = some[: surplus + 1] if surplus > 0 else []
        if len(oldest) > 1:
            bucket = Manager(ANCIENT, UPDATE, "", version)
            oldest += [one for one in some[surplus + 1 :] if one.manager == bucket]  # later, after a clock was set back
            for one in oldest:
                del kept[one.manager.identity]
            fields = NOTHING.union(*(one.fields for one in oldest))
            kept[bucket.identity] = Managed(bucket, fields, oldest[-1].time)
            surplus -= len(oldest) - 1
    return kept


def encoded(entries: list[JsonObject], live: JsonObject | None) -> msgspec.Raw | None:
    """Return entries as JSON, and the stored object's own entries if they are equal; None for no entries."""
    if not entries:
        return None
    made, stored = msgspec.Raw(encode_to_keep(entries)), metadata_of(live or {}).get("managedFields")
    return stored if isinstance(stored, msgspec.Raw) and bytes(stored) == bytes(made) else made


def with_kept_times(new: JsonObject, live: JsonObject) -> JsonObject:
    """Return a new state of an object with the stored entries if its own differ from those by their times only. A
    write that changes nothing else changes no times (IgnoreManagedFieldsTimestampsTransformer).
    """
    stored, made = metadata_of(live).get("managedFields"), metadata_of(new).get("managedFields")
    if not stored or not made or made is stored:
        return new
    before, after = (
        [{name: value for name, value in each.items() if name != "time"} for each in listed(entries)]
        for entries in (stored, made)
    )
    is_same = len(before) == len(after) and all(each in before for each in after)
    return with_entries(new, stored) if is_same else new


def is_reset(obj: JsonObject) -> bool:
    """Return whether a client asks for the entries to be forgotten, by an empty list or a single empty one."""
    return metadata_of(obj).get("managedFields") in ([], [{}])


def with_entries(obj: JsonObject, entries: list[JsonObject] | msgspec.Raw | None) -> JsonObject:
    """Return an object with other entries, or with None without entries."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": {**metadata, "managedFields": entries} if entries else metadata}
