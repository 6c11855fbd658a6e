"""The parts of objects that stay in memory although no node needs their bodies here."""

from typing import Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.pod_references import other_references_of, references_of

_METADATA: Final = ("name", "namespace", "uid", "resourceVersion")
_POD_METADATA: Final = (*_METADATA, "labels", "deletionTimestamp")
_POD_SPEC: Final = ("nodeName", "hostNetwork", "serviceAccountName", "serviceAccount")
_POD_STATUS: Final = ("phase", "hostIP", "podIP")
_CONTAINER: Final = ("name", "ports")
_CONDITION: Final = ("type", "status")

HAVE_PARTS: Final = frozenset({"Pod", "ConfigMap", "Secret"})
"""The kinds of most objects of a cluster. Of others the whole object is kept."""


def partial_object(obj: JsonObject) -> JsonObject:
    """Return the kept part of an object of one of `HAVE_PARTS`: its names and version, and of a pod also its node, its
    references and its address.
    """
    part = {"kind": obj["kind"], "apiVersion": obj["apiVersion"]}
    if obj["kind"] != "Pod":
        return {**part, "metadata": _of(obj["metadata"], _METADATA)}
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    containers = [_of(each, _CONTAINER) for each in spec.get("containers") or []]
    conditions = [_of(each, _CONDITION) for each in status.get("conditions") or []]
    return {
        **part,
        "metadata": _of(obj["metadata"], _POD_METADATA),
        "spec": _of(spec, _POD_SPEC) | {"containers": containers, "volumes": _references(obj)},
        "status": _of(status, _POD_STATUS) | {"conditions": conditions},
    }


def _references(pod: JsonObject) -> list[JsonObject]:
    """Return volumes that have the references of a pod, wherever its spec names them: `references_of` and
    `other_references_of` find the same in them.
    """
    sent, volumes = references_of(pod), []
    for key in sent:
        is_secret = key.kind == "Secret"
        volumes.append({"secret": {"secretName": key.name}} if is_secret else {"configMap": {"name": key.name}})
    for key in other_references_of(pod):
        if key.kind == "PersistentVolumeClaim":
            volumes.append({"persistentVolumeClaim": {"claimName": key.name}})
        elif key.kind == "Secret":
            volumes.append({"azureFile": {"secretName": key.name}})
    return volumes


def _of(obj: JsonObject, names: tuple[str, ...]) -> JsonObject:
    return {name: obj[name] for name in names if name in obj}
