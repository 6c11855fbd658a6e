"""The gate that every request of a node passes: decided by the authorizer and the restriction, counted, logged."""

from collections.abc import Callable
from typing import Final

from modules.cloudhub.refusals import Refusals
from modules.edgecontroller.authorization.attributes import Attributes
from modules.edgecontroller.authorization.authorizer import authorize
from modules.edgecontroller.authorization.graph import Graph
from modules.edgecontroller.authorization.restriction import refusal
from modules.edgecontroller.authorization.rules import RULES
from modules.edgecontroller.errors import ForbiddenError
from modules.edgecontroller.kinds import JsonObject, kind_named, metadata_of

_AUTHORIZER: Final = "not authorized"
_RESTRICTION: Final = "restricted"
_RESOURCES: Final = frozenset(resource for _, resource in RULES)


class Gate:
    """Lets a node's requests and writes pass, or raises ForbiddenError, counted and logged.

    Args:
        graph: what refers to what.
        refusals: where they are counted.
    """

    def __init__(self, graph: Graph, refusals: Refusals) -> None:
        self._graph = graph
        self._refusals = refusals

    def pass_through(self, asked: Attributes) -> None:
        """Lets a request pass.

        Raises:
            ForbiddenError: the node may not ask that.
        """
        decision = authorize(asked, self._graph)
        if decision.allowed:
            return
        plural = asked.resource.partition("/")[0]
        where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
        why = (
            f'User "{asked.user}" cannot {asked.verb} resource "{asked.resource}" in API group "{asked.group}" {where}'
            f": {decision.reason}"
        )
        error = ForbiddenError(plural[:253], asked.name[:253], why, asked.group[:253])
        kind = asked.resource if asked.resource in _RESOURCES else "other"
        self._refusals.note(asked.node, _AUTHORIZER, kind, error.message)
        raise error

    def admission(self, node: str) -> Callable[[JsonObject | None, JsonObject | None], None]:
        """What each object passes that a node writes: before, after. It raises ForbiddenError."""

        def admit(old: JsonObject | None, new: JsonObject | None) -> None:
            why = refusal(node, old, new, self._graph)
            if why:
                obj = new if new is not None else old or {}
                kind = kind_named(str(obj["kind"]))
                error = ForbiddenError(kind.plural, str(metadata_of(obj).get("name"))[:253], why, kind.api_group)
                self._refusals.note(node, _RESTRICTION, kind.plural, error.message)
                raise error

        return admit
