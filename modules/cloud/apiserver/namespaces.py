"""Namespaces: their defaults, and the deletion of their objects with them.

Objects may be in a namespace that was never created, so a deleted namespace ends at once. Its objects end by
themselves: pods in their grace periods.
"""

from typing import Final

from modules.cloud.apiserver.kinds import JsonObject

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
