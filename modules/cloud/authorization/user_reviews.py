"""The reviews that tell users their identity and their rights (`kubectl auth whoami` and `can-i`).

Bodies are not read: members of system:masters may do everything, and others nothing.
"""

from typing import Any, Final

import msgspec

from beehive.http.responses import Response
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.authentication.users import User

_AUTHENTICATED: Final = "system:authenticated"
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_SELF: Final = ("apis", _AUTHENTICATION, "v1", "selfsubjectreviews")
_ACCESS: Final = ("apis", _AUTHORIZATION, "v1", "selfsubjectaccessreviews")
_RULES: Final = ("apis", _AUTHORIZATION, "v1", "selfsubjectrulesreviews")
PATHS: Final = (_SELF, _ACCESS, _RULES)
"""The paths of the reviews, in parts."""
_ALL: Final = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def review(user: User, parts: tuple[str, ...]) -> Response:
    """Return the response to a review.

    Args:
        user: the requester.
        parts: the path, one of `PATHS`.

    Raises:
        ApiStatusError: 403, a node asks for its rights.
    """
    if parts == _SELF:
        info = {"username": user.name, "uid": user.uid, "groups": [*user.groups, _AUTHENTICATED]}
        return _created("SelfSubjectReview", _AUTHENTICATION, {"status": {"userInfo": info}})
    if user.node and not user.is_administrator:
        raise ApiStatusError(403, "access reviews of nodes are not served: the node authorizer decides on each request")
    if parts == _RULES:
        none = {"resourceRules": [], "nonResourceRules": [], "incomplete": False}
        status: dict[str, Any] = _ALL if user.is_administrator else none
        return _created("SelfSubjectRulesReview", _AUTHORIZATION, {"spec": {}, "status": status})
    reason = "" if user.is_administrator else "only members of system:masters may do it"
    status = {"allowed": user.is_administrator, "reason": reason}
    return _created("SelfSubjectAccessReview", _AUTHORIZATION, {"spec": {}, "status": status})


def _created(kind: str, group: str, fields: dict[str, Any]) -> Response:
    body = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": {}, **fields}
    return Response(201, "application/json", msgspec.json.encode(body))
