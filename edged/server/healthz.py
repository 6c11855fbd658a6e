"""`/healthz`, `/healthz/ping`, `/healthz/syncloop`: the kubelet's checks, and the modules of this node.

The sync loop is well when looks at the runtime come to an end, whether the runtime answers or not: one that does not is
seen in the node's condition, and a restart of the agent would not help it. The bound is the kubelet's
(`syncLoopHealthCheck`): twice the sync period, and five minutes at least, which outlasts two calls that run into
`runtimeRequestTimeout`.
"""

from typing import Final

from beehive import Clock, Hive, ModuleName, State
from edged.server.answers import Answer, text
from edged.server.request import Request
from edged.server.snapshots import Snapshots

LEAST_PATIENCE: Final = 300.0
"""Seconds."""


class Health:
    """The handlers.

    Args:
        snapshots: says when the runtime was looked at.
        hive: says how the modules are.
        clock: the hive's.
        sync_period: seconds, `syncFrequency`.
    """

    def __init__(self, snapshots: Snapshots, hive: Hive, clock: Clock, sync_period: float) -> None:
        self._snapshots = snapshots
        self._hive = hive
        self._clock = clock
        self._patience = max(2 * sync_period, LEAST_PATIENCE)

    def everything(self, _request: Request) -> Answer:
        """`ok` when every module is ready and the sync loop runs; otherwise what is not, and why."""
        modules = self._hive.readiness()
        ill = [f"{name}: {r.state} {r.reason}".rstrip() for name, r in modules.items() if r.state is not State.READY]
        stuck = self._stuck if ModuleName.EDGED in modules else ""
        return _answer([*ill, f"syncloop: {stuck}"] if stuck else ill)

    def ping(self, _request: Request) -> Answer:
        """The process answers."""
        return text(200, "ok")

    def sync_loop(self, _request: Request) -> Answer:
        """The sync loop runs."""
        return _answer([self._stuck] if self._stuck else [])

    @property
    def _stuck(self) -> str:
        looked_at = self._snapshots.looked_at
        if looked_at is None:
            return "the runtime has not been looked at yet"
        ago = self._clock.monotonic() - looked_at
        return f"the last look at the runtime ended {ago:.0f} s ago" if ago > self._patience else ""


def _answer(ill: list[str]) -> Answer:
    return text(503, "\n".join(ill) + "\n") if ill else text(200, "ok")
