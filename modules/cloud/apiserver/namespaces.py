"""Namespaces: their defaults, and what may be done to them and in them.

Objects may be in a namespace that was never created.
"""

from typing import Final

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.graceful_deletion import content_finalizers_of
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey

SYSTEM_NAMESPACE: Final = "kube-system"
SYSTEM: Final = ("default", "kube-node-lease", "kube-public", SYSTEM_NAMESPACE)
"""The namespaces that an API server makes itself."""
CONTENTS: Final = "kubernetes"
"""The finalizer in the spec of a namespace that goes when its contents are deleted."""
TERMINATING: Final = "Terminating"
"""The phase of a namespace that is being deleted."""

_IMMORTAL: Final = frozenset(SYSTEM) - {"kube-node-lease"}
_NAMESPACE: Final = "Namespace"
_LABEL: Final = "kubernetes.io/metadata.name"


def with_namespace_defaults(namespace: JsonObject) -> JsonObject:
    """Return a namespace with the label of its name, and the phase of a new one."""
    metadata = namespace["metadata"]
    labels = {**(metadata.get("labels") or {}), _LABEL: metadata["name"]}
    return {**namespace, "metadata": {**metadata, "labels": labels}, "status": {"phase": "Active"}}


def with_content_finalizer(namespace: JsonObject) -> JsonObject:
    """Return a new namespace with the finalizer of its contents."""
    spec, finalizers = namespace.get("spec") or {}, content_finalizers_of(namespace)
    return {
        **namespace,
        "spec": {**spec, "finalizers": finalizers if CONTENTS in finalizers else [*finalizers, CONTENTS]},
    }


def with_stored_state(namespace: JsonObject, live: JsonObject) -> JsonObject:
    """Return a namespace of an update with what an update does not change (Kubernetes' namespaceStrategy)."""
    kept: JsonObject = {name: live[name] for name in ("spec", "status") if name in live}
    labels = {**(namespace["metadata"].get("labels") or {}), _LABEL: namespace["metadata"]["name"]}
    others = {name: value for name, value in namespace.items() if name not in ("spec", "status")}
    return {**others, **kept, "metadata": {**namespace["metadata"], "labels": labels}}


def terminating(namespace: JsonObject, since: str) -> JsonObject:
    """Return a namespace whose deletion begins."""
    status = {**(namespace.get("status") or {}), "phase": TERMINATING}
    metadata = {"deletionTimestamp": since, **namespace["metadata"]}
    return {**namespace, "metadata": metadata, "status": status}


def finalized(namespace: JsonObject, finalizers: list[str]) -> JsonObject:
    """Return a namespace with other finalizers in its spec, as its subresource `finalize` sets them."""
    spec = {name: value for name, value in (namespace.get("spec") or {}).items() if name != "finalizers"}
    return {**namespace, "spec": {**spec, "finalizers": finalizers} if finalizers else spec}


def check_deletion(key: ObjectKey) -> None:
    """Check that an object is not a namespace that stays for ever (admission plug-in NamespaceLifecycle).

    Raises:
        ForbiddenError: it is one.
    """
    if key.kind == _NAMESPACE and key.name in _IMMORTAL:
        raise ForbiddenError("namespaces", key.name, "this namespace may not be deleted")


def being_terminated(kind: Kind, key: ObjectKey) -> ForbiddenError:
    """Return the error for a new object in a namespace that is being deleted (admission plug-in NamespaceLifecycle)."""
    of = key.namespace
    why = f"unable to create new content in namespace {of} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {of} is being terminated",
        "field": "metadata.namespace",
    }
    return ForbiddenError(kind.plural, key.name, why, kind.api_group, (cause,))
