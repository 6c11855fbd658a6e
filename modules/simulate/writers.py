"""What others write into the cloud's objects, a controller or somebody with kubectl: patches of the Kubernetes API."""

from typing import Any

from modules.edgecontroller.api_calls import STRATEGIC, ApiCall
from modules.simulate.plan import Write, Writer

OF_STATUS = frozenset({Writer.NOT_READY, Writer.NODE_LOST, Writer.ADDRESS})
"""Who writes what is the node's to say: it says it again."""
GATE = "simulated.example/gate"


def call_of(write: Write) -> ApiCall:
    """The request."""
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
        case Writer.LABEL:
            return {"metadata": {"labels": {"written": str(write.number)}}}
        case Writer.ANNOTATION:
            return {"metadata": {"annotations": {"example/written": str(write.number)}}}
        case Writer.NOT_READY:
            return {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": f"Write{write.number}"}]}}
        case Writer.NODE_LOST:
            return {"status": {"reason": "NodeLost", "message": f"the node is silent ({write.number})"}}
        case Writer.ADDRESS:
            return {"status": {"podIP": f"198.51.100.{write.number % 250 + 1}"}}
        case Writer.GATE:
            return {"status": {"conditions": [{"type": GATE, "status": "True", "message": str(write.number)}]}}
