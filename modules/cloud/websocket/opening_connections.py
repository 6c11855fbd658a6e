"""The connections whose websocket is not open yet: strangers, as any client may connect."""

import logging
import resource
from typing import Final

from beehive.clock import Clock
from beehive.http.connections import network_of
from modules.cloud.websocket.connection import WebsocketConnection

_log = logging.getLogger(__name__)

_MOST: Final = 1024
"""As many as the backlog holds: all nodes may come together, and from one address, when a cloudcore has restarted."""
_LEAST: Final = 16
_SHARE: Final = 8
"""Part of the process's descriptors that strangers may hold at one port; the others are for nodes, and for answers."""
_LOG_SECONDS: Final = 60.0

_Networks = dict[str, dict[WebsocketConnection, None]]


class OpeningConnections:
    """The connections without an open websocket, bounded in number. For the server's thread.

    When there are too many, the oldest that has sent nothing makes room, else the oldest of the others: in each
    case of the address with the most of them. There is no fixed number for an address, since a thousand nodes may be
    behind one; but one address keeps no other from connecting, and connections that say nothing keep out no node.

    Args:
        name: of the port, for the log.
        clock: for the log.
        most: connections at a time.
    """

    def __init__(self, name: str, clock: Clock, most: int) -> None:
        self._name = name
        self._monotonic = clock.monotonic
        self.most = most
        self._silent: _Networks = {}
        self._begun: _Networks = {}
        self.networks: dict[WebsocketConnection, str] = {}
        """Of each connection."""
        self._logged_at = -_LOG_SECONDS

    def __len__(self) -> int:
        return len(self.networks)

    def add(self, connection: WebsocketConnection) -> None:
        """Add an accepted connection."""
        network = self.networks[connection] = network_of(connection.peer)
        self._silent.setdefault(network, {})[connection] = None

    def update(self, connection: WebsocketConnection) -> None:
        """Update a connection: it may have sent its first bytes, or be open."""
        network = self.networks.get(connection)
        if network is None:
            return
        if connection.is_open:
            self.remove(connection)
        elif connection.has_begun and _discard(self._silent, network, connection):
            self._begun.setdefault(network, {})[connection] = None

    def remove(self, connection: WebsocketConnection) -> None:
        """Forget a connection."""
        network = self.networks.pop(connection, None)
        if network is not None and not _discard(self._silent, network, connection):
            _discard(self._begun, network, connection)

    def surplus(self) -> WebsocketConnection | None:
        """Return the connection to end if there are too many, else None."""
        return self.spare() if len(self) > self.most else None

    def spare(self) -> WebsocketConnection | None:
        """Return the first connection to end, or None."""
        networks = self._silent or self._begun
        if not networks:
            return None
        network = max(networks, key=lambda each: len(networks[each]))
        now = self._monotonic()
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            said = "sent nothing" if networks is self._silent else "not opened a websocket"
            form = "%s: of %d connections without a websocket one of %s that has %s is closed"
            _log.warning(form, self._name, len(self), network, said)
        return next(iter(networks[network]))


def most_opening() -> int:
    """Return the number of connections without a websocket that a port may have, by the process's descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(_LEAST, min(_MOST, soft // _SHARE)) if soft != resource.RLIM_INFINITY else _MOST


def _discard(networks: _Networks, network: str, connection: WebsocketConnection) -> bool:
    """Remove a connection; return whether it was there."""
    connections = networks.get(network, {})
    if connection not in connections:
        return False
    del connections[connection]
    if not connections:
        del networks[network]
    return True
