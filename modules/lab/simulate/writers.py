"""Patches of other writers to the cloud's objects: a controller, or a user with kubectl."""

from typing import Any

from modules.cloud.applications import BELONGING_TO
from modules.cloud.client.calls import STRATEGIC, ApiCall
from modules.lab.simulate.plan import Write, Writer
from modules.lab.simulate.service_documents import group_name

OF_STATUS = frozenset({Writer.NOT_READY, Writer.NODE_LOST, Writer.ADDRESS})
"""Writers of parts of a status that the node owns; the node restores them."""
GATE = "simulated.example/gate"
OF_NODES = frozenset({Writer.NODE_LABEL, Writer.NODE_GROUP, Writer.NODE_UNKNOWN, Writer.NODE_DELETED})
"""Writers of Node objects; all others write to pods."""
OF_PODS = tuple(writer for writer in Writer if writer not in OF_NODES)
_HEARD_OF = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that the node controller sets to Unknown when a node is silent."""


def call_of(write: Write) -> ApiCall:
    """Return the API request of a write."""
    return _of_node(write) if write.writer in OF_NODES else _of_pod(write)


def _of_node(write: Write) -> ApiCall:
    if write.writer is Writer.NODE_DELETED:
        return ApiCall(verb="delete", api_version="v1", plural="nodes", name=write.name)
    return ApiCall(
        verb="patch",
        api_version="v1",
        plural="nodes",
        name=write.name,
        subresource="status" if write.writer is Writer.NODE_UNKNOWN else "",
        patch_type=STRATEGIC,
        body=_patch(write),
    )


def _of_pod(write: Write) -> ApiCall:
    subresource = "" if write.writer in (Writer.LABEL, Writer.ANNOTATION) else "status"
    return ApiCall(
        verb="patch",
        api_version="v1",
        plural="pods",
        namespace="default",
        name=write.name,
        subresource=subresource,
        patch_type=STRATEGIC,
        body=_patch(write),
    )


def _patch(write: Write) -> dict[str, Any]:
    match write.writer:
        case Writer.LABEL | Writer.NODE_LABEL:
            return {"metadata": {"labels": {"written": str(write.number)}}}
        case Writer.NODE_GROUP:
            return {"metadata": {"labels": {BELONGING_TO: group_name(write.number) if write.number else None}}}
        case Writer.ANNOTATION:
            return {"metadata": {"annotations": {"example/written": str(write.number)}}}
        case Writer.NOT_READY:
            return {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": f"Write{write.number}"}]}}
        case Writer.NODE_LOST:
            return {"status": {"reason": "NodeLost", "message": f"the node is silent ({write.number})"}}
        case Writer.ADDRESS:
            return {"status": {"podIP": f"198.51.100.{write.number % 250 + 1}"}}
        case Writer.NODE_UNKNOWN:
            message = f"Kubelet stopped posting node status. ({write.number})"
            unknown = {"status": "Unknown", "reason": "NodeStatusUnknown", "message": message}
            return {"status": {"conditions": [{"type": kind, **unknown} for kind in _HEARD_OF]}}
        case _:
            return {"status": {"conditions": [{"type": GATE, "status": "True", "message": str(write.number)}]}}
