"""The regular checks of all connections, a portion of them at a time."""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from beehive.module import Module
from modules.cloud.cloudhub.node_connection import Connection

_PORTION: Final = 256
"""Connections that are checked in one turn."""


class ConnectionChecks:
    """Finds the nodes without a keepalive, and has the messages of the others sent that are due.

    Args:
        module: cloudhub.
        connections: by node.
        interval: seconds without a keepalive after which a node is silent.
        silent: called with each silent node.
        due: called with each other node.
    """

    def __init__(
        self,
        module: Module,
        connections: Mapping[str, Connection],
        interval: float,
        silent: Callable[[str], None],
        due: Callable[[str], None],
    ) -> None:
        self._module = module
        self._connections = connections
        self._interval = interval
        self._silent = silent
        self._due = due
        self._unchecked: deque[str] = deque()

    def begin(self) -> None:
        """Begins to check all connections, unless that is still under way."""
        if not self._unchecked:
            self._unchecked.extend(self._connections)
            self._check()

    def _check(self) -> None:
        for _ in range(min(_PORTION, len(self._unchecked))):
            node = self._unchecked.popleft()
            connection = self._connections.get(node)
            if connection is None:
                continue
            if self._is_silent(connection):
                self._module.call_soon(partial(self._end, node, connection))
            else:
                self._due(node)
        if self._unchecked:
            self._module.call_soon(self._check)

    def _end(self, node: str, connection: Connection) -> None:
        """Report a silent node, unless its keepalive was in the inbox when it was checked."""
        if self._connections.get(node) is connection and self._is_silent(connection):
            self._silent(node)

    def _is_silent(self, connection: Connection) -> bool:
        now, link = self._module.clock.monotonic(), connection.link
        seconds = now - connection.alive_at
        if seconds > self._interval / 2 and link.is_held_back:
            connection.alive_at = now  # a keepalive may be in what waits
            return False
        return seconds > self._interval
