"""Whether a node may do what it asks: a decision and nothing else (Kubernetes' node authorizer)."""

from collections.abc import Callable
from typing import Final

import msgspec

from modules.edgecontroller.authorization.attributes import Attributes
from modules.edgecontroller.authorization.graph import Graph
from modules.edgecontroller.authorization.rules import RULES, Scope
from modules.edgecontroller.kinds import KINDS, JsonObject, ObjectKey, kind_named

LEASES: Final = "kube-node-lease"


class Decision(msgspec.Struct, frozen=True):
    """Yes, or no and why."""

    reason: str = ""
    """Empty: it is allowed."""

    @property
    def allowed(self) -> bool:
        """Whether it is."""
        return not self.reason


_ALLOWED: Final = Decision()
_UNKNOWN: Final = Decision("no node may do that")
_KINDS: Final = {(kind.api_group, kind.plural): kind.name for kind in KINDS}


def authorize(asked: Attributes, graph: Graph) -> Decision:
    """Decides on a request."""
    scope = RULES.get((asked.group, asked.resource), {}).get(asked.verb)
    return _UNKNOWN if scope is None or not asked.node else _DECIDE[scope](asked, graph)


def may_have(node: str, key: ObjectKey, graph: Graph) -> bool:
    """Whether a node may be sent an object unasked: what it could read."""
    kind = kind_named(key.kind)
    asked = Attributes(
        node=node, verb="get", group=kind.api_group, resource=kind.plural, namespace=key.namespace, name=key.name
    )
    return authorize(asked, graph).allowed


def token_refusal(node: str, asked: Attributes, graph: Graph) -> str:
    """Why a node gets no such token (NodeRestriction and the token registry); empty: it does."""
    body = asked.body if isinstance(asked.body, dict) else {}
    spec = body.get("spec") if isinstance(body.get("spec"), dict) else {}
    reference = spec.get("boundObjectRef") if isinstance(spec, dict) else None
    if not isinstance(reference, dict) or reference.get("kind") != "Pod" or not isinstance(reference.get("name"), str):
        return "node requested token not bound to a pod"
    if reference.get("apiVersion", "v1") != "v1":
        return "node requested token not bound to a pod"
    if not reference.get("uid"):
        return "node requested token with a pod binding without a uid"
    pod = graph.find(ObjectKey("Pod", asked.namespace, reference["name"]))
    if pod is None or pod["metadata"].get("uid") != reference["uid"]:
        return "node requested token bound to a pod that is not there, or was made anew"
    if node_of(pod) != node:
        return "node requested token bound to a pod scheduled on a different node"
    if account_of(pod) != asked.name:
        return "cannot bind token for serviceaccount to pod running with different serviceaccount name"
    return ""


def node_of(pod: JsonObject) -> str:
    """The node that a pod is bound to; empty: none yet."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def account_of(pod: JsonObject) -> str:
    """The service account that a pod runs as."""
    spec = pod.get("spec") or {}
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default")


def _key(asked: Attributes) -> ObjectKey:
    plural = asked.resource.partition("/")[0]
    return ObjectKey(_KINDS[asked.group, plural], asked.namespace, asked.name)


def _own_node(asked: Attributes, _: Graph) -> Decision:
    if asked.name in (asked.node, "") and (asked.name or asked.verb == "create"):
        return _ALLOWED
    return Decision(f"node '{asked.node}' cannot {asked.verb} the Node '{asked.name[:253]}', only its own Node")


def _own_lease(asked: Attributes, _: Graph) -> Decision:
    if (asked.namespace, asked.name) == (LEASES, asked.node):
        return _ALLOWED
    if asked.verb == "create" and (asked.namespace, asked.name) == (LEASES, ""):
        return _ALLOWED
    return Decision(f"can only access node lease with the same name as the requesting node, in {LEASES}")


def _own_pod(asked: Attributes, graph: Graph) -> Decision:
    pod = graph.find(_key(asked))
    return _ALLOWED if pod is None or node_of(pod) == asked.node else _no_relation(asked)


def _own_pods(asked: Attributes, _: Graph) -> Decision:
    if asked.field_selector == f"spec.nodeName={asked.node}":
        return _ALLOWED
    return Decision("can only list/watch pods with spec.nodeName field selector")


def _referred(asked: Attributes, graph: Graph) -> Decision:
    return _ALLOWED if graph.refers(asked.node, _key(asked)) else _no_relation(asked)


def _bound_token(asked: Attributes, graph: Graph) -> Decision:
    return Decision(token_refusal(asked.node, asked, graph))


def _own_attachment(asked: Attributes, graph: Graph) -> Decision:
    attachment = graph.find(_key(asked))
    spec = {} if attachment is None else attachment.get("spec")
    own = attachment is None or (isinstance(spec, dict) and spec.get("nodeName") == asked.node)
    return _ALLOWED if own else _no_relation(asked)


def _own_request(asked: Attributes, graph: Graph) -> Decision:
    request = graph.find(_key(asked))
    spec = {} if request is None else request.get("spec")
    own = request is None or (isinstance(spec, dict) and spec.get("username") == asked.user)
    return _ALLOWED if own else _no_relation(asked)


def _by_restriction(_asked: Attributes, _graph: Graph) -> Decision:
    """Every write passes the restriction, which sees the object before and after."""
    return _ALLOWED


def _no_relation(asked: Attributes) -> Decision:
    return Decision(f"no relationship found between node '{asked.node}' and this object")


_DECIDE: Final[dict[Scope, Callable[[Attributes, Graph], Decision]]] = {
    Scope.ALL: _by_restriction,
    Scope.OWN_NODE: _own_node,
    Scope.OWN_LEASE: _own_lease,
    Scope.OWN_POD: _own_pod,
    Scope.OWN_PODS: _own_pods,
    Scope.RESTRICTED: _by_restriction,
    Scope.MIRROR: _by_restriction,
    Scope.REFERRED: _referred,
    Scope.BOUND_TOKEN: _bound_token,
    Scope.OWN_ATTACHMENT: _own_attachment,
    Scope.OWN_REQUEST: _own_request,
    Scope.ABOUT_ITSELF: _by_restriction,
}
