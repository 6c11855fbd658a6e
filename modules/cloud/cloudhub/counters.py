"""Counts of the connections of nodes, for metrics."""

import threading
from collections import Counter

from modules.cloud.cloudhub.node_session import NodeSession
from modules.cloud.websocket.counters import ConnectionCounters


class CloudHubCounters(ConnectionCounters):
    """Made by the process, so it outlives restarts of cloudhub. Any thread may read it."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[str, NodeSession] = {}
        """The session of each connected node, written by cloudhub."""
        self.dropped: Counter[str] = Counter()
        """Messages that cloudhub has dropped, by reason."""
        self.resent = 0
        """Messages that were sent again because the node had not acknowledged them."""
        self._certificate_responses: Counter[int] = Counter()
        self._lock = threading.Lock()

    def count_resent(self) -> None:
        """Count a message that is sent again."""
        self.resent += 1

    def count_certificate_response(self, status: int) -> None:
        """Count a response of the HTTPS server for certificates; from any thread."""
        with self._lock:
            self._certificate_responses[status] += 1

    def certificate_responses(self) -> dict[int, int]:
        """Return the number of responses of the HTTPS server for certificates, by status."""
        with self._lock:
            return dict(self._certificate_responses)
