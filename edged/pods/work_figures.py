"""The figures of the pod workers' queues, for the node's local server."""

from collections.abc import Mapping

import msgspec

from edged.pods.model import PodUid


class WorkFigures(msgspec.Struct, frozen=True):
    """The queues of the pod workers at one moment. Never changed."""

    waiting: int
    """Pods that wait for a worker."""
    working: int
    """Pods that a worker has."""
    due: Mapping[PodUid, float]
    """Pods that are synced at a later time, with this time in monotonic seconds."""
    failed: frozenset[PodUid]
    """Pods whose last sync failed and that are synced again after a growing delay."""
