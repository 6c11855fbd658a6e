"""Brings the statuses of pods to the cloud: what changed is sent, the newest wins, what was not taken is sent again.

One patch per pod is under way at a time. It is the difference between the status that the cloud has (the last one it
acknowledged, or that came with the pod) and the one it shall have; while it is under way newer statuses replace each
other. When an answer was lost nobody knows which of two the cloud has, so the next patch says everything. A pod that
has only just come is given a moment before its Pending is reported: most are Running by then, and a thin link is spared
a message (a kubelet sends both).

Lives on the edged module's thread.
"""

import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from beehive import ResourceType, Timer
from edged.api import DeleteOptions, Pod, PodStatus, Preconditions, encode
from edged.api.versions import version_number
from edged.pods.model import PodRef, PodUid
from edged.pods.patch import diff_pod_status
from edged.pods.phase import Phase
from edged.static_pods.manifest import is_static
from metamanager.client import CallError, MetaTurnClient, NoAnswerError, NotFoundError

_log = logging.getLogger(__name__)

PENDING_DELAY = 1.0
"""Seconds that a Pending without trouble is held back."""

_CALM = frozenset({"ContainerCreating", "PodInitializing", ""})


class TimerOwner(Protocol):
    """The module on whose thread this lives."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call in the module's own turn."""


class _Entry(msgspec.Struct):
    ref: PodRef
    has: PodStatus
    """What the cloud has."""
    version: int
    """resourceVersion at which it had it."""
    sure: bool = True
    """Whether it is known to have that: no answer was lost since."""
    of_store: bool = False
    """Whether only the store says so: a former life of the agent may have told the cloud more."""
    newer: tuple[int, PodStatus] | None = None
    """What came from the cloud while a patch was under way: version and status."""
    wanted: PodStatus | None = None
    busy: bool = False
    again: bool = False
    """The cloud came while something was under way: if that fails, it is sent again at once."""
    held: Timer | None = None
    deleting: bool = False
    deleted: bool = False
    """The cloud has taken its deletion: nobody there waits for a status any more."""
    mirror: str | None = None
    """Of a static pod: the uid of its mirror, as which the cloud knows it; empty while there is none."""
    unknown: bool = False
    """The cloud said that there is no such pod; asked again when it says otherwise, or when the node connects."""

    @property
    def known_as(self) -> str:
        """The uid under which the cloud knows the pod."""
        return self.mirror or self.ref.uid


