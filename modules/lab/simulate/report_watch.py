"""Invariants of the statuses that the cloud receives."""

from collections import ChainMap
from math import inf

from modules.lab.simulate.documents import JsonObject
from modules.lab.simulate.node import SimulatedNode
from modules.lab.simulate.status_watch import runs_as
from modules.lab.simulate.world import World

_ENDED = ("Succeeded", "Failed")


class ReportWatch:
    """The check that the statuses in the cloud go forward only.

    A pod that ended because it is being deleted may run once more if the disk of its node refused the deletion, and
    the node's process ended: only the cloud knows of the deletion then.

    Args:
        world: collects violations.
        nodes: nodes of the pods.
    """

    def __init__(self, world: World, nodes: list[SimulatedNode]) -> None:
        self._world = world
        self._nodes = nodes
        self._deleted: dict[str, int] = {}
        """Versions in which pods were first seen to be deleted, by uid."""
        self._ended: dict[str, str] = {}
        """Phases of pods that have ended, by uid."""
        self._restarts: dict[tuple[str, str], int] = {}
        """Highest restart count of each container, by uid and name."""

    def forget(self) -> None:
        """Forget all statuses: the cloud has older ones again."""
        self._ended.clear()
        self._restarts.clear()

    def check(self, pods: list[JsonObject], *, is_late: bool = False) -> None:
        """Compare the cloud's pods with their former states, unless there may be older ones (`is_late`)."""
        if is_late:
            self.forget()
        behind = ChainMap(*(node.behind for node in self._nodes))
        for pod in pods:
            status = pod.get("status") or {}
            uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"]:
                version = self._deleted.setdefault(uid, int(pod["metadata"]["resourceVersion"]))
                if behind.get(uid, inf) < version:
                    self._ended.pop(uid, None)
            if runs_as(pod) != uid:
                continue  # a mirror may outlive several pods of its static pod's file
            self._check_phase(uid, name, status.get("phase", ""))
            for container in status.get("containerStatuses") or []:
                self._check_restarts(uid, f"{name}/{container['name']}", container.get("restartCount", 0))

    def _check_phase(self, uid: str, name: str, phase: str) -> None:
        """Check that the phase of an ended pod does not change (Kubernetes' pod lifecycle)."""
        before = self._ended.get(uid)
        if before is not None and phase != before:
            self._world.violated("a pod that has ended stays so", f"{name} ({uid[:8]}) was {before} and is {phase}")
        if phase in _ENDED:
            self._ended[uid] = phase

    def _check_restarts(self, uid: str, name: str, count: int) -> None:
        before = self._restarts.get((uid, name), 0)
        if count < before:
            self._world.violated("restart counts are right", f"{name} ({uid[:8]}): {before} is followed by {count}")
        self._restarts[uid, name] = max(count, before)
