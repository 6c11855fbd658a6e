"""MissedConnections: connections and their ends that edgecontroller has not been told of."""

from typing import Final, Protocol

from beehive.errors import BeehiveError
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName, Operation
from modules.cloud.messages import NODES, NODES_RESOURCE, ConnectEvent, NodeConnection
from modules.cloud.storage.database.database import Database

_SECONDS: Final = 10.0
"""Timeout of cloudhub's response."""
_PAUSE: Final = 1.0
"""Seconds after which a cloudhub that could not answer is asked again."""


class ConnectionHandler(Protocol):
    """A handler of connections and their ends."""

    def on_connected(self, message: Message) -> None:
        """Take a connection."""

    def on_disconnected(self, message: Message) -> None:
        """Take the end of one."""


class MissedConnections:
    """A query of cloudhub for the connected nodes, which handles the beginnings and ends that edgecontroller does not
    know.

    A failed module loses the messages that waited in it, and the messages that failed too often: when the database was
    away, they may have been about connections.

    Args:
        module: edgecontroller.
        told: takes the new ones: edgecontroller's handlers.
        database: knows the connections that edgecontroller knows.
    """

    def __init__(self, module: Module, told: ConnectionHandler, database: Database) -> None:
        self._module = module
        self._told = told
        self._database = database

    def ask(self) -> None:
        """Ask, until there is an answer."""
        message = self._module.message(NODES_RESOURCE, NODES)
        self._module.request(ModuleName.CLOUDHUB, message, _SECONDS, self._handle_answer)

    def _handle_answer(self, answer: Message | BeehiveError) -> None:
        if not isinstance(answer, Message):
            self._module.after(_PAUSE, self.ask)
            return
        known = {node: connection.id for node, connection in self._database.connected.items()}
        present = {one.node: one for one in answer.content_as(list[NodeConnection])}
        now = self._module.clock.now()
        for node in known.keys() - present.keys():
            self._told.on_disconnected(self._event(Operation.DISCONNECTED, node, known[node], now))
        for node, one in present.items():
            if known.get(node) != one.connection:
                connected_at = now - one.connected_seconds
                self._told.on_connected(self._event(Operation.CONNECTED, node, one.connection, connected_at))
        self._module.end_turn_soon()

    def _event(self, operation: Operation, node: str, connection: str, at: float) -> Message:
        event = ConnectEvent(operation.value, int(at), node, connection, at=at)
        return self._module.message(f"node/{node}", operation, event)
