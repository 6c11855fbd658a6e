"""Pauses before objects are made again that were lost soon after their controllers had made them.

An object is lost when it is deleted by somebody else, or has another controller or none, and a pod also when it fails.
A pod that was ready when somebody deleted it, with its grace period, is replaced at once: people do so, and its start
and its end have taken their time.
Without a pause, a workload whose pods are refused, evicted or released at once is an endless loop, which its author can
wish for: a toleration of zero seconds, a node that has no room, a selector that does not match what admission has made
of a pod. The same holds for any object that somebody else, the garbage collector for instance, removes each time.
kube-controller-manager pauses for failed pods of Jobs and DaemonSets only.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, is_being_deleted, key_kind, metadata_of, uid_of
from modules.apimachinery.pods.objects import has_ended, phase_of
from modules.cloud.controllers.daemon_pods import target_node
from modules.cloud.controllers.job_pods import INDEX
from modules.cloud.controllers.plan import WARNING, EventNote
from modules.cloud.controllers.pods import created_at
from modules.cloud.controllers.view import controller_of

_YOUNG: Final = 60.0
"""Seconds after which the loss of an object is no reason for a pause."""
_FIRST: Final = 1.0
_LONGEST: Final = 300.0
_FORGOTTEN: Final = 2 * _YOUNG
"""Seconds after a pause without a loss until pauses start over."""
_MOST: Final = 100_000
"""Places with a pause; the oldest are forgotten."""
_MADE_ONCE: Final = "CronJob"
"""Whose controller makes each of its objects once, at its time."""
_LONGEST_REASON: Final = 64
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class _Pause(msgspec.Struct):
    seconds: float
    until: float
    why: str
    """What happened to the object, in words."""
    is_told: bool = False
    """Whether there is an Event, or is to be none."""


class LostObjects:
    """The pauses after losses, by owner, and within it by the node of a DaemonSet's pod, by the name of a StatefulSet's
    and by the index of a Job's. Times are seconds since the epoch.
    """

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}
        self._meant: set[str] = set()
        """The uids of objects that controllers delete."""

    def mean(self, uid: str) -> None:
        """Note that a controller deletes an object: that is no loss."""
        self._meant.add(uid)

    def refused(self, uid: str) -> None:
        """Note that an object was not deleted by the controller."""
        self._meant.discard(uid)

    def changed(self, before: JsonObject | None, obj: JsonObject, now: float, *, is_gone: bool) -> None:
        """Note a change of an object.

        Args:
            before: its former state; None: it is new.
            obj: its present state, or its last one.
            now: the present time.
            is_gone: whether it is not there any more.
        """
        owner = controller_of(before or obj)
        is_meant = uid_of(obj) in self._meant or _is_done(obj)
        if is_gone:
            self._meant.discard(uid_of(obj))
        if owner is None or key_kind(owner) == _MADE_ONCE or is_meant:
            return
        if (before is not None and _is_over(before)) or now >= created_at(obj) + _YOUNG:
            return
        is_given_time = bool(metadata_of(obj).get("deletionGracePeriodSeconds"))
        if not is_gone and before is not None and is_ready(before) and is_given_time and not has_ended(obj):
            return
        if is_gone or _is_over(obj) or (controller_of(obj) or {}).get("uid") != owner.get("uid"):
            self._lost(_place_of(before or obj, owner), _what_happened(obj, is_gone=is_gone), now)

    def until(self, obj: JsonObject, now: float) -> float:
        """Return the time before which an object is not to be made."""
        pause = self._pause_of(obj)
        if pause is None or pause.until > now + pause.seconds:  # the clock was set back
            return 0.0
        return pause.until

    def event_note(self, obj: JsonObject) -> EventNote | None:
        """Return the Event for the owner of an object that is not to be made yet: one for each pause but the first,
        after which nobody waits long. Its words are the same for equal losses, so that such Events are counted.
        """
        pause = self._pause_of(obj)
        if pause is None or pause.is_told:
            return None
        pause.is_told = True
        words = f"{obj['kind']} {pause.why} soon after it was made; the next waits, each time longer, up to 5 minutes"
        return EventNote(WARNING, "BackOff", words)

    def _pause_of(self, obj: JsonObject) -> _Pause | None:
        owner = controller_of(obj)
        return self._pauses.get(_place_of(obj, owner)) if owner is not None else None

    def _lost(self, place: str, why: str, now: float) -> None:
        pause = self._pauses.pop(place, None)
        if pause is None or not pause.until - pause.seconds <= now <= pause.until + _FORGOTTEN:
            pause = _Pause(_FIRST, now + _FIRST, why, is_told=True)
        elif now >= pause.until:
            seconds = min(_LONGEST, 2 * pause.seconds)
            pause = _Pause(seconds, now + seconds, why)
        self._pauses[place] = pause
        if len(self._pauses) > _MOST:
            del self._pauses[next(iter(self._pauses))]


def _is_over(obj: JsonObject) -> bool:
    return is_being_deleted(obj) or (_is_pod(obj) and has_ended(obj))


def _is_pod(obj: JsonObject) -> bool:
    return key_kind(obj) == "Pod"


def _is_done(obj: JsonObject) -> bool:
    """Return whether a pod has done the work of its Job."""
    return _is_pod(obj) and phase_of(obj) == "Succeeded" and key_kind(controller_of(obj) or {}) == "Job"


def _what_happened(obj: JsonObject, *, is_gone: bool) -> str:
    if _is_pod(obj) and has_ended(obj):
        reason = str((obj.get("status") or _NOTHING).get("reason") or phase_of(obj))
        return f"ended ({reason[:_LONGEST_REASON]})"
    return "was deleted" if is_gone or is_being_deleted(obj) else "lost its owner"


def _place_of(obj: JsonObject, owner: JsonObject) -> str:
    metadata = metadata_of(obj)
    match key_kind(owner) if _is_pod(obj) else "":
        case "DaemonSet":
            within = target_node(obj)
        case "StatefulSet":
            within = str(metadata.get("name") or "")
        case _:
            within = (metadata.get("labels") or _NOTHING).get(INDEX, "")
    return f"{owner.get('uid')}/{within}"
