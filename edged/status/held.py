"""HeldStatuses: pods whose phase Pending is held back.

Nothing else on a pod's way from its manifest to Running waits for a timer; many pods wait for the link's rate limit.
The timer is no effect of the machine of a pod: it spreads the statuses of all pods of the node.
"""

from collections.abc import Callable

from beehive import ModuleContext, Timer
from edged.pods.model import PodUid

PENDING_DELAY = 1.0
"""Seconds that the phase Pending is held back while the containers wait for the usual reasons only."""

PENDING_PERIOD = 0.25
"""Seconds between the ends of two of them: when many pods start together, most run before their turn comes, and the
link's rate limit is left to pods that run already.
"""


class HeldStatuses:
    """Pods whose status is held back, in the order of their starts. Lives on the edged module's thread.

    Args:
        context: the module.
        send: sends the status of a pod at its turn.
    """

    def __init__(self, context: ModuleContext, send: Callable[[PodUid], None]) -> None:
        self._context = context
        self._send = send
        self._due: dict[PodUid, float] = {}
        self._timer: Timer | None = None

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self._due

    def hold(self, uid: PodUid) -> None:
        """Hold the status of a pod back, if it is not held yet."""
        if uid not in self._due:
            self._due[uid] = self._context.clock.monotonic() + PENDING_DELAY
            if self._timer is None:
                self._timer = self._context.after(PENDING_DELAY, self._next)

    def drop(self, uid: PodUid) -> None:
        """Hold the status of a pod no longer."""
        if self._due.pop(uid, None) is not None and not self._due and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next(self) -> None:
        self._timer = None
        now = self._context.clock.monotonic()
        uid, due = next(iter(self._due.items()))
        if due <= now:
            del self._due[uid]
        if self._due:
            wait = max(PENDING_PERIOD, next(iter(self._due.values())) - now)
            self._timer = self._context.after(wait, self._next)
        if due <= now:
            self._send(uid)
