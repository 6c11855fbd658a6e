"""PodManager: the pods of this node, with a record of each."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from edged.pods.hold import asks_for_release, has_begun
from edged.pods.kill_options import KillOptions
from edged.pods.labels import ref_of
from edged.pods.model import ContainerId, PodFacts, PodRef, PodState, PodUid, with_replaced
from edged.pods.pod_status.conditions import with_conditions_of_others
from edged.pods.pod_status.phase import Phase
from edged.pods.restart import is_terminal
from edged.pods.taken_room import TakenRoom
from modules.apimachinery.pods.static import is_static
from modules.apimachinery.types import ContainerStateWaiting, Pod, PodStatus
from modules.apimachinery.types.versions import order_of_making


class PodRecord(msgspec.Struct):
    """One pod as the cloud has it, with the decisions of this node and the observations of workers and the PLEG.

    Fields are written by the methods only, each by one of them.
    """

    pod: Pod
    """The pod as the cloud sent it, with the status that this node computed last (`update`, `set_status`)."""
    facts: PodFacts
    """Sandboxes and containers that the runtime has (`observe`, `synced`)."""
    deleted: bool = False
    """Whether the cloud has deleted the pod for good: nothing of it stays on the node (`delete`)."""
    deletion_stored: bool = False
    """Whether the store has taken the deletion. Until then it has the pod, and the agent would start it again after a
    kill: the last container of each name stays, for it has the number of restarts (`delete`).
    """

    kill_options: KillOptions | None = None
    """Why this node ends the pod, when it does (`kill`)."""
    deletion_withdrawn: bool = False
    """Whether the cloud has sent the pod without its deletionTimestamp after one with it (`update`). Its containers are
    ending, so it is never synced again, as in a kubelet (podWorkers' terminatingAt).
    """

    facts_at: float = float("-inf")
    """When the facts were read, in monotonic seconds (`observe`, `synced`)."""
    replaced: frozenset[ContainerId] = frozenset()
    """Containers that a worker ended to start others in their place (`synced`)."""
    waiting_reasons: Mapping[str, ContainerStateWaiting] = {}
    """Why containers could not be started, by name (`wait`)."""
    released: bool = False
    """Whether the owner of the node has let it begin, or it has begun (`release`, `observe`, `synced`)."""
    terminated: bool = False
    """Whether a worker has stopped everything that ran, for good (`terminate`)."""

    @property
    def ref(self) -> PodRef:
        """Identity of the pod."""
        return self.facts.ref

    @property
    def state(self) -> PodState:
        """The work that a worker has with the pod."""
        if self.deleted:
            return PodState.TERMINATED
        return PodState.TERMINATING if self.termination_requested else PodState.SYNC

    @property
    def deletion_requested(self) -> bool:
        """Whether the cloud has requested the end of the pod."""
        return self.deleted or self.pod.metadata.deletion_timestamp is not None

    @property
    def termination_requested(self) -> bool:
        """Whether the cloud or this node has requested the end of the pod."""
        return self.deletion_requested or self.deletion_withdrawn or self.kill_options is not None

    @property
    def terminating_pod(self) -> Pod:
        """The pod with the grace period that applies to its end."""
        if self.kill_options is None or self.deletion_requested:
            return self.pod
        return self.kill_options.applied_to(self.pod)

    @property
    def observed(self) -> bool:
        """Whether the runtime has been asked about the pod since edged started."""
        return self.facts_at != float("-inf")

    @property
    def finished(self) -> bool:
        """Whether the pod has a final phase and nothing of it runs."""
        return is_terminal(self.pod) and not self.facts.anything_running

    @property
    def has_terminated(self) -> bool:
        """Whether nothing of the pod still runs, and nothing will."""
        return self.terminated or is_terminal(self.pod)

    @property
    def may_be_killed(self) -> bool:
        """Whether this node may still end the pod: it has not ended, and nobody else ends it."""
        return not (self.termination_requested or is_terminal(self.pod))

    @property
    def is_on_hold(self) -> bool:
        """Whether the pod waits for a release by the owner of the node."""
        return not self.released and not self.termination_requested and asks_for_release(self.pod, self.facts)

    @property
    def _seems_new(self) -> bool:
        return not (self.observed or is_terminal(self.pod) or _has_containers(self.pod.status))

    def update(self, pod: Pod) -> None:
        """Take the pod as the cloud has it now. The status that this node computed stays, with the conditions of others
        added; a pod that has ended for the cloud has ended (kubelet's generateAPIPodStatus). A deletion that the cloud
        takes back still ends the pod, in its grace period. Containers that the cloud has before the runtime was asked
        are an earlier run's, whose status replaces the status of a pod that seemed to be new.
        """
        own = self.pod.status
        if terminated_by_cloud(self.pod, pod):
            own = _ended_as(self, pod)
        elif self._seems_new and _has_containers(pod.status):
            own = pod.status
        metadata, known = pod.metadata, self.pod.metadata
        if metadata.deletion_timestamp is None and (self.deletion_withdrawn or known.deletion_timestamp is not None):
            self.deletion_withdrawn = True
            metadata = replace(metadata, deletion_grace_period_seconds=known.deletion_grace_period_seconds)
        self.pod = replace(pod, metadata=metadata, status=with_conditions_of_others(own, pod.status))

    def set_status(self, status: PodStatus) -> bool:
        """Set the status that this node computed; return whether it differs from the one before."""
        if self.pod.status == status:
            return False
        self.pod = replace(self.pod, status=status)
        return True

    def delete(self, grace_period: int | None = None, *, is_stored: bool = True) -> None:
        """Note that the cloud has deleted the pod, with a grace period in seconds if the deletion states one, and
        whether the deletion is in the store.
        """
        self.deleted = True
        self.deletion_stored = self.deletion_stored or is_stored
        if grace_period is not None:
            metadata = replace(self.pod.metadata, deletion_grace_period_seconds=grace_period)
            self.pod = replace(self.pod, metadata=metadata)

    def kill(self, options: KillOptions) -> None:
        """Note that this node ends the pod."""
        self.kill_options = options

    def observe(self, facts: PodFacts, at: float) -> bool:
        """Take facts that the PLEG has read at `at` (monotonic seconds); return whether they differ from those before.
        Older facts than the known ones are ignored.
        """
        if at < self.facts_at:
            return False
        facts = with_replaced(facts, self.replaced)
        changed = self.facts != facts
        self.facts, self.facts_at = facts, at
        self.released = self.released or has_begun(facts)
        return changed

    def synced(self, facts: PodFacts, at: float, replaced: frozenset[ContainerId]) -> None:
        """Take facts that a worker has read at `at` (monotonic seconds), and the containers that it ended to start
        others in their place. Older facts than the known ones are ignored.
        """
        if at < self.facts_at:
            return
        self.replaced = (self.replaced | replaced) & {container.id for container in facts.containers}
        self.facts, self.facts_at = with_replaced(facts, self.replaced), at
        self.released = self.released or has_begun(facts)

    def release(self) -> None:
        """Note that the owner of the node lets the pod begin."""
        self.released = True

    def wait(self, reasons: Mapping[str, ContainerStateWaiting]) -> None:
        """Note why containers could not be started, by name."""
        self.waiting_reasons = reasons

    def terminate(self) -> None:
        """Note that a worker has stopped everything that ran."""
        self.terminated = True

    def end(self) -> None:
        """Note that only dead containers are left of a deleted pod, which may be removed when the disk is full: its
        phase is final, although the cloud is not told of it.
        """
        self.pod = replace(self.pod, status=replace(self.pod.status, phase=Phase.FAILED))


class HeldPod(NamedTuple):
    """A pod that is held, and whether this state of it is in the store."""

    pod: Pod
    is_stored: bool = True


class PodManager:
    """The pods of this node (kubelet's pod manager): edged's desired state, and the observations of each pod.

    Pods are kept by uid and not by name: a pod that was deleted and created again under its name is another pod, and
    both may be on the node for a while. Lives on the edged module's thread.
    """

    def __init__(self) -> None:
        self._records: dict[PodUid, PodRecord] = {}
        self._named: dict[tuple[str, str], dict[PodUid, PodRecord]] = {}
        """The same records, by namespace and name."""
        self._static: dict[PodUid, PodRecord] = {}
        """The records of static pods."""
        self._held: dict[PodUid, HeldPod] = {}
        self.taken_room = TakenRoom()
        """The room that the admitted pods take, until they end or their end is requested."""

    def __contains__(self, uid: object) -> bool:
        return uid in self._records

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[PodRecord]:
        return iter(list(self._records.values()))

    def get(self, uid: PodUid) -> PodRecord | None:
        """Return the record of a pod; None when it is not known."""
        return self._records.get(uid)

    def pod(self, uid: PodUid) -> Pod | None:
        """Return the pod of a uid; None when it is not known."""
        record = self._records.get(uid)
        return record.pod if record is not None else None

    def active_pods(self) -> list[Pod]:
        """Return the pods whose end nobody has requested."""
        return [record.pod for record in self._records.values() if not record.termination_requested]

    def unterminated_pods(self) -> list[Pod]:
        """Return the pods that may still have running containers."""
        return [record.pod for record in self._records.values() if not record.has_terminated]

    def is_terminated(self, uid: PodUid) -> bool:
        """Return whether nothing of a pod still runs."""
        record = self._records.get(uid)
        return record is None or record.has_terminated

    def by_name(self, namespace: str, name: str, *, static: bool = False) -> list[PodRecord]:
        """Return the records of the cloud's or the static pods of that name, the newest last."""
        return [r for r in self._named.get((namespace, name), {}).values() if is_static(r.pod) is static]

    def static_pods(self) -> list[Pod]:
        """Return the static pods that are not deleted."""
        return [record.pod for record in self._static.values() if not record.deleted]

    def static_names(self) -> set[tuple[str, str]]:
        """Return the namespaces and names of all static pods, also of those that are still ending."""
        return {(record.ref.namespace, record.ref.name) for record in self._static.values()}

    def put(self, pod: Pod) -> PodRecord:
        """Add a pod, or update a known one (`PodRecord.update`); return its record."""
        ref = ref_of(pod)
        record = self._records.get(ref.uid)
        if record is None:
            record = self._records[ref.uid] = PodRecord(pod, PodFacts(ref))
            self._named.setdefault((ref.namespace, ref.name), {})[ref.uid] = record
            if is_static(pod):
                self._static[ref.uid] = record
        else:
            record.update(pod)
        return record

    def hold(self, pod: Pod, behind: PodUid | None = None, *, is_stored: bool = True) -> None:
        """Hold a pod until the pod with the uid `behind` (by default its own) is removed from the node."""
        self._held[behind or ref_of(pod).uid] = HeldPod(pod, is_stored)

    def is_held(self, uid: PodUid) -> bool:
        """Return whether a pod is held behind that uid."""
        return uid in self._held

    def release(self, uid: PodUid) -> HeldPod | None:
        """Stop holding the pod behind that uid, and return it."""
        return self._held.pop(uid, None)

    def drop_held(
        self, namespace: str, name: str, uid: str = "", *, up_to: Pod | None = None, static: bool = False
    ) -> None:
        """Drop a held pod of the cloud, or a static one; without a uid all of that name but pods newer than `up_to`."""
        for behind, (pod, _) in list(self._held.items()):
            is_meant = uid in ("", ref_of(pod).uid) and (up_to is None or not is_newer(pod, up_to))
            is_named = (pod.metadata.namespace, pod.metadata.name) == (namespace, name)
            if is_named and is_meant and is_static(pod) is static:
                del self._held[behind]

    def forget(self, uid: PodUid) -> None:
        """Drop the record of a pod."""
        record = self._records.pop(uid, None)
        if record is None:
            return
        self.taken_room.remove(uid)
        self._static.pop(uid, None)
        named = self._named[record.ref.namespace, record.ref.name]
        del named[uid]
        if not named:
            del self._named[record.ref.namespace, record.ref.name]

    def referencing(self, kind: str, namespace: str, name: str) -> list[PodRecord]:
        """Return the records of pods that mount or read a configmap or secret (`kind`: `configmap`, `secret`)."""
        return [
            record
            for record in self._records.values()
            if record.ref.namespace == namespace and name in references(record.pod, kind)
        ]


def terminated_by_cloud(known: Pod, pod: Pod) -> bool:
    """Return whether a pod has ended for the cloud and not for this node: the agent reported that before its restart,
    and the store could not take it, or a controller that collects pods has ended it.
    """
    return is_terminal(pod) and not is_terminal(known)


def is_newer(pod: Pod, other: Pod) -> bool:
    """Return whether a pod was created after another one of its name."""
    return order_of_making(pod.metadata) > order_of_making(other.metadata)


def same_spec(known: Pod, pod: Pod) -> bool:
    """Return whether two versions of a pod have the same spec and metadata."""
    meta = replace(pod.metadata, resource_version=known.metadata.resource_version)
    return known.spec == pod.spec and known.metadata == meta


def _has_containers(status: PodStatus) -> bool:
    """Return whether a status has a container that the runtime has made."""
    reported = (status.init_container_statuses or (), status.container_statuses or ())
    return any(each.container_id for each in chain(*reported))


def _ended_as(record: PodRecord, pod: Pod) -> PodStatus:
    """Return the status of a pod that has ended for the cloud. Before the runtime was asked, the cloud knows more."""
    status = pod.status
    if not record.observed:
        return status
    return replace(record.pod.status, phase=status.phase, reason=status.reason, message=status.message)


def references(pod: Pod, kind: str) -> frozenset[str]:
    """Return the names of the configmaps or secrets in a pod's volumes and its containers' environments."""
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
