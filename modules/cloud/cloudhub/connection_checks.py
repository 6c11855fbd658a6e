"""The regular checks of all connections, a portion of them at a time."""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from beehive.clock import Clock
from modules.cloud.cloudhub.node_connection import Connection

_PORTION: Final = 256
"""Connections that are checked in one turn."""


class CheckedHub(Protocol):
    """cloudhub, as far as the checks know it."""

    @property
    def clock(self) -> Clock:
        """The time."""

    def call_soon(self, function: Callable[[], None], /) -> None:
        """Call a function in a later turn."""

    def end_silent(self, node: str) -> None:
        """End the connection of a node without a keepalive."""

    def send_overdue(self, node: str) -> None:
        """Send a node again the messages that it has not acknowledged in time."""


class ConnectionChecks:
    """The checks that find the nodes without a keepalive, and have unacknowledged messages sent to the others again.

    Args:
        hub: cloudhub.
        connections: by node.
        interval: seconds without a keepalive after which a node is silent.
    """

    def __init__(self, hub: CheckedHub, connections: Mapping[str, Connection], interval: float) -> None:
        self._hub = hub
        self._connections = connections
        self._interval = interval
        self._unchecked: deque[str] = deque()

    def begin(self) -> None:
        """Begin to check all connections, unless that is still under way."""
        if not self._unchecked:
            self._unchecked.extend(self._connections)
            self._check()

    def _check(self) -> None:
        heard_since = self._hub.clock.monotonic() - self._interval / 2
        for _ in range(min(_PORTION, len(self._unchecked))):
            node = self._unchecked.popleft()
            connection = self._connections.get(node)
            if connection is None:
                continue
            if connection.alive_at < heard_since and self._is_silent(connection):
                self._hub.call_soon(partial(self._end, node, connection))
            else:
                self._hub.send_overdue(node)
        if self._unchecked:
            self._hub.call_soon(self._check)

    def _end(self, node: str, connection: Connection) -> None:
        """Report a silent node, unless its keepalive was in the inbox when it was checked."""
        if self._connections.get(node) is connection and self._is_silent(connection):
            self._hub.end_silent(node)

    def _is_silent(self, connection: Connection) -> bool:
        now, link = self._hub.clock.monotonic(), connection.link
        seconds = now - connection.alive_at
        if seconds > self._interval / 2 and link.is_held_back:
            connection.alive_at = now  # a keepalive may be in what waits
            return False
        return seconds > self._interval
