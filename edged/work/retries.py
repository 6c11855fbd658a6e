"""How long a pod waits after a turn that failed: the delay doubles from turn to turn, until one succeeds."""

from edged.pods.model import PodUid

FIRST_RETRY = 2.0
"""Seconds after which a job that failed is tried again for the first time; doubles (KubeEdge waits 10 s at once)."""
LONGEST_RETRY = 300.0
"""Seconds that the delay never passes (KubeEdge's MaxContainerBackOff)."""


class Retries:
    """The delays of the pods whose last turn failed."""

    def __init__(self) -> None:
        self._delays: dict[PodUid, float] = {}

    def after_failure(self, uid: PodUid) -> float:
        """Seconds to wait now; the next time twice as long."""
        delay = self._delays.setdefault(uid, FIRST_RETRY)
        self._delays[uid] = min(LONGEST_RETRY, delay * 2)
        return delay

    def forget(self, uid: PodUid) -> None:
        """The pod's turn succeeded, or the pod is gone."""
        self._delays.pop(uid, None)

    def forget_all(self) -> list[PodUid]:
        """What made them fail may be over: the pods that were waiting."""
        waiting = list(self._delays)
        self._delays.clear()
        return waiting
