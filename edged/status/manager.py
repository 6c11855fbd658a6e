"""StatusManager: sends the statuses of pods to the cloud."""

import logging
from typing import Final

import msgspec

from beehive import ModuleContext, ResourceType, Timer
from beehive.decoding import decode_json
from beehive.rate import TokenBucket
from edged.pods.model import PodRef, PodUid
from edged.pods.pod_status.conditions import with_parts_of_others
from edged.pods.pod_status.patch import diff_pod_status
from edged.pods.pod_status.phase import Phase
from metamanager.client import AsyncMetaClient, CallError, NoAnswerError, NotFoundError, RejectedError
from modules.apimachinery.pods.static import is_static
from modules.apimachinery.types import DeleteOptions, Pod, PodStatus, Preconditions, encode
from modules.apimachinery.types.versions import version_number

_log = logging.getLogger(__name__)

CORRECTIONS: Final = 3
"""Changes by others of a pod's status that are corrected immediately: two writers that do not agree must not fill the
link. The others are corrected in the status period."""
CORRECTION_PERIOD: Final = 30.0
"""Seconds after which one more is corrected immediately."""

PENDING_DELAY = 1.0
"""Seconds that the phase Pending is held back while the containers wait for the usual reasons only."""

PENDING_PERIOD = 0.25
"""Seconds between the ends of two of them: when many pods start together, most run before their turn comes, and the
link's rate limit is left to pods that run already.
"""

_CALM = frozenset({"ContainerCreating", "PodInitializing", ""})


class _Entry(msgspec.Struct):
    ref: PodRef
    has: PodStatus
    """The status that the cloud has."""
    version: int
    """resourceVersion of that status."""
    sure: bool = True
    """Whether the cloud certainly has that status: no answer was lost since."""
    of_store: bool = False
    """Whether the cloud has sent no newer version than the store's: the agent may have sent a newer status before its
    restart, and cloudcore, whose watch is behind, may send the store's version again.
    """
    newer: tuple[int, PodStatus] | None = None
    """Version and status that the cloud sent while a patch was under way."""
    wanted: PodStatus | None = None
    is_followed: bool = False
    """Whether the wanted status waits for the one that follows it."""
    busy: bool = False
    again: bool = False
    """The cloud was connected while a patch was under way: if that fails, it is sent again immediately."""
    deleting: bool = False
    deleted: bool = False
    """The cloud has accepted the deletion of the pod, and accepts no more statuses."""
    mirror: str | None = None
    """The uid of the mirror pod of a static pod; empty before it exists. None for other pods."""
    corrections: TokenBucket | None = None
    """Limits the corrections that are sent immediately; None before the first one."""
    unknown: bool = False
    """The cloud has answered that it has no such pod. Nothing is sent until it sends the pod, or is connected again."""

    @property
    def known_as(self) -> str:
        """Uid of the pod in the cloud."""
        return self.mirror or self.ref.uid


class HeldStatuses:
    """Pods whose status is held back, in the order of their starts. Lives on the edged module's thread.

    Nothing else on a pod's way from its manifest to Running waits for a timer; many pods wait for the link's rate
    limit. The timer is no effect of the machine of a pod: it spreads the statuses of all pods of the node.

    Args:
        context: the module.
        manager: sends the status of a pod at its turn.
    """

    def __init__(self, context: ModuleContext, manager: "StatusManager") -> None:
        self._context = context
        self._manager = manager
        self._due: dict[PodUid, float] = {}
        self._timer: Timer | None = None

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self._due

    def hold(self, uid: PodUid) -> None:
        """Hold the status of a pod back, if it is not held yet."""
        if uid not in self._due:
            self._due[uid] = self._context.clock.monotonic() + PENDING_DELAY
            if self._timer is None:
                self._timer = self._context.after(PENDING_DELAY, self._next)

    def drop(self, uid: PodUid) -> None:
        """Hold the status of a pod no longer."""
        if self._due.pop(uid, None) is not None and not self._due and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next(self) -> None:
        self._timer = None
        now = self._context.clock.monotonic()
        uid, due = next(iter(self._due.items()))
        if due > now:  # the pod of this time is held no longer
            self._timer = self._context.after(due - now, self._next)
            return
        del self._due[uid]
        if self._due:
            wait = max(PENDING_PERIOD, next(iter(self._due.values())) - now)
            self._timer = self._context.after(wait, self._next)
        self._manager.send_held(uid)


