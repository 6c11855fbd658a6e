"""ControllerRevisions: the templates that a DaemonSet or a StatefulSet has had.

After Kubernetes' `pkg/controller/history`. The data of a revision is the patch that brings its template back.
"""

from typing import Final, NamedTuple

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.conversion import without_null_members
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.controllers.claims import adoptions
from modules.cloud.controllers.plan import PlannedWrite, create, delete, patch
from modules.cloud.controllers.pods import by_age, owner_reference, template_hash, with_same_template
from modules.cloud.controllers.view import View

HASH: Final = "controller-revision-hash"
"""The label of pods with their revision: a DaemonSet's have its hash, a StatefulSet's its name."""
_OF_STATEFUL_SET: Final = "controller.kubernetes.io/hash"
"""The label of a StatefulSet's revision with its hash; a DaemonSet's has the pods' label."""
_KIND: Final = "ControllerRevision"


class Revisions(NamedTuple):
    """The revisions of a workload."""

    present: JsonObject | None
    """The revision of its template, or None if it is still to be made."""
    old: list[JsonObject]
    """The others, the oldest first."""
    writes: tuple[PlannedWrite, ...]
    """The first writes: adoptions, the creation of the present one, or its move to the end."""
    collisions: int
    """The workload's `collisionCount`, with this time if the name of the revision to make is taken."""

    @property
    def hash(self) -> str:
        """The label of pods of the present revision."""
        return hash_of(self.present) if self.present else ""


def hash_of(obj: JsonObject) -> str:
    """Return the hash of the template of a revision or a DaemonSet's pod."""
    labels = obj["metadata"].get("labels") or {}
    return str(labels.get(HASH) or labels.get(_OF_STATEFUL_SET, ""))


def is_of(pod: JsonObject, revision: JsonObject | None) -> bool:
    """Return whether a StatefulSet's pod has a revision; the pods of earlier cloudcores have its hash."""
    return revision is not None and hash_of(pod) in (revision["metadata"].get("name"), hash_of(revision))


def revisions_of(view: View, workload: JsonObject) -> Revisions:
    """Return the revisions of a workload, and the writes that bring them up to date.

    Those of a workload that was deleted without its dependents are adopted: its pods are of them, and need no rollout.
    """
    adopted = adoptions(view, workload, _KIND)
    if adopted:
        return Revisions(None, [], adopted, _collisions(workload))
    found = sorted(view.owned_by(workload, _KIND), key=_order)
    template = workload["spec"].get("template") or {}
    present = with_same_template([(one, _template_of(one)) for one in reversed(found)], template)
    old = [one for one in found if one is not present]
    collisions = _collisions(workload)
    newest = max((int(one.get("revision") or 0) for one in old), default=0)
    if present is None:
        made = _made(workload, template, newest + 1)
        taken = view.find(ObjectKey(_KIND, made["metadata"]["namespace"], made["metadata"]["name"]))
        if taken is not None:
            return Revisions(None, old, (), collisions + 1)
        return Revisions(None, old, (create(made),), collisions)
    if int(present.get("revision") or 0) <= newest:
        return Revisions(present, old, (patch(present, {"revision": newest + 1}),), collisions)
    return Revisions(present, old, (), collisions)


def surplus(workload: JsonObject, revisions: Revisions, used: set[str]) -> tuple[PlannedWrite, ...]:
    """Return the deletions of the oldest revisions beyond `revisionHistoryLimit` that no pod has. A StatefulSet keeps
    that many revisions without pods; a DaemonSet counts the revisions of its pods, too.

    Args:
        workload: a DaemonSet or a StatefulSet.
        revisions: all of the workload.
        used: the hashes of its pods.
    """
    limit = int(workload["spec"].get("revisionHistoryLimit", 10))
    unused = [one for one in revisions.old if hash_of(one) not in used]
    counted = unused if workload["kind"] == "StatefulSet" else revisions.old
    return tuple(map(delete, unused[: max(0, len(counted) - limit)]))


def _collisions(workload: JsonObject) -> int:
    return int((workload.get("status") or {}).get("collisionCount") or 0)


def _template_of(revision: JsonObject) -> object:
    match revision.get("data"):
        case {"spec": {"template": {"$patch": "replace", **template}}}:
            return without_null_members(template)
    return None


def _as_go_writes(template: JsonObject) -> JsonObject:
    """Return the patch that brings a template back, with the order and the null of kube-controller-manager's, which
    compares its bytes.
    """
    metadata = {"creationTimestamp": None, **(template.get("metadata") or {})}
    patch = {**template, "metadata": metadata, "$patch": "replace"}
    written: JsonObject = decode_json(msgspec.json.encode(patch, order="deterministic"))
    return written


def _made(workload: JsonObject, template: JsonObject, revision: int) -> JsonObject:
    suffix = template_hash(template, _collisions(workload))
    label = _OF_STATEFUL_SET if workload["kind"] == "StatefulSet" else HASH
    labels = {**((template.get("metadata") or {}).get("labels") or {}), label: suffix}
    annotations = workload["metadata"].get("annotations")  # such as what `kubectl rollout history` shows of the change
    return {
        "apiVersion": "apps/v1",
        "kind": _KIND,
        "metadata": {
            "name": f"{workload['metadata']['name']}-{suffix}",
            "namespace": workload["metadata"]["namespace"],
            "labels": labels,
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [owner_reference(workload)],
        },
        "data": {"spec": {"template": _as_go_writes(template)}},
        "revision": revision,
    }


def _order(revision: JsonObject) -> tuple[int, float, str]:
    return int(revision.get("revision") or 0), *by_age(revision)
