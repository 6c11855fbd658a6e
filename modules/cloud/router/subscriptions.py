"""The subscriptions of nodes for Rules: topics of their brokers, and URLs of their servicebus."""

from collections import defaultdict
from collections.abc import KeysView
from typing import Final

from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation, Source
from modules.cloud.connected_nodes import ConnectedNodes
from modules.cloud.router.records import RuleRoute
from modules.cloud.router.routing_table import RoutingTable, RuleChange
from modules.cloud.router.topics import selects

_MOST_UNWANTED: Final = 100
"""Subscriptions without a Rule that are ended, for each connection of a node."""


_FIXED: Final = ("$hw/events/upload/#", "SYS/dis/upload_records", "+/user/#")
"""Topics of each node's own subscriptions, without a Rule."""


class NodeSubscriptions:
    """The subscriptions sent to each connected node: all of them at each connection, because it may have missed a
    change, and later the changes.

    Args:
        module: the router.
        table: has the Rules.
    """

    def __init__(self, module: Module, table: RoutingTable) -> None:
        self._module = module
        self._table = table
        self._unwanted: defaultdict[str, set[str]] = defaultdict(set)
        self._is_loaded = False
        self._connected = ConnectedNodes()

    @property
    def connected(self) -> KeysView[str]:
        """The nodes that are connected to this cloudcore."""
        return self._connected.nodes

    def connect(self, node: str, connection: str) -> None:
        """Tell a node that has connected."""
        if not self._connected.begin(node, connection):
            return
        self._unwanted.pop(node, None)
        if self._is_loaded:
            self._subscribe_node(node)

    def disconnect(self, message: Message) -> None:
        """Forget a node's connection, if it has no other by now."""
        if self._connected.end(message):
            self._unwanted.pop(message.route.resource.removeprefix("node/"), None)

    def begin(self) -> None:
        """Tell the connected nodes, once all Rules are known."""
        self._is_loaded = True
        for node in sorted(self.connected):
            self._subscribe_node(node)

    def follow(self, change: RuleChange) -> None:
        """Tell nodes of a changed Rule."""
        if not self._is_loaded:
            return
        old, new = change.old, change.new
        if old is not None and old.node in self.connected and not self._table.is_wanted(old):
            self._send(old.node, old.resource, is_url=old.is_url, wanted=False)
        has_same = old is not None and new is not None and (old.node, old.resource) == (new.node, new.resource)
        if new is not None and new.node in self.connected and not has_same:
            self._subscribe(new)

    def end_unwanted(self, node: str, resource: str, *, is_url: bool) -> None:
        """End a subscription that a node still has: its Rule was deleted while the node was away."""
        if not is_url and any(selects(fixed, resource) for fixed in _FIXED):
            return
        seen = self._unwanted[node]
        if resource not in seen and len(seen) < _MOST_UNWANTED:
            seen.add(resource)
            self._send(node, resource, is_url=is_url, wanted=False)

    def _subscribe_node(self, node: str) -> None:
        for route in self._table.of_node(node):
            self._subscribe(route)

    def _subscribe(self, route: RuleRoute) -> None:
        self._unwanted[route.node].discard(route.resource)
        self._send(route.node, route.resource, is_url=route.is_url, wanted=True)

    def _send(self, node: str, resource: str, *, is_url: bool, wanted: bool) -> None:
        if is_url:
            source, operation = Source.ROUTER_SERVICEBUS, Operation.START if wanted else Operation.STOP
        else:
            source, operation = Source.ROUTER_EVENTBUS, Operation.SUBSCRIBE if wanted else Operation.UNSUBSCRIBE
        fields = {"source": source, "group": Group.USER}
        self._module.send(
            ModuleName.CLOUDHUB, self._module.message(f"node/{node}/{resource}", operation, None, **fields)
        )
