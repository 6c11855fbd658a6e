"""Kubernetes' node authorizer: decides whether a node may make a request."""

from collections.abc import Callable
from typing import Final

import msgspec

from modules.apimachinery.kinds import KINDS, JsonObject, ObjectKey, key_for, kind_named
from modules.apimachinery.pods.objects import is_mirror, node_of
from modules.cloud.authorization.attributes import Attributes
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.node_rules import RULES, Scope

LEASES: Final = "kube-node-lease"


class Decision(msgspec.Struct, frozen=True):
    """The authorizer's decision."""

    reason: str = ""
    """The reason of a refusal; empty when the request is allowed."""

    @property
    def allowed(self) -> bool:
        """Whether the request is allowed."""
        return not self.reason


_ALLOWED: Final = Decision()
_UNKNOWN: Final = Decision("no node may do that")
_KINDS: Final = {(kind.api_group, kind.plural): kind for kind in KINDS}


def authorize(request: Attributes, graph: NodeGraph) -> Decision:
    """Decide on a request."""
    verb = "list" if request.verb == "watch" else request.verb
    scope = RULES.get((request.group, request.resource), {}).get(verb)
    return _UNKNOWN if scope is None or not request.node else _DECIDE[scope](request, graph)


def may_read(node: str, key: ObjectKey, graph: NodeGraph) -> bool:
    """Return whether a node may read an object, and so may be sent it."""
    kind = kind_named(key.kind)
    request = Attributes(
        node=node, verb="get", group=kind.api_group, resource=kind.plural, namespace=key.namespace, name=key.name
    )
    return authorize(request, graph).allowed


def token_refusal(node: str, request: Attributes, graph: NodeGraph) -> str:
    """Return the reason to refuse a token to a node, or "" (Kubernetes' NodeRestriction and token registry)."""
    body = request.body if isinstance(request.body, dict) else {}
    spec = body.get("spec") if isinstance(body.get("spec"), dict) else {}
    reference = spec.get("boundObjectRef") if isinstance(spec, dict) else None
    if not isinstance(reference, dict) or reference.get("kind") != "Pod" or not isinstance(reference.get("name"), str):
        return "node requested token not bound to a pod"
    if reference.get("apiVersion", "v1") != "v1":
        return "node requested token not bound to a pod"
    if not reference.get("uid"):
        return "node requested token with a pod binding without a uid"
    pod = graph.find(ObjectKey("Pod", request.namespace, reference["name"]))
    if pod is None or pod["metadata"].get("uid") != reference["uid"]:
        return "node requested token bound to a pod that is not there, or was made anew"
    if node_of(pod) != node:
        return "node requested token bound to a pod scheduled on a different node"
    if account_of(pod) != request.name:
        return "cannot bind token for serviceaccount to pod running with different serviceaccount name"
    return ""


def account_of(pod: JsonObject) -> str:
    """Return the service account that a pod runs as; "" for a mirror pod, which has none."""
    if is_mirror(pod):
        return ""
    spec = pod.get("spec") or {}
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default")


def _key(request: Attributes) -> ObjectKey:
    """Return the key under which the object is stored, whatever namespace the request gives."""
    plural = request.resource.partition("/")[0]
    return key_for(_KINDS[request.group, plural], request.namespace, request.name)


def _own_node(request: Attributes, _: NodeGraph) -> Decision:
    if request.name in (request.node, "") and (request.name or request.verb == "create"):
        return _ALLOWED
    return Decision(f"node '{request.node}' cannot {request.verb} the Node '{request.name[:253]}', only its own Node")


def _own_lease(request: Attributes, _: NodeGraph) -> Decision:
    if (request.namespace, request.name) == (LEASES, request.node):
        return _ALLOWED
    if request.verb == "create" and (request.namespace, request.name) == (LEASES, ""):
        return _ALLOWED
    return Decision(f"can only access node lease with the same name as the requesting node, in {LEASES}")


def _own_pod(request: Attributes, graph: NodeGraph) -> Decision:
    pod = graph.find(_key(request))
    return _ALLOWED if pod is None or node_of(pod) == request.node else _no_relation(request)


def _own_pods(request: Attributes, _: NodeGraph) -> Decision:
    if request.field_selector == f"spec.nodeName={request.node}":
        return _ALLOWED
    return Decision("can only list/watch pods with spec.nodeName field selector")


def _referred(request: Attributes, graph: NodeGraph) -> Decision:
    return _ALLOWED if graph.refers(request.node, _key(request)) else _no_relation(request)


def _bound_token(request: Attributes, graph: NodeGraph) -> Decision:
    return Decision(token_refusal(request.node, request, graph))


def _own_attachment(request: Attributes, graph: NodeGraph) -> Decision:
    attachment = graph.find(_key(request))
    spec = {} if attachment is None else attachment.get("spec")
    own = attachment is None or (isinstance(spec, dict) and spec.get("nodeName") == request.node)
    return _ALLOWED if own else _no_relation(request)


def _own_request(request: Attributes, graph: NodeGraph) -> Decision:
    csr = graph.find(_key(request))
    spec = {} if csr is None else csr.get("spec")
    own = csr is None or (isinstance(spec, dict) and spec.get("username") == request.user)
    return _ALLOWED if own else _no_relation(request)


def _by_restriction(_request: Attributes, _graph: NodeGraph) -> Decision:
    """Allow a write: NodeRestriction decides on it, with the object before and after."""
    return _ALLOWED


def _no_relation(request: Attributes) -> Decision:
    return Decision(f"no relationship found between node '{request.node}' and this object")


_DECIDE: Final[dict[Scope, Callable[[Attributes, NodeGraph], Decision]]] = {
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
