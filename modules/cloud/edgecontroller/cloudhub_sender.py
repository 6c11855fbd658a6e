"""edgecontroller's messages to cloudhub."""

from functools import partial

import msgspec

from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation
from beehive.resource import Resource, Side
from modules.cloud.apiserver.transactions import Transactions
from modules.cloud.edgecontroller.downstream_messages import DownstreamMessage
from modules.cloud.edgecontroller.node_watches import SENT_BY_WATCH
from modules.cloud.edgecontroller.responses import UpstreamResponse
from modules.cloud.messages import SessionTakenOver


class CloudHubSender:
    """Sends what nodes get, and ends of connections, after the transaction.

    Args:
        module: edgecontroller.
        transactions: of edgecontroller.
    """

    def __init__(self, module: Module, transactions: Transactions) -> None:
        self._module = module
        self._transactions = transactions

    def close_connection(self, node: str, connection: str) -> None:
        """Ends a connection of a node."""
        content = SessionTakenOver(connection)
        self._send(self._module.message(f"node/{node}", Operation.DISCONNECTED, content, group=Group.RESOURCE))

    def send_down(self, down: DownstreamMessage) -> None:
        """Sends an object, or its deletion; of a kind that nodes watch, in dynamiccontroller's name, as in KubeEdge."""
        source = ModuleName.DYNAMICCONTROLLER if down.key.kind in SENT_BY_WATCH else self._module.name
        fields = {"resourceversion": down.version, "source": source}
        self._send(self._module.message(down.resource, down.operation, down.content, group=Group.RESOURCE, **fields))

    def send_response(self, request: Message, answer: UpstreamResponse) -> None:
        """Sends the response to a message of a node."""
        reply = request.reply(self._module.clock, answer.content, source=self._module.name)
        resource = Resource.parse(request.route.resource, Side.CLOUD)
        if answer.resource_type:
            resource = msgspec.structs.replace(resource, type=answer.resource_type)
        routed = reply.with_route(group=Group.RESOURCE, resource=str(resource))
        self._send(routed.with_header(resourceversion=answer.version))

    def _send(self, message: Message) -> None:
        self._transactions.after_commit(partial(self._module.send, ModuleName.CLOUDHUB, message))
