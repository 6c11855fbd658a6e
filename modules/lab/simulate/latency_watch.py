"""Bounds on the time until the cloud knows of a change on a node, and a node has carried out a deletion."""

from collections.abc import Mapping
from typing import Final

from modules.apimachinery.kinds import JsonObject
from modules.lab.simulate.world import World

WITHIN: Final = 6.0
"""Seconds after which the end of a container is in the cloud. A lost event of the runtime is found after 10 s."""
_DELETED_WITHIN: Final = 30.0
"""Seconds after which a deleted pod is gone: its grace period of 5 s, the stop, and two attempts of the node."""
_SETTLED: Final = 100.0
"""Seconds after a fault without demands: the longest time-out (65 s) and a repetition."""


class LatencyWatch:
    """Checks, of one node, that nothing waits for long while there is no fault. Agreement in the end forgives delays.

    Args:
        world: collects violations.
        node: name of the node.
    """

    def __init__(self, world: World, node: str) -> None:
        self._world = world
        self._node = node
        self._ended: dict[str, tuple[str, str, float]] = {}
        """Pod uid, name and time of the end of containers, by id."""
        self._deleted: dict[str, float] = {}
        """When pods were first seen being deleted, by uid."""
        self._calm_since: float | None = None

    def ended(self, container_id: str, uid: str, name: str) -> None:
        """Note that a container has ended."""
        self._ended[container_id] = uid, name, self._world.now()

    def was_calm(self, at: float, behind: float) -> bool:
        """Return whether there was no fault for long before a time, nor since; `behind` as for `check`."""
        return self._calm_since is not None and at >= self._calm_since + _SETTLED + behind

    def check(self, pods: Mapping[str, JsonObject], *, is_calm: bool, behind: float) -> None:
        """Check the bounds.

        Args:
            pods: the node's pods in the cloud, by uid.
            is_calm: whether there is no fault now, and all processes and the node's connection are up.
            behind: seconds during which cloudcore may not know of a change after a fault.
        """
        now = self._world.now()
        if not is_calm:
            self._calm_since = None
            return
        self._calm_since = now if self._calm_since is None else self._calm_since
        since = self._calm_since + _SETTLED + behind
        self._check_ends(pods, now, since)
        self._check_deletions(pods, now, since)

    def _check_ends(self, pods: Mapping[str, JsonObject], now: float, since: float) -> None:
        for container_id, (uid, name, at) in list(self._ended.items()):
            if now < at + WITHIN:
                continue
            del self._ended[container_id]
            if at >= since and _runs_in(pods.get(uid), container_id):
                text = f"{name} ({container_id}) of {pods[uid]['metadata']['name']}, which ended at {at:.3f} s"
                self._world.violated("an end is in the cloud soon", f"{self._node}: {text}")

    def _check_deletions(self, pods: Mapping[str, JsonObject], now: float, since: float) -> None:
        deleted = [uid for uid, pod in pods.items() if pod["metadata"].get("deletionTimestamp")]
        self._deleted = {uid: self._deleted.get(uid, now) for uid in deleted}
        for uid, at in self._deleted.items():
            if at >= since and now > at + _DELETED_WITHIN:
                text = f"{pods[uid]['metadata']['name']} ({uid[:8]}) is being deleted since {at:.3f} s"
                self._world.violated("a deleted pod is gone soon", f"{self._node}: {text}")


def _runs_in(pod: JsonObject | None, container_id: str) -> bool:
    """Return whether a container runs by its pod's status in the cloud."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or [] if pod is not None else []
    return any(
        str(one.get("containerID", "")).endswith(f"//{container_id}") and (one.get("state") or {}).get("running")
        for one in statuses
    )
