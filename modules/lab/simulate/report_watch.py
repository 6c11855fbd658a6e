"""Invariants of the statuses that the cloud receives."""

from modules.lab.simulate.documents import JsonObject
from modules.lab.simulate.status_watch import runs_as
from modules.lab.simulate.world import World

_ENDED = ("Succeeded", "Failed")


class ReportWatch:
    """The check that the statuses in the cloud go forward only."""

    def __init__(self, world: World) -> None:
        self._world = world
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
        for pod in pods:
            status = pod.get("status") or {}
            uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
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
