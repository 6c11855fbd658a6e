"""The reviews that a node may ask for: its identity, its own rights, and the rights of a user who calls the node.

The node authorizer, which decides on the node's requests, answers them, so that an answer and a later request agree.
"""

from http import HTTPStatus
from typing import Final

from modules.apimachinery.unvalidated import as_object, as_text
from modules.cloud.authentication.users import User
from modules.cloud.authorization.attributes import NODE_GROUPS, Attributes, user_of
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.node_authorizer import authorize
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.authorization.rbac.reviews import decision
from modules.cloud.authorization.subject_reviews import Authenticate, token_review
from modules.cloud.client.calls import ApiCall, ApiResult, JsonObject

_AUTHORIZATION: Final = "authorization.k8s.io/v1"
_AUTHENTICATION: Final = "authentication.k8s.io/v1"
_KINDS: Final = {
    (_AUTHORIZATION, "selfsubjectaccessreviews"): "SelfSubjectAccessReview",
    (_AUTHORIZATION, "subjectaccessreviews"): "SubjectAccessReview",
    (_AUTHENTICATION, "selfsubjectreviews"): "SelfSubjectReview",
    (_AUTHENTICATION, "tokenreviews"): "TokenReview",
}
_OPEN: Final = ("/healthz", "/livez", "/readyz", "/version")
"""Paths that are no resources and that everybody may read."""
_LONGEST: Final = 253
"""Characters of a name."""


def is_review(call: ApiCall) -> bool:
    """Return whether a call asks for a review."""
    return call.verb == "create" and not call.subresource and (call.api_version, call.plural) in _KINDS


def review_of_rights(call: ApiCall) -> ApiCall:
    """Return the review that asks whether a node may make a call, whatever its body has."""
    group, slash, _ = call.api_version.partition("/")
    asked = {
        "verb": call.verb,
        "group": group if slash else "",
        "resource": call.plural,
        "subresource": call.subresource,
        "namespace": call.namespace,
        "name": call.name,
    }
    body = {"spec": {"resourceAttributes": asked}}
    return ApiCall(
        verb="create", api_version=_AUTHORIZATION, plural="selfsubjectaccessreviews", node=call.node, body=body
    )


def is_allowed(answer: ApiResult) -> bool:
    """Return whether the answer to a review of rights allows what it asks for."""
    return bool(as_object((answer.object or {}).get("status")).get("allowed"))


def is_about_others(call: ApiCall) -> bool:
    """Return whether cloudcore's knowledge of the node is not enough to answer a review: it is about a token, or
    another user.
    """
    kind = _KINDS[call.api_version, call.plural]
    is_other = kind == "SubjectAccessReview" and _spec(call).get("user") != user_of(call.node)
    return kind == "TokenReview" or is_other


def attributes_of_review(call: ApiCall) -> Attributes | None:
    """Return the request that a review of the node's own rights is about; None for a path that is no resource."""
    asked = as_object(_spec(call).get("resourceAttributes"))
    if not asked:
        return None
    fields = {name: as_text(asked.get(name), _LONGEST) for name in ("verb", "group", "resource", "namespace", "name")}
    if subresource := as_text(asked.get("subresource"), _LONGEST):
        fields["resource"] += f"/{subresource}"
    return Attributes(node=call.node, **fields)


def answer(
    call: ApiCall, graph: NodeGraph, index: RbacIndex, authenticate: Authenticate = lambda _token, _audiences: None
) -> ApiResult:
    """Return the answer to a review, without any other API server.

    Args:
        call: the review.
        graph: the objects that each node's pods refer to.
        index: the roles and bindings.
        authenticate: finds the user of a token; by default no token has a user.

    Raises:
        BadRequestError: it is a TokenReview without a token.
    """
    kind = _KINDS[call.api_version, call.plural]
    body: JsonObject = {"kind": kind, "apiVersion": call.api_version, "metadata": {}}
    if not isinstance(call.body, dict):
        status = {"status": "Failure", "reason": "BadRequest", "message": f"a {kind} is wanted"}
        return ApiResult(refusal={**status, "code": HTTPStatus.BAD_REQUEST})
    if kind == "SelfSubjectReview":
        found = {"userInfo": {"username": user_of(call.node), "groups": list(NODE_GROUPS)}}
        return ApiResult({**body, "status": found}, created=True)
    if kind == "TokenReview":
        review = token_review(call.body, authenticate)
        spec = {name: value for name, value in review["spec"].items() if name != "token"}
        return ApiResult({**review, "spec": spec}, created=True)  # a result is a message, and messages are traced
    status = _of_other(_spec(call), index) if is_about_others(call) else _of_node(call, graph)
    return ApiResult({**body, "spec": _spec(call), "status": status}, created=True)


def _of_other(spec: JsonObject, index: RbacIndex) -> JsonObject:
    groups = spec.get("groups")
    named = tuple(as_text(group, _LONGEST) for group in groups) if isinstance(groups, list) else ()
    return decision(User(as_text(spec.get("user"), _LONGEST), groups=named, has_all_groups=True), spec, index)


def _of_node(call: ApiCall, graph: NodeGraph) -> JsonObject:
    asked = attributes_of_review(call)
    if asked is not None:
        decision = authorize(asked, graph)
        return {"allowed": True} if decision.allowed else {"allowed": False, "reason": decision.reason}
    path = as_object(_spec(call).get("nonResourceAttributes"))
    is_open = path.get("verb") == "get" and path.get("path") in _OPEN
    return {"allowed": True} if is_open else {"allowed": False, "reason": "no node may do that"}


def _spec(call: ApiCall) -> JsonObject:
    return as_object(call.body.get("spec")) if isinstance(call.body, dict) else {}
