"""Brings the statuses of pods to the cloud: what changed is sent, the newest wins, what was not taken is sent again.

One patch per pod is under way at a time. It is the difference between the status that the cloud has (the last one it
acknowledged, or that came with the pod) and the one it shall have; while it is under way newer statuses replace each
other. A pod that has only just come is given a moment before its Pending is reported: most are Running by then, and a
thin link is spared a message (a kubelet sends both).

Lives on the edged module's thread.
"""

import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from beehive import ResourceType, Timer
from edged.api import DeleteOptions, Pod, PodStatus, Preconditions, encode
from edged.pods.model import PodRef, PodUid
from edged.pods.patch import diff_pod_status
from edged.pods.phase import Phase
from metamanager.client import CallError, MetaTurnClient, NotFoundError

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
    wanted: PodStatus | None = None
    busy: bool = False
    held: Timer | None = None
    deleting: bool = False
    unknown: bool = False
    """The cloud said that there is no such pod."""


class PodReporter:
    """See the module's docstring."""

    def __init__(self, meta: MetaTurnClient, owner: TimerOwner) -> None:
        self._meta = meta
        self._owner = owner
        self._entries: dict[PodUid, _Entry] = {}

    def track(self, ref: PodRef, pod: Pod) -> None:
        """Take notice of a pod as it came from the cloud or the store."""
        version = _number(pod.metadata.resource_version)
        entry = self._entries.get(ref.uid)
        if entry is None:
            self._entries[ref.uid] = _Entry(ref, pod.status, version)
        elif version > entry.version and not entry.busy:
            entry.has, entry.version, entry.unknown = pod.status, version, False

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
        """Send again what the cloud has not acknowledged: after a reconnection, and every status period."""
        for entry in list(self._entries.values()):
            if entry.held is None:
                self._send(entry)

    def unacknowledged(self) -> int:
        """How many pods have a status that the cloud does not have."""
        return sum(entry.wanted is not None and entry.wanted != entry.has for entry in self._entries.values())

    def _send(self, entry: _Entry) -> None:
        if entry.held is not None:
            entry.held.cancel()
            entry.held = None
        if entry.busy or entry.unknown:
            return
        wanted = entry.wanted
        patch = None if wanted is None else diff_pod_status(entry.has, wanted, entry.ref.uid)
        if wanted is not None and patch is not None:
            self._patch(entry, wanted, patch)
        elif entry.deleting:
            self._delete(entry)

    def _patch(self, entry: _Entry, wanted: PodStatus, patch: str) -> None:
        entry.busy = True
        ref = entry.ref

        def done(answer: bytes | CallError) -> None:
            entry.busy = False
            if isinstance(answer, CallError):
                self._refused(entry, answer)
                return
            entry.has, entry.version = wanted, max(entry.version, _version_in(answer))
            if entry.wanted != wanted or entry.deleting:
                self._send(entry)

        self._meta.patch(ResourceType.PODPATCH, ref.namespace, ref.name, patch, then=done)

    def _delete(self, entry: _Entry) -> None:
        entry.busy = True
        ref = entry.ref
        options = DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(uid=ref.uid))

        def done(answer: CallError | None) -> None:
            entry.busy = False
            if isinstance(answer, CallError):
                self._refused(entry, answer)
            else:
                entry.deleting = False

        self._meta.delete(ResourceType.POD, ref.namespace, ref.name, encode(options), then=done)

    def _refused(self, entry: _Entry, error: CallError) -> None:
        entry.unknown = isinstance(error, NotFoundError)
        level = logging.DEBUG if error.retryable else logging.WARNING
        _log.log(level, "the status of pod %s was not taken: %s", entry.ref, error)


def _is_calm(status: PodStatus) -> bool:
    """Pending, and nothing but the usual is being waited for."""
    waiting = (s.state.waiting for s in status.init_container_statuses + status.container_statuses)
    return status.phase == Phase.PENDING and all(w is None or w.reason in _CALM for w in waiting)


def _number(version: str) -> int:
    return int(version) if version.isascii() and version.isdigit() else 0


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def _version_in(answer: bytes) -> int:
    try:
        return _number(msgspec.json.decode(answer, type=_Versioned).metadata.resource_version)
    except msgspec.DecodeError:
        return 0
