"""ConnectedNodes: the nodes that are connected to this cloudcore, as cloudhub tells its other modules."""

from collections.abc import KeysView

from beehive.message import Message
from modules.cloud.messages import ConnectEvent


class ConnectedNodes:
    """The connected nodes. Of the messages that wait in an inbox about the beginnings of a node's connections the
    newest takes the place of the first, and so with the ends: so the end of a connection may come before its beginning,
    and the beginning of the next one before it.
    """

    def __init__(self) -> None:
        self._connections: dict[str, str] = {}
        """By node, the id of its connection."""
        self._ended: dict[str, str] = {}
        """By node, the connection whose beginning has not come before its end, or was replaced."""

    @property
    def nodes(self) -> KeysView[str]:
        """The names of the nodes."""
        return self._connections.keys()

    def begin(self, node: str, connection: str) -> bool:
        """Take that a connection has begun, and return whether it lasts."""
        if connection and self._ended.pop(node, "") == connection:
            self._connections.pop(node, None)  # an earlier one, whose end has given way to this one's
            return False
        self._connections[node] = connection
        return True

    def end(self, message: Message) -> bool:
        """Take cloudhub's message of the end of a connection, and return whether the node is no longer connected."""
        event = message.content_as(ConnectEvent)
        if self._connections.get(event.client_id) != event.connection:
            self._ended[event.client_id] = event.connection
            return False
        del self._connections[event.client_id]
        self._ended.pop(event.client_id, None)
        return True
