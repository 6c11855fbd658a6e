"""The mirrors of static pods in the cloud (kubelet's mirror client)."""

import logging

import msgspec

from beehive import ResourceType
from edged.node.api_answers import read_answer
from edged.node.state import LocalNode
from edged.pods.labels import ref_of
from edged.pods.manager import PodManager
from edged.pods.model import PodUid
from edged.static_pods.manifest import CONFIG_HASH
from edged.status.manager import StatusManager
from metamanager.client import AlreadyExistsError, AsyncMetaClient, CallError, ConflictError, NotFoundError
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.apimachinery.types import DeleteOptions, Node, OwnerReference, Pod, Preconditions, encode
from modules.apimachinery.types.versions import version_number

_log = logging.getLogger(__name__)

_Name = tuple[str, str]
"""Namespace and name, which a static pod and its mirror share."""


class MirrorPods:
    """The creation and deletion of mirror pods, on the edged module's thread (kubelet's handleMirrorPod).

    A static pod has no object in the cloud, so the node creates a mirror of it there, and reports the pod's status as
    the mirror's. Changes of a mirror do not change the pod: a deleted mirror is created again, and a mirror without a
    static pod is deleted.

    Args:
        meta: creates and deletes mirrors.
        reporter: reports a pod's status as its mirror's.
        pods: of this node.
        node: this node; no mirror can be created until it is registered.
    """

    def __init__(
        self,
        meta: AsyncMetaClient,
        reporter: StatusManager,
        pods: PodManager,
        node: LocalNode,
    ) -> None:
        self._meta = meta
        self._reporter = reporter
        self._pods = pods
        self._node = node
        self._mirrors: dict[_Name, Pod] = {}
        self._busy: dict[_Name, str] = {}
        """Mirrors with a pending request to the cloud, and the uid of the mirror that was removed meanwhile, if any."""
        self._complete = False

    def cloud_pods_listed(self) -> None:
        """Delete mirrors without a static pod from now on: all static pods are known."""
        self._complete = True
        self.sync()

    def mirror_added(self, mirror: Pod) -> None:
        """Note a mirror of the cloud."""
        self._mirrors[_name(mirror)] = mirror
        self.sync()

    def mirror_removed(self, namespace: str, name: str, uid: str) -> bool:
        """Note a deletion in the cloud. Return whether it was a mirror's."""
        mirror = self._mirrors.get((namespace, name))
        if mirror is None or uid not in ("", mirror.metadata.uid):
            return False
        del self._mirrors[namespace, name]
        if (namespace, name) in self._busy:
            self._busy[namespace, name] = mirror.metadata.uid
        for pod in self._pods.static_pods():
            if _name(pod) == (namespace, name):
                self._reporter.forget_mirror(ref_of(pod).uid)
        self.sync()
        return True

    def _answered(self, mirror: Pod, removed: str = "") -> None:
        """Note the mirror of an answer, unless a later message has overtaken it: a newer version, or the deletion of
        uid `removed`; then another mirror is created.
        """
        known = self._mirrors.get(_name(mirror))
        if removed == mirror.metadata.uid or (known is not None and _is_older(mirror, known)):
            self.sync()
        else:
            self.mirror_added(mirror)

    def sync(self) -> None:
        """Create missing mirrors and delete superfluous ones, as far as known. The mirror of a static pod whose file is
        gone or has changed stays until nothing of the pod runs (kubelet's IsPodForMirrorPodTerminatingByFullName).
        """
        if not self._complete:
            return
        names = self._pods.static_names()
        static_pods = {_name(pod): pod for pod in self._pods.static_pods()}
        for name, mirror in list(self._mirrors.items()):
            pod = static_pods.get(name)
            if pod is not None and _stands_for(mirror, pod):
                self._reporter.set_mirror(ref_of(pod).uid, mirror)
            elif pod is not None or name not in names:
                self._delete(mirror)
        for name, pod in static_pods.items():
            if name not in self._mirrors:
                self._create(pod)

    def _create(self, pod: Pod) -> None:
        node, name = self._node.state.registered, _name(pod)
        if node is None or name in self._busy:
            return
        self._busy[name] = ""

        def done(answer: bytes | CallError) -> None:
            removed = self._busy.pop(name)
            if isinstance(answer, bytes):
                self._made(pod, answer, removed)
            elif isinstance(answer, AlreadyExistsError):
                self._query(name)
            else:
                _log.debug("the mirror of static pod %s is not made yet: %s", ref_of(pod), answer)

        self._meta.create(ResourceType.POD, *name, encode(mirror_of(pod, node)), then=done)

    def _query(self, name: _Name) -> None:
        """Get the cloud's pod of that name: an unknown older mirror, or another pod."""

        def done(answer: bytes | CallError) -> None:
            pod = read_answer(Pod, answer)
            if pod is not None and CONFIG_MIRROR in pod.metadata.annotations:
                self._answered(pod)
            elif pod is not None:
                _log.warning("static pod %s/%s has no mirror: the cloud has another pod of its name", *name)

        self._meta.get(ResourceType.POD, *name, then=done)

    def _made(self, pod: Pod, answer: bytes, removed: str) -> None:
        mirror = read_answer(Pod, answer)
        if mirror is not None and mirror.metadata.uid and CONFIG_MIRROR in mirror.metadata.annotations:
            _log.info("static pod %s has a mirror in the cloud", ref_of(pod))
            self._answered(mirror, removed)

    def _delete(self, mirror: Pod) -> None:
        """Delete a mirror with a grace period of 0, because it has no containers.

        NotFound and Conflict (another uid) mean that it is already gone, before or without a message about it.
        """
        name = _name(mirror)
        if name in self._busy:
            return
        self._busy[name] = ""

        def done(answer: CallError | None) -> None:
            del self._busy[name]
            if isinstance(answer, CallError) and not isinstance(answer, NotFoundError | ConflictError):
                _log.debug("the mirror %s/%s is not deleted yet: %s", *name, answer)
            elif self._mirrors.get(name) is mirror:
                del self._mirrors[name]

        options = DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(uid=PodUid(mirror.metadata.uid)))
        self._meta.delete(ResourceType.POD, *name, encode(options), then=done)


def mirror_of(pod: Pod, node: Node) -> Pod:
    """Return the mirror of a static pod. The node owns it, so it is deleted with the node."""
    metadata = pod.metadata
    owner = OwnerReference(
        api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid, controller=True
    )
    annotations = {**metadata.annotations, CONFIG_MIRROR: metadata.annotations[CONFIG_HASH]}
    changed = msgspec.structs.replace(metadata, uid="", annotations=annotations, owner_references=(owner,))
    return msgspec.structs.replace(pod, metadata=changed)


def _stands_for(mirror: Pod, pod: Pod) -> bool:
    """Return whether the mirror is this pod's and stays. A mirror with a deletionTimestamp waits for its node: it is
    deleted at once and created again (kubelet's syncPod).
    """
    same = mirror.metadata.annotations[CONFIG_MIRROR] == pod.metadata.annotations[CONFIG_HASH]
    return same and mirror.metadata.deletion_timestamp is None


def _is_older(mirror: Pod, known: Pod) -> bool:
    """Return whether it is an older version of the known mirror."""
    if mirror.metadata.uid != known.metadata.uid:
        return False
    return version_number(mirror.metadata.resource_version) < version_number(known.metadata.resource_version)


def _name(pod: Pod) -> _Name:
    return pod.metadata.namespace, pod.metadata.name
