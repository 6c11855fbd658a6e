"""Counts of connections, for metrics."""

from collections import Counter


class ConnectionCounters:
    """The number of refusals of a server of connections. Any thread may read it."""

    def __init__(self) -> None:
        self.rejected_frames: Counter[str] = Counter()
        """Frames of nodes that are not messages, by reason."""
        self.refused_connections: Counter[str] = Counter()
        """Connections that were refused before they were opened, by reason."""
