"""The controller of EdgeApplications (KubeEdge's `controllermanager/edgeapplication`).

An object is an application's by the uid of its owner, so two applications whose names make one name do not fight over
an object. The annotation with the last applied template is KubeEdge's; fields that somebody else has set since stay.
"""

from typing import Final

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_of
from modules.apimachinery.merge_patch import merge_patch
from modules.cloud.applications import kind_of
from modules.cloud.controllers.application_copies import MADE, Copy, copies_of
from modules.cloud.controllers.plan import (
    NORMAL,
    NOTHING,
    WARNING,
    EventNote,
    PlannedWrite,
    ReconcilePlan,
    create,
    delete,
    patch,
    update_status,
)
from modules.cloud.controllers.pods import owner_reference
from modules.cloud.controllers.view import View, is_controlled_by

_TEMPLATE: Final = "apps.kubeedge.io/last-applied-template"
_PROCESSING, _AVAILABLE = "Processing", "Available"


def reconcile(view: View, key: ObjectKey, _now: float) -> ReconcilePlan:
    """Return the writes that an application's manifests and targets want, and the writes of its status."""
    application = view.find(key)
    if application is None or is_being_deleted(application):
        return NOTHING  # the garbage collector deletes its objects
    copies, causes = copies_of(application)
    if causes:  # it was stored before there were these rules: nothing is written
        status = update_status(application, _status(application, [], {}))
        event = EventNote(WARNING, "InvalidApplication", "; ".join(map(str, causes)))
        return ReconcilePlan(status=status, events=(event,) if status else ())
    found = {key_of(copy.obj): view.find(key_of(copy.obj)) for copy in copies}
    surplus = [
        each
        for kind in MADE
        for each in view.owned_by(application, kind)
        if key_of(each) not in found and not is_being_deleted(each)
    ]
    writes = [delete(each, {"propagationPolicy": "Background"}, done=_done("Deleted", each)) for each in surplus]
    events = []
    for copy in copies:
        live = found[key_of(copy.obj)]
        if live is None:
            writes.append(_created(application, copy.obj))
        elif not is_controlled_by(live, application):
            words = f"{copy.obj['kind']} {copy.obj['metadata']['name']} exists, and is not this application's"
            events.append(EventNote(WARNING, "FailedCreate", words))
        elif not is_being_deleted(live) and (write := _updated(copy.obj, live)) is not None:
            writes.append(write)
    status = update_status(application, _status(application, copies, found))
    return ReconcilePlan(tuple(writes), status, tuple(events) if status or writes else ())


def _text(obj: JsonObject) -> str:
    return msgspec.json.encode(obj, order="sorted").decode()


def _applied(live: JsonObject) -> str:
    return str((live["metadata"].get("annotations") or {}).get(_TEMPLATE) or "")


def _created(application: JsonObject, wanted: JsonObject) -> PlannedWrite:
    annotations = {**wanted["metadata"].get("annotations", {}), _TEMPLATE: _text(wanted)}
    metadata = {
        **wanted["metadata"],
        "annotations": annotations,
        "ownerReferences": [owner_reference(application)],
    }
    kind = wanted["kind"]
    refused = EventNote(WARNING, "FailedCreate", f"Error creating {kind} {wanted['metadata']['name']}: {{why}}")
    return create(
        {**wanted, "metadata": metadata}, done=_done("Created", wanted), refused=refused, counts_as="FailedCreate"
    )


def _updated(wanted: JsonObject, live: JsonObject) -> PlannedWrite | None:
    """Return the write of a template's fields that differ from the last one; None if they are equal."""
    text = _text(wanted)
    if _applied(live) == text:
        return None
    try:
        before = decode_json(_applied(live), JsonObject)
    except msgspec.DecodeError:  # somebody has removed or changed it
        before = {}
    changes = merge_patch(before, wanted)
    metadata = changes.setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATE: text}
    name = wanted["metadata"]["name"]
    refused = EventNote(WARNING, "FailedUpdate", f"Error updating {wanted['kind']} {name}: {{why}}")
    return patch(live, changes, refused=refused, counts_as="FailedUpdate")


def _done(verb: str, obj: JsonObject) -> EventNote:
    reason = "SuccessfulCreate" if verb == "Created" else "SuccessfulDelete"
    return EventNote(NORMAL, reason, f"{verb} {obj['kind']}: {obj['metadata']['name']}")


def _status(application: JsonObject, copies: list[Copy], found: dict[ObjectKey, JsonObject | None]) -> JsonObject:
    """Return the state of each object, and of each manifest that nothing is made of."""
    states = [_state(application, copy, found[key_of(copy.obj)]) for copy in copies]
    manifests = (application["spec"].get("workloadTemplate") or {}).get("manifests") or ()
    made = {copy.ordinal for copy in copies}
    states += [
        {"identifier": {"ordinal": ordinal}, "conditions": _PROCESSING}
        for ordinal in range(len(manifests))
        if ordinal not in made
    ]
    states.sort(key=lambda each: (each["identifier"]["ordinal"], each["identifier"].get("name", "")))
    available = sum(each["conditions"] == _AVAILABLE for each in states)
    return {"workloadStatus": states, "available": f"{available}/{len(states)}"}


def _state(application: JsonObject, copy: Copy, live: JsonObject | None) -> JsonObject:
    metadata, kind = copy.obj["metadata"], kind_of(copy.obj)
    group, _, version = kind.api_version.rpartition("/")
    identifier = {
        "ordinal": copy.ordinal,
        **({"group": group} if group else {}),
        "version": version,
        "kind": kind.name,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
    }
    is_made = live is not None and is_controlled_by(live, application) and _applied(live) == _text(copy.obj)
    return {"identifier": identifier, "conditions": _AVAILABLE if live and is_made and _is_up(live) else _PROCESSING}


def _is_up(obj: JsonObject) -> bool:
    """Return whether an object does its work: a Deployment if all its pods are ready, others because they are there."""
    if obj["kind"] != "Deployment":
        return True
    status = obj.get("status") or {}
    is_observed = status.get("observedGeneration") == obj["metadata"].get("generation")
    return bool(is_observed and status.get("readyReplicas", 0) == obj["spec"].get("replicas", 1))
