"""Authorization and admission of nodes' requests."""

from collections.abc import Callable
from typing import Final

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named, metadata_of
from modules.cloud.authorization.attributes import Attributes
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.node_authorizer import authorize
from modules.cloud.authorization.node_restriction import refusal
from modules.cloud.authorization.node_rules import RULES
from modules.cloud.refusals import Refusals

_AUTHORIZER: Final = "not authorized"
_RESTRICTION: Final = "restricted"
_QUOTA: Final = "over its quota"
_RESOURCES: Final = frozenset(resource for _, resource in RULES)


class AccessControl:
    """The node authorizer and NodeRestriction, applied to the requests of nodes; it counts and logs the refused ones.

    Args:
        graph: the objects that each node's pods refer to.
        refusals: counts refused requests.
    """

    def __init__(self, graph: NodeGraph, refusals: Refusals) -> None:
        self._graph = graph
        self._refusals = refusals

    def authorize(self, request: Attributes) -> None:
        """Check a request by the node authorizer.

        Raises:
            ForbiddenError: the node may not make the request.
        """
        decision = authorize(request, self._graph)
        if not decision.reason:
            return
        plural = request.resource.partition("/")[0]
        where = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
        why = (
            f'User "{request.user}" cannot {request.verb} resource "{request.resource}" in API group '
            f'"{request.group}" {where}: {decision.reason}'
        )
        error = ForbiddenError(plural[:253], request.name[:253], why, request.group[:253])
        kind = request.resource if request.resource in _RESOURCES else "other"
        self._refusals.record(request.node, _AUTHORIZER, kind, error.message)
        raise error

    def admission(self, node: str) -> Callable[[JsonObject | None, JsonObject | None], None]:
        """Return a function that checks each write of a node by NodeRestriction and the node's account, with the
        object before and after.

        The function raises ForbiddenError.
        """

        def admit(old: JsonObject | None, new: JsonObject | None) -> None:
            why, reason = refusal(node, old, new, self._graph), _RESTRICTION
            if not why and new is not old:
                own = self._graph.find(ObjectKey("Node", "", node)) if old is None else None
                why, reason = self._graph.accounts.refusal(node, old, new, own), _QUOTA
            if why:
                obj = new if new is not None else old or {}
                kind = kind_named(str(obj["kind"]))
                error = ForbiddenError(kind.plural, str(metadata_of(obj).get("name"))[:253], why, kind.api_group)
                self._refusals.record(node, reason, kind.plural, error.message)
                raise error

        return admit
