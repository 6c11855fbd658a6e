"""Whether a process is alive, for the watchdog: a restart of the process would help where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beehive.slot import State
from edged.server.healthz import stuck_sync_loop
from modules.processes.common.service_manager import dead_modules

if TYPE_CHECKING:
    from beehive import Hive
    from edged.server.snapshots import Snapshots


class NodeLiveness:
    """The state of a node for the service manager.

    Args:
        hive: its modules have to run.
        snapshots: with the pods and the time of the last relist.
        node: the node's name.
        sync_period: seconds, `syncFrequency`; 0 without edged.
    """

    def __init__(self, hive: Hive, snapshots: Snapshots, node: str, sync_period: float) -> None:
        self._hive = hive
        self._snapshots = snapshots
        self._node = node
        self._sync_period = sync_period
        self._since = hive.clock.monotonic()

    def check(self) -> tuple[str, bool]:
        """Return a line for `systemctl status`, and whether modules and sync loop are alive."""
        troubles = dead_modules(self._hive)
        if self._sync_period:
            relisted_at = self._snapshots.relisted_at
            stuck = stuck_sync_loop(
                self._since if relisted_at is None else relisted_at, self._hive.clock.monotonic(), self._sync_period
            )
            troubles += [f"sync loop: {stuck}"] if stuck else []
        if troubles:
            return f"node {self._node} is not alive: {'; '.join(troubles)}", False
        running = sum(pod.status.phase == "Running" for pod in self._snapshots.pods)
        waiting = [
            f"{name} {r.reason}".rstrip() for name, r in self._hive.readiness().items() if r.state != State.READY
        ]
        text = f"node {self._node}: {running} of {len(self._snapshots.pods)} pods running"
        return (f"{text}; not ready: {', '.join(waiting)}" if waiting else text), True
