"""Bounds on the time until the cloud knows of a change on a node, and a node has answered and carried out one of the
cloud.
"""

from collections.abc import Mapping
from typing import Final

from modules.apimachinery.kinds import JsonObject, version_of
from modules.lab.simulate.status_watch import runs_as
from modules.lab.simulate.world import World

WITHIN: Final = 6.0
"""Seconds after which the end of a container is in the cloud. A lost event of the runtime is found after 10 s."""
_DELETED_WITHIN: Final = 30.0
"""Seconds after which a deleted pod is gone: its grace period of 5 s, the stop, and two attempts of the node."""
_ARRIVES_WITHIN: Final = 3.0
"""Seconds after which a node has stored a new pod, or a new specification of one: two turns of the link, commits at
both ends, and the second between two looks.
"""
_ANSWERED_WITHIN: Final = 15.0
"""Seconds after which the cloud has a node's first status of the pod: its admission, and a repetition after 10 s."""
_SETTLED: Final = 100.0
"""Seconds after a fault without demands: the longest time-out (65 s) and a repetition."""


class LatencyWatch:
    """The check that nothing of one node waits for long while there is no fault. Agreement in the end forgives delays.

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
        self._seen: dict[tuple[str, int], tuple[float, int]] = {}
        """When each generation of a pod, by its uid, was first seen, and with which version."""

    def ended(self, container_id: str, uid: str, name: str) -> None:
        """Note that a container has ended."""
        self._ended[container_id] = uid, name, self._world.now()

    def was_calm(self, at: float, behind: float) -> bool:
        """Return whether there was no fault for long before a time, nor since; `behind` as for `check`."""
        return self._calm_since is not None and at >= self._calm_since + _SETTLED + behind

    def check(self, pods: Mapping[str, JsonObject], stored: Mapping[str, int], *, is_calm: bool, behind: float) -> None:
        """Check the bounds.

        Args:
            pods: the node's pods in the cloud, by uid.
            stored: the versions of the objects that the node has stored, by uid.
            is_calm: whether there is no fault now, and all processes and the node's connection are up.
            behind: seconds during which cloudcore may not know of a change after a fault.
        """
        now = self._world.now()
        self._observe_pods(pods, now)
        if not is_calm:
            self._calm_since = None
            return
        self._calm_since = now if self._calm_since is None else self._calm_since
        since = self._calm_since + _SETTLED + behind
        self._check_ends(pods, now, since)
        self._check_deletions(pods, now, since)
        self._check_arrivals(pods, stored, now, since)

    def _observe_pods(self, pods: Mapping[str, JsonObject], now: float) -> None:
        """Remember the pods that the node is to have; a mirror is the node's own."""
        found = {
            (uid, pod["metadata"].get("generation", 1)): (now, int(version_of(pod)))
            for uid, pod in pods.items()
            if runs_as(pod) == uid and not pod["metadata"].get("deletionTimestamp")
        }
        self._seen = {key: self._seen.get(key, at) for key, at in found.items()}

    def _check_arrivals(
        self, pods: Mapping[str, JsonObject], stored: Mapping[str, int], now: float, since: float
    ) -> None:
        for (uid, _), (at, version) in self._seen.items():
            name = pods[uid]["metadata"]["name"]
            if at >= since and now > at + _ARRIVES_WITHIN and stored.get(uid, -1) < version:
                text = f"{name} ({uid[:8]}), version {version} of {at:.3f} s: there is version {stored.get(uid)}"
                self._world.violated("a change is on its node soon", f"{self._node}: {text}")
            if at >= since and now > at + _ANSWERED_WITHIN and not (pods[uid].get("status") or {}).get("hostIP"):
                text = f"{name} ({uid[:8]}) of {at:.3f} s has no status of its node"
                self._world.violated("a new pod is answered soon", f"{self._node}: {text}")

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
