"""API calls of nodes' metaservers, of administrators, and of the cloud's other modules."""

from collections.abc import Callable

from modules.cloud.authorization import access_reviews
from modules.cloud.authorization.access_control import AccessControl
from modules.cloud.authorization.attributes import of_call
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.client.calls import DOCUMENT, UNWATCH, WATCH, ApiCall, ApiResult
from modules.cloud.edgecontroller.cluster import as_the_node
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.upstream.node_calls import NodeCalls

_NO_ROLES = RbacIndex()
"""A cluster's RBAC is its own matter."""


class ApiCallers:
    """The caller of the API, which authorizes a call and makes it.

    Args:
        calls: makes it.
        access_control: checks the calls of nodes.
        graph: for reviews of a node's rights.
        downstream: has the watches of nodes.
    """

    def __init__(
        self, calls: NodeCalls, access_control: AccessControl, graph: NodeGraph, downstream: DownstreamController
    ) -> None:
        self._calls = calls
        self._access_control = access_control
        self._graph = graph
        self._downstream = downstream

    def call(self, call: ApiCall, answered: Callable[[ApiResult], None]) -> None:
        """Make a call of another module: of an administrator, or, over TCP, of a node.

        Raises:
            ForbiddenError: the node may not make it.
        """
        if call.node:
            self._access_control.authorize(of_call(call.node, call))
        self._calls.perform(call, answered, call.node)

    def call_of_node(self, call: ApiCall, answered: Callable[[ApiResult], None]) -> None:
        """Make a call of a node's metaserver. The node authorizer, which decides on its calls, also answers reviews of
        its rights. Every node may read the documents of discovery.

        Raises:
            ForbiddenError: the node may not make it.
            ApiError: a watch that is not served.
        """
        if call.verb == DOCUMENT:
            self._calls.perform(call, answered, "")
        elif call.verb == UNWATCH:
            self._downstream.unwatch(call.node)
            answered(ApiResult())
        elif call.node and as_the_node.is_decided(call):
            self._calls.perform(call, answered, call.node)
        elif call.node and access_reviews.is_review(call):
            answered(access_reviews.answer(call, self._graph, _NO_ROLES))
        else:
            self._access_control.authorize(of_call(call.node, call))
            if call.verb == WATCH:
                self._downstream.watch(call)
                answered(ApiResult())
            else:
                self._calls.perform(call, answered, call.node)
