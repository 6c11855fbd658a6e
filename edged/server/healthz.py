"""`/healthz`, `/healthz/ping`, `/healthz/syncloop`: the kubelet's checks, and the modules of this node."""

from typing import Final

from beehive import Clock, Hive, ModuleName, State
from beehive.http.request import Request
from beehive.http.responses import Response, text
from edged.server.snapshots import Snapshots

MIN_SYNC_LOOP_SECONDS: Final = 300.0
"""Least age of a relist that makes the sync loop count as stuck: it outlasts two calls that run into
`runtimeRequestTimeout`.
"""


class Health:
    """Handlers of the health checks.

    The sync loop is healthy while relists end, with an error or without, within twice the sync period
    (kubelet's `syncLoopHealthCheck`). A runtime that does not answer is in the node's condition: a restart of the agent
    would not help it.

    Args:
        snapshots: with the time of the last relist.
        hive: its modules' readiness is checked.
        clock: the hive's.
        sync_period: seconds, `syncFrequency`.
    """

    def __init__(self, snapshots: Snapshots, hive: Hive, clock: Clock, sync_period: float) -> None:
        self._snapshots = snapshots
        self._hive = hive
        self._clock = clock
        self._sync_period = sync_period

    def everything(self, _request: Request) -> Response:
        """Answer `ok` when every module is ready and the sync loop runs, else 503 with the reasons."""
        modules = self._hive.readiness()
        ill = [f"{name}: {r.state} {r.reason}".rstrip() for name, r in modules.items() if r.state is not State.READY]
        stuck = self._stuck if ModuleName.EDGED in modules else ""
        return _answer([*ill, f"syncloop: {stuck}"] if stuck else ill)

    def ping(self, _request: Request) -> Response:
        """Answer `ok`."""
        return text(200, "ok")

    def sync_loop(self, _request: Request) -> Response:
        """Answer `ok` when the sync loop runs, else 503 with the reason."""
        return _answer([self._stuck] if self._stuck else [])

    @property
    def _stuck(self) -> str:
        relisted_at = self._snapshots.relisted_at
        if relisted_at is None:
            return "the runtime has not been looked at yet"
        return stuck_sync_loop(relisted_at, self._clock.monotonic(), self._sync_period)


def stuck_sync_loop(relisted_at: float, now: float, sync_period: float) -> str:
    """Return why the sync loop counts as stuck; empty while it runs.

    Args:
        relisted_at: monotonic seconds of the last relist.
        now: monotonic seconds.
        sync_period: seconds, `syncFrequency`.
    """
    ago = now - relisted_at
    longest = max(2 * sync_period, MIN_SYNC_LOOP_SECONDS)
    return f"the last look at the runtime ended {ago:.0f} s ago" if ago > longest else ""


def _answer(ill: list[str]) -> Response:
    return text(503, "\n".join(ill) + "\n") if ill else text(200, "ok")
