"""PodRecovery: asks the cloud about pods that run here and are not in the store."""

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from beehive import Clock
from edged.pods.model import PodRef, PodUid
from metamanager.client import AsyncMetaClient, CallError, ConflictError, NotFoundError

_log = logging.getLogger(__name__)

FIRST_DELAY: Final = 10.0
"""Seconds until a pod is requested again after a request without an answer; doubles."""
LONGEST_DELAY: Final = 300.0


class _Request(msgspec.Struct):
    next_at: float = 0.0
    """Monotonic seconds."""
    delay: float = FIRST_DELAY
    busy: bool = False
    disowned: bool = False


class PodRecovery:
    """Takes over running pods that the store does not know, because its database was lost.

    They are healthy pods, and KubeEdge's cloud does not send acknowledged pods again: as orphans they would be ended,
    or ended only to be started anew. So each is requested from the cloud: a pod that the cloud has is taken over as it
    runs, and only a pod that the cloud does not know is an orphan. Without a connection all are left alone. Lives on
    the edged module's thread, from the start with such a store until every pod is accounted for.

    Args:
        meta: requests pods from the cloud.
        clock: the monotonic time.
        take: takes a pod of the cloud as JSON; returns False if it is another pod.
    """

    def __init__(self, meta: AsyncMetaClient, clock: Clock, take: Callable[[PodUid, bytes], bool]) -> None:
        self._meta = meta
        self._clock = clock
        self._take = take
        self._requests: dict[PodUid, _Request] = {}
        self._doubtful = 0

    def is_disowned(self, ref: PodRef) -> bool:
        """Return whether the cloud has disowned a pod; request it if that is not known and no retry delay lasts."""
        request = self._requests.get(ref.uid)
        if request is None:
            request = self._requests[ref.uid] = _Request()
            _log.warning("pod %s runs here and is not in the store, which is new: the cloud is asked for it", ref)
        if not request.disowned:
            self._doubtful += 1
            if not request.busy and self._clock.monotonic() >= request.next_at:
                self._request(ref, request)
        return request.disowned

    def connected(self) -> None:
        """Request the pods again at the next relist: the cloud is connected."""
        for request in self._requests.values():
            request.next_at, request.delay = 0.0, FIRST_DELAY

    def settled(self) -> bool:
        """Return whether no pod was in doubt since the last call; called at the end of each relist."""
        doubtful, self._doubtful = self._doubtful, 0
        return not doubtful

    def _request(self, ref: PodRef, request: _Request) -> None:
        request.busy = True

        def answered(answer: bytes | CallError) -> None:
            request.busy = False
            if isinstance(answer, NotFoundError | ConflictError):
                request.disowned = True
            elif isinstance(answer, CallError):
                request.next_at = self._clock.monotonic() + request.delay
                request.delay = min(LONGEST_DELAY, request.delay * 2)
                _log.debug("whether the cloud wants pod %s is not known: %s", ref, answer)
            else:
                request.disowned = not self._take(ref.uid, answer)
                _log.info("pod %s: %s", ref, "the cloud has another" if request.disowned else "taken over as it runs")

        self._meta.pod(ref.namespace, ref.name, ref.uid, then=answered)
