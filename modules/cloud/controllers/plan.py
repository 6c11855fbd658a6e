"""The decision of a controller: writes, Events, and the time of the next look."""

from typing import Any, Final, NamedTuple

import msgspec

from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, uid_of, version_of
from modules.cloud.applications import kind_of
from modules.cloud.client.calls import MERGE, ApiCall

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


class EventNote(msgspec.Struct, frozen=True):
    """An Event."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str
    """`{name}` is the name of the written object, `{why}` the message of a refusal."""
    about: JsonObject | None = None
    """The object that it is about; None is the one that is reconciled."""


class DeletedObject(NamedTuple):
    """The object that a write deletes."""

    key: ObjectKey
    uid: str


class PlannedWrite(msgspec.Struct, frozen=True):
    """A call to the API server, with the Events of its outcomes."""

    call: ApiCall
    done: EventNote | None = None
    refused: EventNote | None = None
    counts_as: str = ""
    """The reason under which a refusal is kept for the object's status (FailedCreate); "" does not keep it."""
    deletes: DeletedObject | None = None
    scale_of: str = ""
    """It is no write, but reads the scale of the object with this uid, for the next look (`View.scales`)."""


class ReconcilePlan(msgspec.Struct, frozen=True):
    """The outcome of a look at one object.

    Writes are made in order, and end at the first refusal; the status follows if there was none. When a plan has no
    writes, nothing is left to do.
    """

    writes: tuple[PlannedWrite, ...] = ()
    status: PlannedWrite | None = None
    events: tuple[EventNote, ...] = ()
    again_at: float | None = None
    """When to look again, in seconds since the epoch, unless something changes earlier."""


NOTHING: Final = ReconcilePlan()


def create(obj: JsonObject, **outcomes: Any) -> PlannedWrite:
    """Return the creation of an object; `outcomes` as in `PlannedWrite`."""
    kind = kind_of(obj)
    call = ApiCall(
        verb="create",
        api_version=kind.api_version,
        plural=kind.plural,
        namespace=obj["metadata"].get("namespace", ""),
        body=obj,
    )
    return PlannedWrite(call, **outcomes)


def delete(obj: JsonObject, options: JsonObject | None = None, **outcomes: Any) -> PlannedWrite:
    """Return the deletion of an object, and of no successor with its name."""
    wanted = {**(options or {}), "preconditions": {"uid": uid_of(obj)}}
    deleted = DeletedObject(key_of(obj), uid_of(obj))
    return PlannedWrite(_on(obj, "delete", options=wanted), deletes=deleted, **outcomes)


def patch(obj: JsonObject, changes: JsonObject, **outcomes: Any) -> PlannedWrite:
    """Return a merge patch of an object, and of no successor with its name."""
    metadata = {**(changes.get("metadata") or {}), "uid": uid_of(obj)}
    return PlannedWrite(_on(obj, "patch", patch_type=MERGE, body={**changes, "metadata": metadata}), **outcomes)


def update(obj: JsonObject, **outcomes: Any) -> PlannedWrite:
    """Return the replacement of an object, which is refused if it has changed meanwhile."""
    return PlannedWrite(_on(obj, "update", body=obj), **outcomes)


def update_status(
    obj: JsonObject, status: JsonObject, annotations: JsonObject | None = None, **outcomes: Any
) -> PlannedWrite | None:
    """Return the write of a status and of annotations, which is refused if the object has changed meanwhile; None if
    nothing changes.
    """
    metadata = obj["metadata"]
    given = metadata.get("annotations") or {}
    wanted = given if annotations is None else annotations
    if status == (obj.get("status") or {}) and wanted == given:
        return None
    changed = {**obj, "metadata": {**metadata, **({"annotations": wanted} if wanted else {})}, "status": status}
    changed["metadata"]["resourceVersion"] = version_of(obj)
    return PlannedWrite(_on(obj, "update", subresource="status", body=changed), **outcomes)


def _on(obj: JsonObject, verb: str, **fields: Any) -> ApiCall:
    kind = kind_of(obj)
    key = key_of(obj)
    return ApiCall(
        verb=verb, api_version=kind.api_version, plural=kind.plural, namespace=key.namespace, name=key.name, **fields
    )