class PodReporter:
    """See the module's docstring."""

    def __init__(self, meta: MetaTurnClient, owner: TimerOwner) -> None:
        self._meta = meta
        self._owner = owner
        self._entries: dict[PodUid, _Entry] = {}

    def track(self, ref: PodRef, pod: Pod) -> None:
        """Take notice of a pod as it came from the cloud or the store."""
        version = version_number(pod.metadata.resource_version)
        entry = self._entries.get(ref.uid)
        if entry is None:
            mirror = "" if is_static(pod) else None
            self._entries[ref.uid] = _Entry(ref, pod.status, version, mirror=mirror)
        elif entry.mirror is None:
            self._heard(entry, pod)

    def of_store(self, uid: PodUid) -> None:
        """A pod came from the store, and the cloud has not spoken of it since edged began."""
        entry = self._entries.get(uid)
        if entry is not None:
            entry.of_store = True

    def mirrored(self, uid: PodUid, mirror: Pod) -> None:
        """The cloud knows a static pod as this mirror, and has the mirror's status of it."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        if entry.mirror != mirror.metadata.uid:
            entry.mirror, entry.unknown = mirror.metadata.uid, False
            entry.has, entry.version, entry.sure = mirror.status, version_number(mirror.metadata.resource_version), True
            self._send(entry)
        elif _is_news(entry, mirror):  # else it is one that was seen before
            self._heard(entry, mirror)

    def unmirrored(self, uid: PodUid) -> None:
        """The cloud knows a static pod no more."""
        entry = self._entries.get(uid)
        if entry is not None:
            entry.mirror = ""

    def report(self, uid: PodUid, status: PodStatus) -> None:
        """This is the pod's status now."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        entry.wanted = status
        if not _is_calm(status):
            self._send(entry)
        elif entry.held is None:
            entry.held = self._owner.after(PENDING_DELAY, lambda: self._send(entry))

    def has_heard(self, uid: PodUid) -> bool:
        """Whether this node's own word on a pod is known here. Until it is, a cloud that says something else later is
        believed.
        """
        entry = self._entries.get(uid)
        return entry is None or entry.wanted is not None

    def finish(self, uid: PodUid) -> None:
        """Nothing of the pod runs any more, and it is to go: tell the cloud, once it has the last status."""
        entry = self._entries.get(uid)
        if entry is not None:
            entry.deleting = True
            self._send(entry)

    def forget(self, uid: PodUid) -> None:
        """The pod is gone."""
        entry = self._entries.pop(uid, None)
        if entry is not None and entry.held is not None:
            entry.held.cancel()

    def send_all(self) -> None:
        """Send again what the cloud has not acknowledged: every status period."""
        for entry in list(self._entries.values()):
            if entry.held is None:
                self._send(entry)

    def connected(self) -> None:
        """The cloud is there: send what it has not acknowledged, at once, and of each pod that it did not know. A pod
        that is here yet although the cloud has taken its deletion is deleted once more: it may have been lost there.
        """
        for entry in self._entries.values():
            entry.unknown = False
            entry.deleting = entry.deleting or entry.deleted
            entry.again = entry.busy
        self.send_all()

    def _heard(self, entry: _Entry, pod: Pod) -> None:
        version = version_number(pod.metadata.resource_version)
        if entry.busy:
            entry.newer = (version, pod.status)
        else:
            _catch_up(entry, version, pod.status)

    def _send(self, entry: _Entry) -> None:
        if entry.held is not None:
            entry.held.cancel()
            entry.held = None
        if entry.busy or entry.unknown or entry.mirror == "":
            return
        wanted = None if entry.deleted else entry.wanted
        patch = None if wanted is None else _patch_of(entry, wanted)
        if wanted is not None and patch is not None:
            self._patch(entry, wanted, patch)
        elif entry.deleting:
            self._delete(entry)

    def _patch(self, entry: _Entry, wanted: PodStatus, patch: str) -> None:
        entry.busy = True
        ref, about = entry.ref, entry.known_as

        def done(answer: bytes | CallError) -> None:
            if entry.known_as != about:
                self._answered(entry)
                if self._entries.get(ref.uid) is entry:
                    self._send(entry)
                return
            if isinstance(answer, CallError):
                self._answered(entry, answer)
                return
            entry.has, entry.version, entry.sure = wanted, max(entry.version, _version_in(answer)), True
            entry.of_store = False
            news = entry.wanted != wanted or (entry.newer is not None and entry.newer[0] > entry.version)
            self._answered(entry)
            if self._entries.get(ref.uid) is entry and (news or entry.deleting):
                self._send(entry)

        self._meta.patch(ResourceType.PODPATCH, ref.namespace, ref.name, patch, then=done)

    def _delete(self, entry: _Entry) -> None:
        entry.busy = True
        ref = entry.ref
        options = DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(uid=ref.uid))

        def done(answer: CallError | None) -> None:
            if answer is None:
                entry.deleting, entry.deleted = False, True
            self._answered(entry, answer)

        self._meta.delete(ResourceType.POD, ref.namespace, ref.name, encode(options), then=done)

    def _answered(self, entry: _Entry, error: CallError | None = None) -> None:
        """Nothing is under way any more. Of a pod that has been forgotten meanwhile nothing more is sent."""
        entry.busy = False
        again, entry.again = entry.again, False
        if entry.newer is not None:
            _catch_up(entry, *entry.newer)
            entry.newer = None
        if error is None:
            return
        level = logging.DEBUG if error.retryable else logging.WARNING
        _log.log(level, "the cloud did not take what pod %s has to say: %s", entry.ref, error)
        entry.unknown = isinstance(error, NotFoundError)
        entry.sure = entry.sure and not isinstance(error, NoAnswerError)
        if again and self._entries.get(entry.ref.uid) is entry:
            self._send(entry)


def _patch_of(entry: _Entry, wanted: PodStatus) -> str | None:
    """What makes the status of what the cloud has; all of it, when that is not known for certain."""
    patch = diff_pod_status(entry.has, wanted, entry.known_as, sure=entry.sure)
    if patch is not None and entry.of_store:
        patch = diff_pod_status(entry.has, wanted, entry.known_as, sure=False)
    return patch


def _catch_up(entry: _Entry, version: int, status: PodStatus) -> None:
    """The cloud said itself what it has. So it does at the version that its answer to a patch named: what others wrote
    while the patch was under way is in it, too, and is put right with the next period.
    """
    if version > entry.version or version == entry.version != 0:
        entry.has, entry.version, entry.unknown, entry.of_store = status, version, False, False


def _is_news(entry: _Entry, mirror: Pod) -> bool:
    """Whether a mirror says something else of what the cloud has; also at the version of an answer, see `_catch_up`."""
    version = version_number(mirror.metadata.resource_version)
    return version > entry.version or (version == entry.version and mirror.status != entry.has)


def _is_calm(status: PodStatus) -> bool:
    """Pending, and nothing but the usual is being waited for."""
    waiting = (s.state.waiting for s in status.init_container_statuses + status.container_statuses)
    return status.phase == Phase.PENDING and all(w is None or w.reason in _CALM for w in waiting)


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def _version_in(answer: bytes) -> int:
    try:
        return version_number(msgspec.json.decode(answer, type=_Versioned).metadata.resource_version)
    except msgspec.DecodeError:
        return 0
