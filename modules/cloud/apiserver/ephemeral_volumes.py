"""Makes the claims of generic ephemeral volumes (KCM's `pkg/controller/volume/ephemeral`)."""

from functools import partial
from typing import Final

from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_of, kind_named, uid_of
from modules.apimachinery.pod_references import ephemeral_volumes_of, why_not_for
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.reconciler import Attempt, Reconciler
from modules.cloud.storage.object_storage import EventType, ObjectEvent

_POD: Final = kind_named("Pod")
_CLAIM: Final = kind_named("PersistentVolumeClaim")
_REPORTER: Final = "ephemeral_volume"
_LIMITS: Final = ("ResourceQuota", "LimitRange")
"""The kinds whose changes may let a claim be made that was refused."""


class EphemeralVolumes(Reconciler):
    """The reconciler that makes a claim for each generic ephemeral volume of a pod; with the pod, it is collected.

    A claim that is refused, by a quota for instance, is made when that may have changed. A claim of the name that was
    not made for the pod stays as it is. In both cases, the pod waits, and an Event says why.

    Args:
        cluster: the objects.
    """

    name = "ephemeral-volume-controller"
    kinds = (_POD.key_name, _CLAIM.key_name, *_LIMITS)
    is_of_statuses = False

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._due: set[ObjectKey] = set()
        """Pods that may lack a claim."""
        self._refused: set[ObjectKey] = set()
        """Pods whose claims were refused."""

    def load(self) -> None:
        """Have all pods looked at."""
        self.reset()

    def reset(self) -> None:
        """Have all pods looked at again."""
        pods = self._cluster.storage.list(_POD)
        self._due = {key_of(pod) for pod in pods if any(ephemeral_volumes_of(pod))}

    def handle_event(self, event: ObjectEvent) -> None:
        """Forget a pod that is gone."""
        if event.key.kind == _POD.key_name and event.type is EventType.DELETED:
            self._refused.discard(event.key)

    def handle_own(self, event: ObjectEvent) -> None:
        """Note the pods that may lack a claim after a change."""
        key = event.key
        if key.kind == _POD.key_name:
            if event.type is EventType.ADDED and any(ephemeral_volumes_of(event.new)):
                self._due.add(key)
        elif key.kind in _LIMITS or event.type is EventType.DELETED:
            again = {pod for pod in self._refused if pod.namespace == key.namespace}
            self._refused -= again
            self._due |= again
            if key.kind == _CLAIM.key_name:
                self._due |= self._pods_that_lack(key)

    def _pods_that_lack(self, claim: ObjectKey) -> set[ObjectKey]:
        """Return the pods whose volume a claim may have been for: their names are in front of one of its hyphens."""
        parts = claim.name.split("-")
        names = ("-".join(parts[:end]) for end in range(1, len(parts)))
        return {ObjectKey(_POD.key_name, claim.namespace, name) for name in names}

    def reconcile(self, attempt: Attempt, *, is_turn: bool) -> bool:  # noqa: ARG002 - it is done in one part
        """Make the claims that are missing."""
        due, self._due = self._due, set()
        for key in sorted(due):
            pod = self._cluster.storage.find(key)
            if pod is not None and not is_being_deleted(pod) and any(ephemeral_volumes_of(pod)):
                attempt(partial(self._make, key, pod))
        return False

    def _make(self, key: ObjectKey, pod: JsonObject) -> None:
        """Make the missing claims of a pod, up to the first that cannot be made."""
        for claim, volume in ephemeral_volumes_of(pod):
            found = self._cluster.storage.find(claim)
            why = "" if found is None else why_not_for(pod, found)
            if found is None:
                try:
                    with self._cluster.within_quotas():
                        self._cluster.create(_claim_for(pod, claim, volume))
                except ApiError as error:
                    self._refused.add(key)
                    why = f"create PVC {claim.name}: {error.message}"
            if why:
                words = f"ephemeral volume {volume['name']}: {why}"
                self._cluster.report(pod, ("Warning", "FailedBinding", words), _REPORTER)
                return


def _claim_for(pod: JsonObject, claim: ObjectKey, volume: JsonObject) -> JsonObject:
    template = volume["ephemeral"].get("volumeClaimTemplate") or {}
    given = template.get("metadata") or {}
    owner = {
        "apiVersion": "v1",
        "kind": _POD.name,
        "name": pod["metadata"]["name"],
        "uid": uid_of(pod),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "name": claim.name,
        "namespace": claim.namespace,
        **{field: given[field] for field in ("labels", "annotations") if given.get(field)},
        "ownerReferences": [owner],
    }
    spec = template.get("spec") or {}
    return {"kind": _CLAIM.name, "apiVersion": _CLAIM.api_version, "metadata": metadata, "spec": spec}
