"""The admission plug-in DefaultTolerationSeconds: how long a pod stays on a node that is not ready."""

from typing import Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.lister import Lister

SECONDS: Final = 300
"""kube-apiserver's `--default-not-ready-toleration-seconds` and `--default-unreachable-toleration-seconds`."""
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NO_EXECUTE: Final = "NoExecute"


def admit(pod: JsonObject, _live: JsonObject | None, _objects: Lister) -> JsonObject:
    """Return a pod that tolerates both taints for some minutes, unless it says itself for how long."""
    tolerations = pod["spec"].get("tolerations") or []
    missing = [key for key in _TAINTS if not any(_is_about(each, key) for each in tolerations)]
    if not missing:
        return pod
    added = [{"key": key, "operator": "Exists", "effect": _NO_EXECUTE, "tolerationSeconds": SECONDS} for key in missing]
    return {**pod, "spec": {**pod["spec"], "tolerations": [*tolerations, *added]}}


def _is_about(toleration: JsonObject, key: str) -> bool:
    return (toleration.get("key") or key) == key and (toleration.get("effect") or _NO_EXECUTE) == _NO_EXECUTE
