"""The reviews that tell users their identity and their rights (`kubectl auth whoami` and `can-i`)."""

from typing import Any, Final

import msgspec

from beehive.http.responses import Response
from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.authentication.users import User, user_info
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.authorization.rbac.reviews import decision, rules_status
from modules.cloud.authorization.subject_reviews import check_attributes, spec_of

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_SELF: Final = ("apis", _AUTHENTICATION, "v1", "selfsubjectreviews")
_ACCESS: Final = ("apis", _AUTHORIZATION, "v1", "selfsubjectaccessreviews")
_RULES: Final = ("apis", _AUTHORIZATION, "v1", "selfsubjectrulesreviews")
PATHS: Final = (_SELF, _ACCESS, _RULES)
"""The paths of the reviews, in parts."""


def review(user: User, parts: tuple[str, ...], body: Any, index: RbacIndex) -> Response:
    """Return the response to a review.

    Args:
        user: the requester.
        parts: the path, one of `PATHS`.
        body: the review.
        index: the roles and bindings.

    Raises:
        ApiStatusError: 403, a node asks for all its rights.
        BadRequestError, InvalidError: the review asks for nothing.
    """
    if parts == _SELF:
        return _created("SelfSubjectReview", _AUTHENTICATION, {"status": {"userInfo": user_info(user)}})
    if user.node and not user.is_administrator:
        raise ApiStatusError(403, "the rights of a node are not listed: the node authorizer decides on each request")
    kind = "SelfSubjectRulesReview" if parts == _RULES else "SelfSubjectAccessReview"
    spec = spec_of(body, kind)
    if parts == _RULES:
        if not spec.get("namespace"):
            raise BadRequestError("no namespace on request")
        status = rules_status(user, str(spec["namespace"]), index)
    else:
        check_attributes(kind, spec)
        status = decision(user, spec, index)
    return _created(kind, _AUTHORIZATION, {"spec": spec, "status": status})


def _created(kind: str, group: str, fields: dict[str, Any]) -> Response:
    body = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": {}, **fields}
    return Response(201, "application/json", msgspec.json.encode(body))
