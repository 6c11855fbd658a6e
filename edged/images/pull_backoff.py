"""The back-off of image pulls (kubelet's imageBackOff): each pod waits longer after each failed pull of an image."""

import msgspec

from edged.pods.backoff import BackOffs, image_key
from edged.pods.model import PodUid
from modules.apimachinery.types import Nanoseconds


class PullFailure(msgspec.Struct, frozen=True):
    """The last failed pull of an image for a pod."""

    at: Nanoseconds
    """Time of the monotonic clock."""
    reason: str
    message: str


class PullBackOff:
    """The last failure of each image's pull, by pod; a success ends it. For several workers, each with another pod. The
    delays are not those of `crashLoopBackOff`, which is of containers.
    """

    def __init__(self) -> None:
        self._backoffs = BackOffs()
        self._failures: dict[tuple[PodUid, str], PullFailure] = {}

    def last_failure(self, uid: PodUid, image: str) -> PullFailure | None:
        """Return the last failure, if no pull has succeeded since."""
        return self._failures.get((uid, image))

    def ready_at(self, uid: PodUid, image: str) -> Nanoseconds:
        """Return the earliest time of the next pull, on the monotonic clock; 0 without a failure."""
        failure = self._failures.get((uid, image))
        return Nanoseconds(0) if failure is None else self._backoffs.ready_at(image_key(uid, image), failure.at)

    def failed(self, uid: PodUid, image: str, failure: PullFailure) -> None:
        """Record a failed pull."""
        before = self._failures.get((uid, image))
        self._backoffs.advance(image_key(uid, image), failure.at if before is None else before.at, failure.at)
        self._failures[uid, image] = failure

    def succeeded(self, uid: PodUid, image: str) -> None:
        """Begin anew after a successful pull."""
        self._backoffs.reset(image_key(uid, image))
        self._failures.pop((uid, image), None)

    def forget_pod(self, uid: PodUid) -> None:
        """Drop the failures of a pod that is removed from the node."""
        self._backoffs.forget_pod(uid)
        for key in [key for key in list(self._failures) if key[0] == uid]:
            self._failures.pop(key, None)
