"""What a controller may write for an object: its API server checks the shape of a write, but not for whom it is made.

Controllers write with cloudcore's own rights. Whoever has made the object that they look at may have rights in its
namespace only, and may have written whatever is in it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named
from modules.cloud.applications import EDGE_APPLICATION
from modules.cloud.controllers.application_copies import MADE
from modules.cloud.controllers.plan import PlannedWrite, ReconcilePlan

MAKES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Deployment": ("ReplicaSet",),
        **dict.fromkeys(("ReplicaSet", "ReplicationController", "Job"), ("Pod",)),
        "DaemonSet": ("Pod", "ControllerRevision"),
        "StatefulSet": ("Pod", "ControllerRevision", "PersistentVolumeClaim"),
        "CronJob": ("Job",),
        "Service": ("EndpointSlice", "Endpoints"),
        EDGE_APPLICATION.key_name: MADE,
    }
)
"""The kinds that controllers make, by the kind of the object that they look at; others make nothing."""


def breach_of(owner: ObjectKey, plan: ReconcilePlan) -> str:
    """Return why a plan for an object is not carried out, or "": a write is in another namespace, or makes something
    else than the controller of this kind makes.
    """
    writes = (*plan.writes, *([plan.status] if plan.status else []))
    return next((why for write in writes if (why := _breach_of_write(owner, write))), "")


def _breach_of_write(owner: ObjectKey, write: PlannedWrite) -> str:
    call = write.call
    body: JsonObject = call.body if isinstance(call.body, dict) else {}
    metadata = body.get("metadata") or {}
    places = {call.namespace, metadata.get("namespace") or call.namespace}
    if owner.namespace and places != {owner.namespace}:
        return f"it would {call.verb} {call.plural} in another namespace"
    if call.verb != "create":
        return ""
    kind, version = body.get("kind"), body.get("apiVersion")
    known = next((kind_named(name) for name in MAKES.get(owner.kind, ()) if name == kind), None)
    if known is None or (known.api_version, known.plural) != (version, call.plural) or call.api_version != version:
        return f"it would create {kind} of {version}"
    return ""
