"""The pods that shall run on this node, and what is known of each: edged's desired state.

Keyed by uid, never by name: a pod that was deleted and made again under the same name is another pod, and
both may be here for a while. Belongs to the edged module's thread.
"""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from edged.api import ContainerStateWaiting, Pod, PodStatus
from edged.pods.conditions import with_conditions_of_others
from edged.pods.labels import ref_of
from edged.pods.model import ContainerId, PodFacts, PodRef, PodUid
from edged.pods.restart import is_terminal
from edged.pods.verdict import Verdict


class PodRecord(msgspec.Struct):
    """One pod."""

    pod: Pod
    """As the cloud wants it; its status is the one this node computed last."""
    facts: PodFacts
    facts_at: float = float("-inf")
    """When the facts were read, monotonic seconds; before they were, nothing is known of what runs."""
    troubles: Mapping[str, ContainerStateWaiting] = {}
    """Why containers could not be started, by name."""
    removed: bool = False
    """The cloud has deleted it for good: nothing of it is to stay on the node."""
    rounds: int = 0
    """Turns in a row that each asked for another one at once."""
    killed: bool = False
    """A worker has ended everything that ran, for good."""
    exchanged: frozenset[ContainerId] = frozenset()
    """Containers that were ended to start others in their place."""
    verdict: Verdict | None = None
    """Why the node itself has ended it, when it has."""

    @property
    def ref(self) -> PodRef:
        """Which pod it is."""
        return self.facts.ref

    @property
    def going(self) -> bool:
        """Whether the cloud wants it to end."""
        return self.removed or self.pod.metadata.deletion_timestamp is not None

    @property
    def ending(self) -> bool:
        """Whether it is to end, whoever wants that."""
        return self.going or self.verdict is not None

    @property
    def to_end(self) -> Pod:
        """The pod with the grace period that its containers get, when it is to end."""
        return self.pod if self.verdict is None or self.going else self.verdict.applied_to(self.pod)

    @property
    def looked_at(self) -> bool:
        """Whether the runtime has been asked about it since edged started."""
        return self.facts_at != float("-inf")


class PodManager:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._records: dict[PodUid, PodRecord] = {}
        self._held: dict[PodUid, Pod] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._records

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[PodRecord]:
        return iter(list(self._records.values()))

    def get(self, uid: PodUid) -> PodRecord | None:
        """The record of a pod."""
        return self._records.get(uid)

    def named(self, namespace: str, name: str) -> list[PodRecord]:
        """Records of a name, newest last."""
        return [r for r in self._records.values() if (r.ref.namespace, r.ref.name) == (namespace, name)]

    def put(self, pod: Pod) -> PodRecord:
        """Take a pod as it came; a known one keeps the status and the facts that this node has of it, and gets
        what others say of it. One that has ended for the cloud has ended (kubelet's generateAPIPodStatus).
        """
        ref = ref_of(pod)
        record = self._records.get(ref.uid)
        if record is None:
            record = self._records[ref.uid] = PodRecord(pod, PodFacts(ref))
        else:
            own = _ended_as(record, pod) if ends(record.pod, pod) else record.pod.status
            record.pod = replace(pod, status=with_conditions_of_others(own, pod.status))
        return record

    def hold(self, pod: Pod, behind: PodUid | None = None) -> None:
        """Keep a pod that may begin only when the one with that uid, its own unless given, is gone from the node."""
        self._held[behind or ref_of(pod).uid] = pod

    def release(self, uid: PodUid) -> Pod | None:
        """The pod that was held behind that uid, held no longer."""
        return self._held.pop(uid, None)

    def drop_held(self, namespace: str, name: str, uid: str = "") -> None:
        """Hold a pod no longer; without a uid: whatever has the name."""
        for behind, pod in list(self._held.items()):
            if (pod.metadata.namespace, pod.metadata.name) == (namespace, name) and uid in ("", ref_of(pod).uid):
                del self._held[behind]

    def set_status(self, record: PodRecord, status: PodStatus) -> bool:
        """Keep the status that was computed; whether it is another one than before."""
        if record.pod.status == status:
            return False
        record.pod = replace(record.pod, status=status)
        return True

    def forget(self, uid: PodUid) -> None:
        """The pod is gone."""
        self._records.pop(uid, None)

    def using(self, kind: str, namespace: str, name: str) -> list[PodRecord]:
        """Records of pods that mount or read a configmap or secret (`kind`: `configmap`, `secret`)."""
        return [
            record
            for record in self._records.values()
            if record.ref.namespace == namespace and name in references(record.pod, kind)
        ]


def ends(known: Pod, pod: Pod) -> bool:
    """Whether a pod has ended for the cloud that has not ended for this node: a former life of the agent said so, and
    the store could not take it, or somebody else has (a controller that collects pods).
    """
    return is_terminal(pod) and not is_terminal(known)


def _ended_as(record: PodRecord, pod: Pod) -> PodStatus:
    """The status of a pod that ends for the cloud. While the runtime was not asked about it, the cloud knows more."""
    status = pod.status
    if not record.looked_at:
        return status
    return replace(record.pod.status, phase=status.phase, reason=status.reason, message=status.message)


def references(pod: Pod, kind: str) -> frozenset[str]:
    """Names of the configmaps or secrets that a pod's volumes and its containers' environments name."""
    names = _in_environments(pod, kind)
    for volume in pod.spec.volumes:
        if kind == "configmap" and volume.config_map is not None:
            names.add(volume.config_map.name)
        if kind == "secret" and volume.secret is not None:
            names.add(volume.secret.secret_name)
        for source in volume.projected.sources if volume.projected is not None else ():
            projected = source.config_map if kind == "configmap" else source.secret
            if projected is not None:
                names.add(projected.name)
    return frozenset(names - {""})


def _in_environments(pod: Pod, kind: str) -> set[str]:
    containers = pod.spec.all_containers
    wholes = [whole for container in containers for whole in container.env_from]
    single = [variable.value_from for container in containers for variable in container.env]
    keys = [source for source in single if source is not None]
    if kind == "configmap":
        return {s.name for s in (*(w.config_map_ref for w in wholes), *(k.config_map_key_ref for k in keys)) if s}
    return {s.name for s in (*(w.secret_ref for w in wholes), *(k.secret_key_ref for k in keys)) if s}
