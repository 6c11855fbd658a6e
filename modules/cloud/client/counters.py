"""Counts of the requests to an API server, for metrics."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from modules.cloud.client.lane_calls import LaneDepth, RequestLane
from modules.cloud.durations import Durations

NO_RESPONSE: Final = 0
"""In place of a status: the request had no response."""


class WatchCounters:
    """Counts of the lists and watches of one kind."""

    def __init__(self) -> None:
        self.lists = 0
        """Lists that were complete, the first one included."""
        self.failures = 0
        """Lists and watches that failed and were repeated."""
        self.heard_at = 0.0
        """Monotonic seconds of the API server's last news of the kind; 0 for never."""


class ApiCounters:
    """Counts of one module's requests, written on its thread and read by any. It outlives restarts of the module."""

    def __init__(self) -> None:
        self.statuses: Counter[tuple[RequestLane, int]] = Counter()
        """Ended requests, by lane and status."""
        self.durations: Mapping[RequestLane, Durations] = {lane: Durations() for lane in RequestLane}
        """From the sending of a request to the end of its response, by lane."""
        self.waits: Mapping[RequestLane, Durations] = {lane: Durations() for lane in RequestLane}
        """From the making of a request to its first sending, by lane."""
        self.node_requests: dict[str, Durations] = {}
        """From the taking of a node's message to the end of its handling, by resource type."""
        self.depths: Mapping[RequestLane, LaneDepth] = {lane: LaneDepth() for lane in RequestLane}
        """The requests that wait, and those in flight, by lane."""
        self.watches: dict[str, WatchCounters] = {}
        """By kind."""

    def ended(self, lane: RequestLane, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        self.statuses[lane, status] += 1
        self.durations[lane].observe(seconds)

    def watch(self, kind: str) -> WatchCounters:
        """Return the counters of a kind."""
        return self.watches.setdefault(kind, WatchCounters())