class StatusManager:
    """The sender of each pod's status until the cloud has acknowledged it, and then of the deletion of ended pods.

    One patch of a pod is under way at a time: the difference between the status that the cloud has (the last
    acknowledged one, or the status in the pod as it came) and the newest one; statuses that are set meanwhile replace
    each other. When an answer was lost it is uncertain which of two the cloud has, so the next patch contains the whole
    status. The phase Pending of a new pod is held back, see `HeldStatuses`: most pods run by then, which spares a thin
    link a message (a kubelet sends both). Lives on the edged module's thread.

    Args:
        meta: sends patches and deletions.
        context: the module.
    """

    def __init__(self, meta: AsyncMetaClient, context: ModuleContext) -> None:
        self._meta = meta
        self._clock = context.clock
        self._entries: dict[PodUid, _Entry] = {}
        self._held = HeldStatuses(context, self)

    def add_pod(self, ref: PodRef, pod: Pod) -> None:
        """Take a pod as the cloud or the store has sent it."""
        version = version_number(pod.metadata.resource_version)
        entry = self._entries.get(ref.uid)
        if entry is None:
            mirror = "" if is_static(pod) else None
            self._entries[ref.uid] = _Entry(ref, pod.status, version, mirror=mirror)
        elif entry.mirror is None:
            self._update_known(entry, pod)

    def mark_from_store(self, uid: PodUid) -> None:
        """Note that a pod came from the store, and not from the cloud since edged started."""
        entry = self._entries.get(uid)
        if entry is not None:
            entry.of_store = True

    def set_mirror(self, uid: PodUid, mirror: Pod) -> None:
        """Take the mirror pod of a static pod, whose status the cloud has."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        if entry.mirror != mirror.metadata.uid:
            entry.mirror, entry.unknown = mirror.metadata.uid, False
            entry.has, entry.version, entry.sure = mirror.status, version_number(mirror.metadata.resource_version), True
            self._send(entry)
        elif _has_changed(entry, mirror):
            self._update_known(entry, mirror)
            self._correct(entry)

    def forget_mirror(self, uid: PodUid) -> None:
        """Note that a static pod no longer has a mirror pod."""
        entry = self._entries.get(uid)
        if entry is not None:
            entry.mirror = ""

    def set_pod_status(self, uid: PodUid, status: PodStatus, *, is_followed: bool = False) -> None:
        """Set the status of a pod, and send it (kubelet's SetPodStatus).

        Args:
            uid: of the pod.
            status: the newest one.
            is_followed: whether another one is about to follow; if none does, this one is sent in the status period.
        """
        entry = self._entries.get(uid)
        if entry is None:
            return
        entry.wanted, entry.is_followed = status, is_followed
        if is_followed:
            return
        if not _is_calm(status):
            self._send(entry)
        else:
            self._held.hold(uid)

    def correct_pod_status(self, uid: PodUid) -> None:
        """Send the status of a pod again if the cloud has sent another one with the pod: while the node was
        away, a cluster's controller has written that the pod is not ready.
        """
        entry = self._entries.get(uid)
        if entry is not None and entry.mirror is None:
            self._correct(entry)

    def has_status(self, uid: PodUid) -> bool:
        """Return whether this node has set a status of a pod. Until then later statuses of the cloud are accepted."""
        entry = self._entries.get(uid)
        return entry is None or entry.wanted is not None

    def terminate_pod(self, uid: PodUid) -> None:
        """Delete a pod in the cloud, once the cloud has its last status: nothing of it still runs (kubelet's
        TerminatePod).
        """
        entry = self._entries.get(uid)
        if entry is not None:
            entry.deleting = True
            self._send(entry)

    def forget_pod(self, uid: PodUid) -> None:
        """Drop a pod that is removed from the node."""
        self._entries.pop(uid, None)
        self._held.drop(uid)

    def sync_all(self) -> None:
        """Send again the statuses that the cloud has not acknowledged; every status period (kubelet's syncBatch)."""
        for uid, entry in list(self._entries.items()):
            if uid not in self._held:
                self._send(entry)

    def connected(self) -> None:
        """Send all statuses that the cloud has not acknowledged, now that it is connected; also of pods that it did not
        know. A pod whose deletion the cloud has accepted is deleted again, for that may have been lost there.
        """
        for entry in self._entries.values():
            entry.unknown = False
            entry.deleting = entry.deleting or entry.deleted
            entry.again = entry.busy
        self.sync_all()

    def _update_known(self, entry: _Entry, pod: Pod) -> None:
        """Take a status that the cloud has; while a patch is under way the newest is kept until its end, for answers
        that were sent before it may come after it.
        """
        version = version_number(pod.metadata.resource_version)
        if not entry.busy:
            _catch_up(entry, version, pod.status)
        elif entry.newer is None or version >= entry.newer[0]:
            entry.newer = (version, pod.status)

    def _correct(self, entry: _Entry) -> None:
        if entry.wanted is None or entry.busy or entry.is_followed or entry.ref.uid in self._held:
            return
        if not _patch_of(entry, entry.wanted):
            return
        if entry.corrections is None:
            entry.corrections = TokenBucket(1 / CORRECTION_PERIOD, CORRECTIONS)
        if not entry.corrections.reserve(self._clock.monotonic()):
            self._send(entry)

    def send_held(self, uid: PodUid) -> None:
        """Send the status of a pod that was held back."""
        self._send(self._entries[uid])

    def _send(self, entry: _Entry) -> None:
        self._held.drop(entry.ref.uid)
        entry.is_followed = False
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
            entry.has, entry.sure = with_parts_of_others(wanted, entry.has), True
            entry.version = max(entry.version, _version_in(answer))
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
        """Take the end of a patch or a deletion. Nothing more is sent of a pod that was dropped meanwhile."""
        entry.busy = False
        again, entry.again = entry.again, False
        if entry.newer is not None:
            _catch_up(entry, *entry.newer)
            entry.newer = None
        if error is None:
            return
        level = logging.DEBUG if error.retryable else logging.WARNING
        _log.log(level, "the cloud did not take the status of pod %s: %s", entry.ref, error)
        entry.unknown = isinstance(error, NotFoundError)
        entry.sure = entry.sure and not _may_be_done(error)
        if again and self._entries.get(entry.ref.uid) is entry:
            self._send(entry)


def _patch_of(entry: _Entry, wanted: PodStatus) -> str | None:
    """Return the patch to the status that the cloud has; the whole status when that is uncertain."""
    patch = diff_pod_status(entry.has, wanted, entry.known_as, sure=entry.sure)
    if patch is not None and entry.of_store:
        patch = diff_pod_status(entry.has, wanted, entry.known_as, sure=False)
    return patch


def _catch_up(entry: _Entry, version: int, status: PodStatus) -> None:
    """Take a status that the cloud has sent, if it is not older than the known one. At the version of a patch's answer
    it may contain changes that others made while the patch was under way.
    """
    if version > entry.version or version == entry.version != 0:
        entry.of_store = entry.of_store and version == entry.version
        entry.has, entry.version, entry.unknown = status, version, False


def _may_be_done(error: CallError) -> bool:
    """Return whether the cloud may have carried out a request: it gave no answer, or had none itself from its API
    server (5xx).
    """
    return isinstance(error, NoAnswerError) or (isinstance(error, RejectedError) and error.status.code >= 500)


def _has_changed(entry: _Entry, mirror: Pod) -> bool:
    """Return whether a mirror pod has another status than the known one; also at the same version, see `_catch_up`."""
    version = version_number(mirror.metadata.resource_version)
    return version > entry.version or (version == entry.version and mirror.status != entry.has)


def _is_calm(status: PodStatus) -> bool:
    """Return whether a status is Pending and its containers wait for the usual reasons only."""
    waiting = (s.state.waiting for s in status.init_container_statuses + status.container_statuses)
    return status.phase == Phase.PENDING and all(w is None or w.reason in _CALM for w in waiting)


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def _version_in(answer: bytes) -> int:
    try:
        return version_number(decode_json(answer, _Versioned).metadata.resource_version)
    except msgspec.DecodeError:
        return 0
