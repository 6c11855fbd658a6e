"""cloudhub, which lets the simulation know why it ends a connection."""

from collections.abc import Callable

from modules.cloud.cloudhub.module import CloudHub
from modules.cloud.websocket.link import Link, close_now
from modules.lab.simulate.network import CloudLink


class ObservedCloudHub(CloudHub):
    """cloudhub; it notes its reason for each connection that it ends."""

    def _disconnect(self, node: str, reason: str, close: Callable[[Link], None] = close_now) -> None:
        connection = self._connections.get(node)
        if connection is not None and isinstance(connection.link, CloudLink):
            connection.link.why = reason
        super()._disconnect(node, reason, close)
