"""Static pods in the cloud: a mirror of each, so that people there see it and how it is.

Nobody in the cloud asked for a static pod, so the node creates an object for it there, and reports the pod's status as
that object's. What the cloud says of a mirror does not change the pod: a mirror that is deleted is made again, one of a
pod that is not here any more is deleted (kubelet's handleMirrorPod). Lives on the edged module's thread.
"""

import logging
from collections.abc import Callable, Iterable

import msgspec

from beehive import ResourceType
from edged.api import DeleteOptions, Node, OwnerReference, Pod, Preconditions, decode, encode
from edged.api.codec import DecodeError
from edged.api.versions import version_number
from edged.pods.critical import CONFIG_MIRROR
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.report.pods import PodReporter
from edged.static_pods.manifest import CONFIG_HASH
from metamanager.client import AlreadyExistsError, CallError, ConflictError, MetaTurnClient, NotFoundError

_log = logging.getLogger(__name__)

_Name = tuple[str, str]
"""Namespace and name, which a static pod and its mirror share."""


class Mirrors:
    """See the module's docstring.

    Args:
        static_pods: those that are here and wanted.
        node: as the cloud has it; None while it has not said so: then no mirror can be made.
    """

    def __init__(
        self,
        meta: MetaTurnClient,
        reporter: PodReporter,
        static_pods: Callable[[], Iterable[Pod]],
        node: Callable[[], Node | None],
    ) -> None:
        self._meta = meta
        self._reporter = reporter
        self._static_pods = static_pods
        self._node = node
        self._mirrors: dict[_Name, Pod] = {}
        self._busy: dict[_Name, str] = {}
        """Those of whom the cloud is asked something; with the uid of the mirror that has gone since, if one has."""
        self._complete = False

    def listed(self) -> None:
        """All static pods are known: from now on a mirror without one is deleted."""
        self._complete = True
        self.tick()

    def seen(self, mirror: Pod) -> None:
        """The cloud has this mirror."""
        self._mirrors[_name(mirror)] = mirror
        self.tick()

    def gone(self, namespace: str, name: str, uid: str) -> bool:
        """The cloud has an object no more; whether it was a mirror."""
        mirror = self._mirrors.get((namespace, name))
        if mirror is None or uid not in ("", mirror.metadata.uid):
            return False
        del self._mirrors[namespace, name]
        if (namespace, name) in self._busy:
            self._busy[namespace, name] = mirror.metadata.uid
        for pod in self._static_pods():
            if _name(pod) == (namespace, name):
                self._reporter.unmirrored(ref_of(pod).uid)
        self.tick()
        return True

    def _answered(self, mirror: Pod, gone: str = "") -> None:
        """An answer has this mirror. What the cloud said since may have overtaken it: that it is otherwise now, or that
        it is gone (`gone`: the uid of the one that is), and then another is made.
        """
        known = self._mirrors.get(_name(mirror))
        if gone == mirror.metadata.uid or (known is not None and _is_older(mirror, known)):
            self.tick()
        else:
            self.seen(mirror)

    def tick(self) -> None:
        """Make what is missing and delete what is too much, as far as can be told now."""
        if not self._complete:
            return
        wanted = {_name(pod): pod for pod in self._static_pods()}
        for name, mirror in list(self._mirrors.items()):
            pod = wanted.get(name)
            if pod is not None and _stands_for(mirror, pod):
                self._reporter.mirrored(ref_of(pod).uid, mirror)
            else:
                self._delete(mirror)
        for name, pod in wanted.items():
            if name not in self._mirrors:
                self._create(pod)

    def _create(self, pod: Pod) -> None:
        node, name = self._node(), _name(pod)
        if node is None or name in self._busy:
            return
        self._busy[name] = ""

        def done(answer: bytes | CallError) -> None:
            gone = self._busy.pop(name)
            if isinstance(answer, bytes):
                self._made(pod, answer, gone)
            elif isinstance(answer, AlreadyExistsError):
                self._look_up(name)
            else:
                _log.debug("the mirror of static pod %s is not made yet: %s", ref_of(pod), answer)

        self._meta.create(ResourceType.POD, *name, encode(mirror_of(pod, node)), then=done)

    def _look_up(self, name: _Name) -> None:
        """The cloud has a pod of that name that we have not heard of: an older mirror, or one that is none."""

        def done(answer: bytes | CallError) -> None:
            pod = _read(answer)
            if pod is not None and CONFIG_MIRROR in pod.metadata.annotations:
                self._answered(pod)
            elif pod is not None:
                _log.warning("static pod %s/%s has no mirror: the cloud has another pod of its name", *name)

        self._meta.get(ResourceType.POD, *name, then=done)

    def _made(self, pod: Pod, answer: bytes, gone: str) -> None:
        mirror = _read(answer)
        if mirror is not None and mirror.metadata.uid and CONFIG_MIRROR in mirror.metadata.annotations:
            _log.info("static pod %s has a mirror in the cloud", ref_of(pod))
            self._answered(mirror, gone)

    def _delete(self, mirror: Pod) -> None:
        """With a grace of none: nothing runs for it that it could wait for. What the cloud has not, or has under
        another uid, is gone, whether or not it has said so.
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
    """The object that stands for a static pod. It belongs to the node, and goes with it."""
    metadata = pod.metadata
    owner = OwnerReference(
        api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid, controller=True
    )
    annotations = {**metadata.annotations, CONFIG_MIRROR: metadata.annotations[CONFIG_HASH]}
    changed = msgspec.structs.replace(metadata, uid="", annotations=annotations, owner_references=(owner,))
    return msgspec.structs.replace(pod, metadata=changed)


def _stands_for(mirror: Pod, pod: Pod) -> bool:
    """Whether it is this pod's mirror, and stays. One that somebody deletes waits for its node to end it: it goes at
    once, and another comes in its place (kubelet's syncPod).
    """
    same = mirror.metadata.annotations[CONFIG_MIRROR] == pod.metadata.annotations[CONFIG_HASH]
    return same and mirror.metadata.deletion_timestamp is None


def _is_older(mirror: Pod, known: Pod) -> bool:
    """Whether it is the same mirror as it was before."""
    if mirror.metadata.uid != known.metadata.uid:
        return False
    return version_number(mirror.metadata.resource_version) < version_number(known.metadata.resource_version)


def _name(pod: Pod) -> _Name:
    return pod.metadata.namespace, pod.metadata.name


def _read(answer: bytes | CallError) -> Pod | None:
    if isinstance(answer, CallError):
        return None
    try:
        return decode(Pod, answer)
    except DecodeError as error:
        _log.warning("the cloud's mirror pod cannot be read: %s", error)
        return None
