"""Pauses after failed pods, twice as long each time: state of the controllers that no object has."""

from typing import Final

import msgspec

from modules.apimachinery.kinds import JsonObject, uid_of

_FIRST: Final = 1.0
_LONGEST: Final = 900.0
_FORGOTTEN: Final = 2 * _LONGEST
"""Seconds without a failure until it starts over (client-go's Backoff)."""
_MOST: Final = 10_000


class _Pause(msgspec.Struct):
    pod: str
    """The uid of the latest pod that has failed."""
    seconds: float
    until: float


class FailurePauses:
    """The pauses between the failure of a pod and its replacement, by place. Times are seconds since the epoch."""

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}

    def until(self, place: str, pod: JsonObject, now: float) -> float:
        """Return the end of the pause after the failure of a pod.

        Args:
            place: where pods fail: a DaemonSet and a node.
            pod: the pod; each counts once.
            now: the present time.
        """
        pause = self._pauses.pop(place, None)
        if pause is None or not pause.until - pause.seconds <= now <= pause.until + _FORGOTTEN:  # or set back
            pause = _Pause(uid_of(pod), _FIRST, now + _FIRST)
        elif pause.pod != uid_of(pod):
            seconds = min(_LONGEST, 2.0 * pause.seconds)
            pause = _Pause(uid_of(pod), seconds, now + seconds)
        self._pauses[place] = pause
        if len(self._pauses) > _MOST:
            del self._pauses[next(iter(self._pauses))]
        return pause.until
