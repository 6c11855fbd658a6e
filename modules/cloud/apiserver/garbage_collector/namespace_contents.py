"""Plans the deletion of the contents of a namespace that is being deleted (Kubernetes' namespace controller)."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Final, Protocol

from modules.apimachinery.graceful_deletion import BACKGROUND, content_finalizers_of, finalizers_of
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, is_being_deleted, uid_of
from modules.cloud.apiserver.garbage_collector.plan import MOST, Action, Deletion, NewState
from modules.cloud.apiserver.namespaces import CONTENTS, finalized

_SETTLED: Final = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""The conditions of a namespace without contents, by type, with reason and message; their status is False."""


class Contents(Protocol):
    """The objects in a namespace."""

    def contents_of(self, namespace: str) -> Iterable[tuple[Kind, ObjectKey]]:
        """Yield the objects in a namespace, with their kinds."""

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return an object, or None."""


def plan_of_namespace(view: Contents, namespace: JsonObject, now: str) -> list[Action]:
    """Return the deletions of a namespace's contents; if all were begun, its new state, if that is another.

    Args:
        view: the objects.
        namespace: is being deleted.
        now: the present time.
    """
    if CONTENTS not in content_finalizers_of(namespace):
        return []
    remaining = [(kind, obj) for kind, key in view.contents_of(namespace["metadata"]["name"])
                 if (obj := view.find(key)) is not None]  # fmt: skip
    unmarked = ((kind, obj) for kind, obj in remaining if not is_being_deleted(obj))
    deletions = [Deletion(_key(kind, obj), uid_of(obj), BACKGROUND) for kind, obj in islice(unmarked, MOST)]
    if deletions:
        return [*deletions]
    if not remaining:
        kept = [name for name in content_finalizers_of(namespace) if name != CONTENTS]
        return [NewState(_with_conditions(finalized(namespace, kept), {}, now))]
    told = _with_conditions(namespace, _reasons(remaining), now)
    return [] if told is namespace else [NewState(told)]


def _key(kind: Kind, obj: JsonObject) -> ObjectKey:
    return ObjectKey(kind.key_name, obj["metadata"]["namespace"], obj["metadata"]["name"])


def _reasons(remaining: list[tuple[Kind, JsonObject]]) -> dict[str, tuple[str, str]]:
    """Return the reasons and messages of the conditions that are True, by type."""
    resources = Counter(f"{kind.plural}.{kind.api_group}" for kind, _ in remaining)
    finalizers = Counter(name for _, obj in remaining for name in finalizers_of(obj))
    counted = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(resources.items()))
    found = {"NamespaceContentRemaining": ("SomeResourcesRemain", f"Some resources are remaining: {counted}")}
    if finalizers:
        held = ", ".join(f"{name[:253]} in {count} resource instances" for name, count in _first(finalizers))
        about = f"Some content in the namespace has finalizers remaining: {held}"
        found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", about)
    return found


def _first(finalizers: Counter[str]) -> list[tuple[str, int]]:
    return sorted(finalizers.items())[:20]


def _with_conditions(namespace: JsonObject, reasons: dict[str, tuple[str, str]], now: str) -> JsonObject:
    """Return the namespace with its conditions; the same object if it has them already."""
    status = namespace.get("status") or {}
    before = {one.get("type"): one for one in status.get("conditions") or [] if isinstance(one, dict)}
    conditions: list[JsonObject] = []
    for kind, settled in _SETTLED.items():
        reason, message = reasons.get(kind, settled)
        told = {"type": kind, "status": str(kind in reasons), "reason": reason, "message": message}
        old = before.get(kind, {})
        since = old.get("lastTransitionTime") if old.get("status") == told["status"] else None
        conditions.append({**told, "lastTransitionTime": since or now})
    if conditions == status.get("conditions"):
        return namespace
    return {**namespace, "status": {**status, "conditions": conditions}}
