"""edgecontroller's messages to cloudhub."""

from functools import partial

import msgspec

from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation
from modules.cloud.devices import is_sent_to_nodes
from modules.cloud.edgecontroller.downstream.responses import UpstreamResponse
from modules.cloud.edgecontroller.downstream_messages import DownstreamMessage, is_sent_by_watch
from modules.cloud.edgecontroller.mirror.mirrored_bodies import MirroredBodies
from modules.cloud.messages import SessionTakenOver
from modules.cloud.storage.transactions import Transactions

_SENT_AS_STORED = frozenset({"Pod", "ConfigMap", "Secret"})
"""Kinds of most of the objects that nodes get. Other kinds may be sent in another form than the stored one, such as
devices of old versions.
"""


class CloudHubSender:
    """The sender of messages for nodes, and of orders to close connections, after the transaction.

    Args:
        module: edgecontroller.
        transactions: of edgecontroller.
        bodies: the objects that are sent.
    """

    def __init__(self, module: Module, transactions: Transactions, bodies: MirroredBodies) -> None:
        self._bodies = bodies
        self._module = module
        self._transactions = transactions

    def close_connection(self, node: str, connection: str) -> None:
        """End a connection of a node."""
        content = SessionTakenOver(connection)
        self._send(self._module.message(f"node/{node}", Operation.DISCONNECTED, content, group=Group.RESOURCE))

    def send_down(self, down: DownstreamMessage) -> None:
        """Send an object, or its deletion; as in KubeEdge, of a kind that nodes watch in
        dynamiccontroller's name, and of a device in devicecontroller's.
        """
        fields = {"resourceversion": down.version, "source": self._source_of(down)}
        content = self._content_of(down)
        self._send(self._module.message(down.resource, down.operation, content, group=Group.RESOURCE, **fields))

    def _content_of(self, down: DownstreamMessage) -> object:
        """Return the mirror's own JSON of an object that is sent as it is stored, if the mirror has it. Then messages
        that wait for many nodes take no memory beside it, and the object is not encoded for each node.
        """
        is_stored = down.key.kind in _SENT_AS_STORED and down.operation != Operation.DELETE
        body = self._bodies.body_of(down.key, down.version) if is_stored else None
        return down.content if body is None else msgspec.Raw(body)

    def _source_of(self, down: DownstreamMessage) -> str:
        if down.source:
            return down.source
        if is_sent_to_nodes(down.key):
            return ModuleName.DEVICECONTROLLER
        return ModuleName.DYNAMICCONTROLLER if is_sent_by_watch(down.key.kind) else str(self._module.name)

    def send_response(self, request: Message, answer: UpstreamResponse) -> None:
        """Send the response to a message of a node."""
        reply = request.reply(self._module.clock, answer.content, source=self._module.name)
        resource = request.subject_on_cloud
        if answer.resource_type:
            resource = msgspec.structs.replace(resource, type=answer.resource_type)
        routed = reply.with_route(group=Group.RESOURCE, resource=str(resource))
        self._send(routed.with_header(resourceversion=answer.version))

    def _send(self, message: Message) -> None:
        self._transactions.after_commit(partial(self._module.send, ModuleName.CLOUDHUB, message))
