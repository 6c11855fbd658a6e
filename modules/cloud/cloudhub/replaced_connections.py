"""Finds node names that two machines use: each machine ends the other's connection."""

from typing import Final

PERIOD: Final = 60.0
"""Window, in seconds, of the count of a node's connections."""
MANY: Final = 5
"""Connections within `PERIOD` that replaced one which was still there. One machine on a bad link has fewer: it waits
longer each time.
"""

REMEMBERED: Final = 600.0
"""Seconds that a node counts as two machines with one name."""

TWO_MACHINES: Final = (
    "node %s connects again and again while it is connected: two machines seem to have this name; give one of them "
    "another: `edgecore join --name`, or modules.edged.hostnameOverride"
)
"""Warning about such a node, with its name."""


class ReplacedConnections:
    """The number, for each node, of connections that replaced one still there; it keeps nothing of other nodes."""

    def __init__(self) -> None:
        self._times: dict[str, list[float]] = {}
        self._two: dict[str, float] = {}
        """When it was found last that two machines have a name, in monotonic seconds."""

    def are_two(self, node: str, now: float) -> bool:
        """Return whether two machines had the node's name a moment ago."""
        for each in [name for name, time in self._two.items() if time <= now - REMEMBERED]:
            del self._two[each]
        return node in self._two

    def record(self, node: str, now: float) -> bool:
        """Count one, and return whether there were so many that two machines must have the node's name.

        That is reported once; counting starts over then.

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
        self._two[node] = now
        return True
