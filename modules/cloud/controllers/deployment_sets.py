"""The ReplicaSets of a Deployment: which one is new, their revisions, sizes and annotations.

After Kubernetes 1.32, `pkg/controller/deployment/util`.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from beehive.whole_numbers import whole_number
from modules.apimachinery.kinds import LAST_APPLIED, JsonObject
from modules.cloud.controllers.pods import by_age, with_same_template

HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED: Final = (LAST_APPLIED, REVISION, HISTORY, DESIRED, MOST)
_LONGEST_HISTORY: Final = 2000


class Bounds(msgspec.Struct, frozen=True):
    """Distances that a Deployment's pods may have from the wanted number."""

    surge: int
    unavailable: int


def bounds_of(deployment: JsonObject) -> Bounds:
    """Return the bounds of a Deployment: percentages of its replicas, of a surge rounded up, otherwise down."""
    spec = deployment["spec"]
    replicas = wanted(deployment)
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return Bounds(0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled_value(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(surge, min(unavailable, replicas))


def scaled_value(value: Any, total: int, *, up: bool) -> int:
    """Return a number, or a percentage of a total as a number (GetScaledValueFromIntOrPercent)."""
    if isinstance(value, str) and value.endswith("%"):
        part = (whole_number(value[:-1]) or 0) * total
        return -(-part // 100) if up else part // 100
    return value if isinstance(value, int) else 0


def wanted(obj: JsonObject) -> int:
    """Return the wanted replicas of a Deployment or a ReplicaSet."""
    return int(obj["spec"].get("replicas", 1))


def counted(obj: JsonObject, field: str) -> int:
    """Return a number of replicas in an object's status."""
    return int((obj.get("status") or {}).get(field) or 0)


def total(sets: Iterable[JsonObject]) -> int:
    """Return the wanted replicas of several ReplicaSets."""
    return sum(map(wanted, sets))


def without_hash(template: JsonObject) -> JsonObject:
    """Return a template without the label with its hash."""
    metadata = template.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH}
    kept = {name: value for name, value in metadata.items() if name not in ("labels", "creationTimestamp")}
    return {**template, "metadata": {**kept, "labels": labels}}


def new_set(sets: Iterable[JsonObject], deployment: JsonObject) -> JsonObject | None:
    """Return the oldest ReplicaSet with the Deployment's template, or None."""
    found = [(one, without_hash(one["spec"].get("template") or {})) for one in oldest_first(sets)]
    return with_same_template(found, without_hash(deployment["spec"].get("template") or {}))


def oldest_first(sets: Iterable[JsonObject]) -> list[JsonObject]:
    """Return ReplicaSets by their age."""
    return sorted(sets, key=by_age)


def revision_of(obj: JsonObject) -> int:
    """Return the revision of a ReplicaSet or a Deployment, or 0."""
    return whole_number((obj["metadata"].get("annotations") or {}).get(REVISION)) or 0


def annotations_for(deployment: JsonObject, replica_set: JsonObject | None, revision: int) -> JsonObject:
    """Return the annotations of the new ReplicaSet (SetNewReplicaSetAnnotations).

    Args:
        deployment: the Deployment, whose annotations are copied.
        replica_set: the ReplicaSet; None: it is about to be made.
        revision: the newest one.
    """
    given = deployment["metadata"].get("annotations") or {}
    copied = {name: value for name, value in given.items() if name not in _NOT_COPIED}
    if replica_set is None:
        return {**copied, REVISION: str(revision), **size_annotations(deployment)}
    own = dict(replica_set["metadata"].get("annotations") or {})
    before = revision_of(replica_set)
    if before < revision:
        own[REVISION] = str(revision)
        if before:
            own[HISTORY] = _with_revision(str(own.get(HISTORY, "")), before)
    return {**own, **copied}


def size_annotations(deployment: JsonObject) -> JsonObject:
    """Return the annotations that reveal a later change of the Deployment's replicas."""
    replicas = wanted(deployment)
    return {DESIRED: str(replicas), MOST: str(replicas + bounds_of(deployment).surge)}


def has_other_size(replica_set: JsonObject, deployment: JsonObject) -> bool:
    """Return whether the Deployment was scaled since its ReplicaSet was written."""
    desired = whole_number((replica_set["metadata"].get("annotations") or {}).get(DESIRED))
    return desired is not None and desired != wanted(deployment)


def proportional_sizes(deployment: JsonObject, sets: Sequence[JsonObject]) -> dict[str, int]:
    """Return the sizes of the ReplicaSets, by name, of a Deployment that is scaled in the middle of a rollout."""
    replicas = wanted(deployment)
    allowed = replicas + bounds_of(deployment).surge if replicas > 0 else 0
    to_add, added = allowed - total(sets), 0
    ordered = oldest_first(sets)
    if to_add > 0:
        ordered.reverse()
    ordered.sort(key=wanted, reverse=True)  # which leaves equal ones in their order
    sizes = {}
    for one in ordered:
        share = _share(one, deployment, to_add, added)
        sizes[_name(one)] = wanted(one) + share
        added += share
    if ordered and to_add:
        first = _name(ordered[0])
        sizes[first] = max(0, sizes[first] + to_add - added)
    return sizes


def _share(replica_set: JsonObject, deployment: JsonObject, to_add: int, added: int) -> int:
    size, replicas = wanted(replica_set), wanted(deployment)
    if size == 0 or to_add in (0, added):
        return 0
    if replicas == 0:
        fraction = -size
    else:
        most = whole_number((replica_set["metadata"].get("annotations") or {}).get(MOST))
        base = most or counted(deployment, "replicas") or replicas
        fraction = math.floor(size * (replicas + bounds_of(deployment).surge) / base + 0.5) - size
    rest = to_add - added
    return min(fraction, rest) if to_add > 0 else max(fraction, rest)


def _with_revision(history: str, revision: int) -> str:
    revisions = [*filter(None, history.split(",")), str(revision)]
    while len(",".join(revisions)) > _LONGEST_HISTORY:
        revisions.pop(0)
    return ",".join(revisions)


def _name(obj: JsonObject) -> str:
    return str(obj["metadata"]["name"])
