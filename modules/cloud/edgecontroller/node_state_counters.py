"""Counts of the NodeStates that cloudcore writes, for metrics."""


class NodeStateCounters:
    """Written by edgecontroller, read by any thread. It outlives restarts of the module."""

    def __init__(self) -> None:
        self.writes = 0
        """Writes that the API server has answered with success."""
        self.failures = 0
        """Writes that failed otherwise than by a conflict, which is how cloudcores notice each other."""
        self.left_out: dict[str, int] = {}
        """By node, the objects that do not fit into its NodeState; only of nodes that have such."""
