"""The revisions of a workload: of a Deployment its ReplicaSets, otherwise its ControllerRevisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from modules.tools.kubectl.errors import KubectlError
from modules.tools.kubectl.resources import Listing, ObjectRef, objects_of
from modules.tools.printing.fields import JsonObject, map_at, objects_at, text_at

if TYPE_CHECKING:
    from modules.tools.kubectl.session import Session

_REVISION: Final = "deployment.kubernetes.io/revision"
_CAUSE: Final = "kubernetes.io/change-cause"


class RolloutRevision(NamedTuple):
    """One revision."""

    number: int
    cause: str
    template: JsonObject


def revisions_of(session: Session, ref: ObjectRef, obj: JsonObject) -> list[RolloutRevision]:
    """Return the revisions of a workload, the oldest first.

    Raises:
        KubectlError: a workload of this kind has none.
    """
    if ref.resource.kind not in ("Deployment", "DaemonSet", "StatefulSet"):
        raise KubectlError(f"no history viewer has been implemented for {ref.resource.kind}")
    is_deployment = ref.resource.kind == "Deployment"
    resource = session.discovery.one("replicasets" if is_deployment else "controllerrevisions")
    found, _ = objects_of(session, Listing(resource, ref.namespace))
    uid = text_at(obj, "metadata.uid")
    owned = [
        one for one in found if any(each.get("uid") == uid for each in objects_at(one, "metadata.ownerReferences"))
    ]
    return sorted(map(_of_replica_set if is_deployment else _of_controller_revision, owned))


def history_table(revisions: Sequence[RolloutRevision]) -> str:
    """Return kubectl's table of revisions."""
    rows = [("REVISION", "CHANGE-CAUSE"), *((str(one.number), one.cause or "<none>") for one in revisions)]
    width = max(len(number) for number, _ in rows) + 2
    return "\n".join(f"{number:<{width}}{cause}" for number, cause in rows)


def _of_replica_set(obj: JsonObject) -> RolloutRevision:
    annotations = map_at(obj, "metadata.annotations")
    text = str(annotations.get(_REVISION, "0"))
    number = int(text) if text.isdecimal() else 0
    return RolloutRevision(number, str(annotations.get(_CAUSE, "")), map_at(obj, "spec.template"))


def _of_controller_revision(obj: JsonObject) -> RolloutRevision:
    template = {name: value for name, value in map_at(obj, "data.spec.template").items() if name != "$patch"}
    number = obj.get("revision")
    cause = str(map_at(obj, "metadata.annotations").get(_CAUSE, ""))
    return RolloutRevision(number if isinstance(number, int) else 0, cause, template)
