"""Finds node names that two machines use: each machine ends the other's connection."""

from __future__ import annotations

from typing import Final

PERIOD: Final = 60.0
"""Seconds in which the connections of a node are counted."""
MANY: Final = 5
"""Connections within `PERIOD` that replaced one which was still there. One machine on a bad link has fewer: it waits
longer each time.
"""

TWO_MACHINES: Final = (
    "node %s connects again and again while it is connected: two machines seem to have this name; give one of them "
    "another: `edgecore join --name`, or modules.edged.hostnameOverride"
)
"""Warning about such a node, with its name."""


class ReplacedConnections:
    """Counts for each node the connections that replaced one which was still there; it keeps nothing of other nodes."""

    def __init__(self) -> None:
        self._times: dict[str, list[float]] = {}

    def note(self, node: str, now: float) -> bool:
        """Count one, and return whether there were so many that two machines must have the node's name.

        That is told once; counting begins anew then.

        Args:
            node: the node's name.
            now: monotonic seconds.
        """
        for each in [name for name, times in self._times.items() if times[-1] <= now - PERIOD]:
            del self._times[each]
        times = [time for time in self._times.get(node, ()) if time > now - PERIOD]
        self._times[node] = [*times, now]
        if len(self._times[node]) < MANY:
            return False
        del self._times[node]
        return True
