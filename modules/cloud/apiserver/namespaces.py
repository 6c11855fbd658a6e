"""Namespaces: their defaults, and the deletion of their objects with them.

Objects may be in a namespace that was never created, so a deleted namespace ends at once. Its objects end by
themselves: pods in their grace periods.
"""

from typing import Final

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, ObjectKey

SYSTEM: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
"""Those that an API server makes itself."""
_IMMORTAL: Final = frozenset(SYSTEM) - {"kube-node-lease"}
_NAMESPACE: Final = "Namespace"
_LABEL: Final = "kubernetes.io/metadata.name"


def with_namespace_defaults(namespace: JsonObject) -> JsonObject:
    """Return a namespace with the label of its name, the finalizer of its contents, and the phase of a new one."""
    metadata, spec = namespace["metadata"], namespace.get("spec") or {}
    labels = {**(metadata.get("labels") or {}), _LABEL: metadata["name"]}
    return {
        **namespace,
        "metadata": {**metadata, "labels": labels},
        "spec": {"finalizers": ["kubernetes"], **spec},
        "status": {"phase": "Active", **(namespace.get("status") or {})},
    }


def check_deletion(key: ObjectKey) -> None:
    """Check that an object is not a namespace that stays for ever (admission plug-in NamespaceLifecycle).

    Raises:
        ForbiddenError: it is one.
    """
    if key.kind == _NAMESPACE and key.name in _IMMORTAL:
        raise ForbiddenError("namespaces", key.name, "this namespace may not be deleted")
