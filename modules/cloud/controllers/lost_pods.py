"""Pauses before a workload's pods are made again that were lost soon after they were made.

A pod is lost when it fails, is deleted by somebody else, or has another controller or none. Without a pause, a workload
whose pods are refused, evicted or released at once is an endless loop, which its author can wish for: a toleration of
zero seconds, a node that has no room, a selector that does not match what admission has made of a pod.
kube-controller-manager pauses for failed pods of Jobs and DaemonSets only.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from modules.apimachinery.kinds import JsonObject, is_being_deleted, key_kind, metadata_of, uid_of
from modules.cloud.controllers.daemon_pods import target_node
from modules.cloud.controllers.job_pods import INDEX
from modules.cloud.controllers.pods import created_at, has_ended, phase_of
from modules.cloud.controllers.view import controller_of

_YOUNG: Final = 60.0
"""Seconds after which the loss of a pod is no reason for a pause."""
_FIRST: Final = 1.0
_LONGEST: Final = 300.0
_FORGOTTEN: Final = 2 * _YOUNG
"""Seconds after a pause without a loss until pauses start over."""
_MOST: Final = 100_000
"""Places with a pause; the oldest are forgotten."""
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class _Pause(msgspec.Struct):
    seconds: float
    until: float


class LostPods:
    """The pauses after losses, by workload, and within it by the node of a DaemonSet's pod, by the name of a
    StatefulSet's and by the index of a Job's. Times are seconds since the epoch.
    """

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}
        self._meant: set[str] = set()
        """The uids of pods that their own controllers delete."""

    def mean(self, uid: str) -> None:
        """Note that a pod's own controller deletes it: that is no loss."""
        self._meant.add(uid)

    def refused(self, uid: str) -> None:
        """Note that a pod was not deleted by its controller."""
        self._meant.discard(uid)

    def changed(self, before: JsonObject | None, pod: JsonObject, now: float, *, is_gone: bool) -> None:
        """Note a change of a pod.

        Args:
            before: its former state; None: it is new.
            pod: its present state, or its last one.
            now: the present time.
            is_gone: whether it is not there any more.
        """
        owner = controller_of(before or pod)
        is_meant = uid_of(pod) in self._meant or _is_done(pod)
        if is_gone:
            self._meant.discard(uid_of(pod))
        if owner is None or is_meant or (before is not None and _is_over(before)) or now >= created_at(pod) + _YOUNG:
            return
        if is_gone or _is_over(pod) or (controller_of(pod) or {}).get("uid") != owner.get("uid"):
            self._lost(_place_of(before or pod, owner), now)

    def until(self, pod: JsonObject, now: float) -> float:
        """Return the time before which a pod is not to be made."""
        owner = controller_of(pod)
        pause = self._pauses.get(_place_of(pod, owner)) if owner is not None else None
        if pause is None or pause.until > now + pause.seconds:  # the clock was set back
            return 0.0
        return pause.until

    def _lost(self, place: str, now: float) -> None:
        pause = self._pauses.pop(place, None)
        if pause is None or not pause.until - pause.seconds <= now <= pause.until + _FORGOTTEN:
            pause = _Pause(_FIRST, now + _FIRST)
        elif now >= pause.until:
            seconds = min(_LONGEST, 2 * pause.seconds)
            pause = _Pause(seconds, now + seconds)
        self._pauses[place] = pause
        if len(self._pauses) > _MOST:
            del self._pauses[next(iter(self._pauses))]


def _is_over(pod: JsonObject) -> bool:
    return has_ended(pod) or is_being_deleted(pod)


def _is_done(pod: JsonObject) -> bool:
    """Return whether a pod has done the work of its Job."""
    return phase_of(pod) == "Succeeded" and key_kind(controller_of(pod) or {}) == "Job"


def _place_of(pod: JsonObject, owner: JsonObject) -> str:
    metadata = metadata_of(pod)
    match key_kind(owner):
        case "DaemonSet":
            within = target_node(pod)
        case "StatefulSet":
            within = str(metadata.get("name") or "")
        case _:
            within = (metadata.get("labels") or _NOTHING).get(INDEX, "")
    return f"{owner.get('uid')}/{within}"
