"""The state of a node's present connection in cloudhub."""

from typing import Final

import msgspec

from beehive.printable import clipped
from modules.cloud.cloudhub.node_session import NodeSession
from modules.cloud.messages import NodeConnection
from modules.cloud.websocket.link import Link

_MOST_MILLISECONDS: Final = 2**53
"""Largest time of a message that is believed."""


class Connection(msgspec.Struct):
    """A node's present connection."""

    link: Link
    alive_at: float
    """Monotonic seconds of the last keepalive."""
    id: str
    opened_at: float
    """Monotonic seconds of its beginning."""
    address: str = ""
    """From where the node has connected."""
    certificate_ends: float = 0.0
    """When its certificate ends, in seconds since 1970; 0 without TLS."""
    last_error: str = ""
    error_at: float = 0.0
    """Monotonic seconds of the last error."""
    clock_ahead: float = 0.0
    """How far the node's clock is ahead of cloudcore's, in seconds."""

    def record_keepalive(self, sent: int, now: float, here: float) -> None:
        """Record a keepalive.

        Args:
            sent: when it was sent by the node's clock, in milliseconds since 1970; 0 if it does not say.
            now: monotonic seconds.
            here: seconds since 1970 by cloudcore's clock.
        """
        self.alive_at = now
        self.clock_ahead = sent / 1000 - here if 0 < sent < _MOST_MILLISECONDS else 0.0

    def record_error(self, text: str, now: float) -> None:
        """Record an error that the node reports, or why a message of it was refused."""
        self.last_error, self.error_at = clipped(text), now

    def report(self, node: str, session: NodeSession, now: float) -> NodeConnection:
        """Return the state of the connection for `cloudcore nodes`, with all times as seconds until now."""
        oldest = session.oldest_unacknowledged()
        return NodeConnection(
            node=node,
            connected_seconds=now - self.opened_at,
            keepalive_seconds=now - self.alive_at,
            waiting=session.waiting,
            unacknowledged=session.unacknowledged,
            oldest_seconds=0.0 if oldest is None else now - oldest,
            is_behind=self.link.is_behind,
            last_error=self.last_error,
            last_error_seconds=now - self.error_at if self.last_error else 0.0,
            connection=self.id,
            address=self.address,
            certificate_ends=self.certificate_ends,
            clock_ahead_seconds=self.clock_ahead,
        )
