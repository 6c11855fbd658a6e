"""The allowed changes of a pod's spec (Kubernetes' ValidatePodUpdate)."""

from modules.apimachinery.api_errors import InvalidError
from modules.apimachinery.conversion import copied
from modules.apimachinery.kinds import JsonObject

_FORBIDDEN = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing"
    " tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
"""An API server's words, after which it prints both specs; here the changed fields are named."""


def validate_pod_update(old: JsonObject, new: JsonObject) -> None:
    """Check that a pod's spec changes only in the fields that Kubernetes allows.

    Binding sets the node of a pod without one. Scheduling gates may be removed. Ephemeral containers may be added, for
    which an API server has a subresource.

    Raises:
        InvalidError: other fields changed; the message names them.
    """
    before, after = _with_allowed_changes_undone(old["spec"], new["spec"])
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    if changed:
        advice = "delete the pod and create it again"
        why = f"{_FORBIDDEN}\nchanged: spec.{', spec.'.join(changed)}; {advice}"
        raise InvalidError("Pod", new["metadata"]["name"], "spec", why)


def _with_allowed_changes_undone(old: JsonObject, new: JsonObject) -> tuple[JsonObject, JsonObject]:
    before, after = copied(old), copied(new)
    for field in ("containers", "initContainers"):
        if len(before.get(field, [])) == len(after.get(field, [])):
            for one, other in zip(before.get(field, []), after.get(field, []), strict=True):
                other["image"] = one["image"]
    for spec in (before, after):
        spec.pop("activeDeadlineSeconds", None)
    tolerations = before.pop("tolerations", [])
    if all(toleration in after.get("tolerations", []) for toleration in tolerations):
        after.pop("tolerations", None)
    there = before.pop("ephemeralContainers", [])
    if after.get("ephemeralContainers", [])[: len(there)] == there:
        after.pop("ephemeralContainers", None)
    gates = before.pop("schedulingGates", None) or []
    if all(gate in gates for gate in after.get("schedulingGates") or []):
        after.pop("schedulingGates", None)
    if not before.get("nodeName"):
        for spec in (before, after):
            spec.pop("nodeName", None)
    return before, after
