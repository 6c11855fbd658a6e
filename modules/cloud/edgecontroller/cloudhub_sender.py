"""edgecontroller's messages to cloudhub."""

from functools import lru_cache, partial

import msgspec

from beehive.message import Header, Message, Route
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation
from modules.cloud.devices import KEY_NAMES as DEVICES
from modules.cloud.edgecontroller.downstream.responses import UpstreamResponse
from modules.cloud.edgecontroller.downstream_messages import DownstreamMessage, is_sent_by_watch
from modules.cloud.edgecontroller.mirror.mirrored_bodies import MirroredBodies
from modules.cloud.messages import ObjectMessage, SessionTakenOver
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
        self._send = partial(module.hive.send, ModuleName.CLOUDHUB)
        self._transactions = transactions

    def close_connection(self, node: str, connection: str) -> None:
        """End a connection of a node."""
        content = SessionTakenOver(connection)
        order = self._module.message(f"node/{node}", Operation.DISCONNECTED, content, group=Group.RESOURCE)
        self._transactions.after_commit(partial(self._send, order))

    def send_down(self, down: DownstreamMessage) -> None:
        """Send an object, or its deletion; as in KubeEdge, of a kind that nodes watch in
        dynamiccontroller's name, and of a device in devicecontroller's.
        """
        clock = self._module.clock
        header = Header(clock.new_id(), "", clock.now_ms(), down.version, sync=False)
        source = down.source or _source_of_kind(down.key.kind) or self._module.name
        route = Route(source, "", Group.RESOURCE, down.operation, down.resource)
        content, uid = self._content_of(down), down.uid
        message = ObjectMessage(header, route, content, uid, down.number) if uid else Message(header, route, content)
        self._transactions.after_commit(partial(self._send, message))

    def _content_of(self, down: DownstreamMessage) -> object:
        """Return the mirror's own JSON of an object that is sent as it is stored, if the mirror has it. Then messages
        that wait for many nodes take no memory beside it, and the object is not encoded for each node.
        """
        is_stored = down.key.kind in _SENT_AS_STORED and down.operation != Operation.DELETE
        body = self._bodies.body_of(down.key, down.version) if is_stored else None
        return down.content if body is None else msgspec.Raw(body)

    def send_response(self, request: Message, answer: UpstreamResponse, *, is_promise: bool = True) -> None:
        """Send the response to a message of a node: at once, if it promises nothing that is not durable yet."""
        clock, asked, resource = self._module.clock, request.header, request.route.resource
        if answer.resource_type:
            resource = str(msgspec.structs.replace(request.subject_on_cloud, type=answer.resource_type))
        header = Header(clock.new_id(), asked.msg_id, clock.now_ms(), answer.version, sync=False, type=asked.type)
        route = Route(self._module.name, "", Group.RESOURCE, Operation.RESPONSE, resource)
        send = partial(self._send, Message(header, route, answer.content))
        if is_promise:
            self._transactions.after_commit(send)
        else:
            send()


@lru_cache(256)
def _source_of_kind(kind: str) -> str:
    """Return the module in whose name objects of a kind, as in keys, are sent; "" for edgecontroller."""
    if kind in DEVICES:
        return ModuleName.DEVICECONTROLLER
    return ModuleName.DYNAMICCONTROLLER if is_sent_by_watch(kind) else ""
