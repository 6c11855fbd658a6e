"""The reviews about other users, as proxies and metrics servers do:
SubjectAccessReview, LocalSubjectAccessReview and TokenReview.
"""

from collections.abc import Callable
from typing import Any, Final

from modules.apimachinery.api_errors import BadRequestError, InvalidError
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import Causes, invalid, required
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.apimachinery.validation.labels import label_requirement
from modules.cloud.authentication.users import Authenticated, User, user_info
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.authorization.rbac.reviews import decision
from modules.cloud.client.calls import ApiCall, ApiResult

_AUTHORIZATION, _AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
_ACCESS: Final = ("apis", _AUTHORIZATION, "v1", "subjectaccessreviews")
_LOCAL_ROOT: Final = ("apis", _AUTHORIZATION, "v1", "namespaces")
_LOCAL: Final = "localsubjectaccessreviews"
TOKEN_REVIEW: Final = ("apis", _AUTHENTICATION, "v1", "tokenreviews")
"""The path of TokenReviews, in parts."""

Authenticate = Callable[[str, tuple[str, ...]], Authenticated | None]
"""Returns the user of a token that is for one of some audiences, none: for one of the API server's; None: the token is
not valid."""


def is_access_review(parts: tuple[str, ...]) -> bool:
    """Return whether a path leads to SubjectAccessReviews or, in a namespace, LocalSubjectAccessReviews."""
    return parts == _ACCESS or (parts[:4] == _LOCAL_ROOT and len(parts) == 6 and parts[5] == _LOCAL)


def access_review(
    parts: tuple[str, ...], body: Any, ask: Callable[[ApiCall], ApiResult], index: RbacIndex
) -> JsonObject:
    """Return the answer to a review of a user's rights.

    Args:
        parts: the path.
        body: the review.
        ask: asks the node authorizer about a node.
        index: the roles and bindings.

    Raises:
        BadRequestError, InvalidError: it asks for nothing, or names nobody.
    """
    is_local = parts != _ACCESS
    kind = "LocalSubjectAccessReview" if is_local else "SubjectAccessReview"
    spec = spec_of(body, kind)
    _check(kind, spec, parts[4] if is_local else "")
    listed = spec.get("groups") or []
    groups = tuple(map(str, listed if isinstance(listed, list) else ()))
    user = User(str(spec.get("user") or ""), groups=groups, has_all_groups=True)
    if user.node and not user.is_administrator:
        plural, version = _ACCESS[3], f"{_AUTHORIZATION}/v1"
        asked = ApiCall(verb="create", api_version=version, plural=plural, node=user.node, body={"spec": spec})
        status: JsonObject = (ask(asked).object or {}).get("status") or {"allowed": False}
    else:
        status = decision(user, spec, index)
    return {"kind": kind, "apiVersion": f"{_AUTHORIZATION}/v1", "metadata": {}, "spec": spec, "status": status}


def token_review(body: Any, authenticate: Authenticate) -> JsonObject:
    """Return the answer to a review of a bearer token, which it repeats, as kube-apiserver's: clients decode it.

    Args:
        body: the review.
        authenticate: finds the user of a token.

    Raises:
        BadRequestError: it has no token, or malformed audiences.
    """
    spec = spec_of(body, "TokenReview")
    token = spec.get("token")
    if not isinstance(token, str) or not token:
        raise BadRequestError("token is required for TokenReview in authentication")
    audiences = spec.get("audiences") or []
    if not isinstance(audiences, list) or not all(isinstance(each, str) for each in audiences):
        raise BadRequestError("spec.audiences of a TokenReview is a list of texts")
    found = authenticate(token, tuple(audiences))
    status: JsonObject = {"authenticated": False, "error": "invalid bearer token"}
    if found is not None:
        status = {"authenticated": True, "user": user_info(found.user)}
        status |= {"audiences": [*found.audiences]} if found.audiences else {}
    review = {"kind": "TokenReview", "apiVersion": f"{_AUTHENTICATION}/v1", "metadata": {}}
    return {**review, "spec": spec, "status": status}


def spec_of(body: Any, kind: str) -> JsonObject:
    """Return the spec of a review, which may be missing.

    Raises:
        BadRequestError: it is no object.
    """
    spec = (body.get("spec") or {}) if isinstance(body, dict) else None
    if not isinstance(spec, dict):
        raise BadRequestError(f"a {kind} with a spec is wanted")
    return spec


def check_attributes(kind: str, spec: JsonObject, *, of_user: bool = False) -> None:
    """Check that a review asks for exactly one thing, as kube-apiserver does (ValidateSubjectAccessReviewSpec).

    Args:
        kind: its kind.
        spec: its spec.
        of_user: whether it has to name a user or groups.

    Raises:
        InvalidFieldsError: it does not.
    """
    found, path, resource = Causes(), spec.get("nonResourceAttributes"), spec.get("resourceAttributes")
    has_resource = isinstance(resource, dict)
    if has_resource and isinstance(path, dict):
        why = "cannot be specified in combination with resourceAttributes"
        found.append(invalid("spec.nonResourceAttributes", path, why))
    elif not has_resource and not isinstance(path, dict):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        found.append(invalid("spec.resourceAttributes", "null", why))
    if of_user and not spec.get("user") and not spec.get("groups"):
        found.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    for name in ("fieldSelector", "labelSelector"):
        selector = resource.get(name) if isinstance(resource, dict) else None
        if isinstance(selector, dict):
            _check_selector(selector, f"spec.resourceAttributes.{name}", found, of_labels=name == "labelSelector")
    if found:
        raise InvalidFieldsError(kind, _AUTHORIZATION, "", found)


def _check_selector(selector: JsonObject, path: str, found: Causes, *, of_labels: bool) -> None:
    """Check the selector of the objects that a review asks about (validateFieldSelectorAttributes,
    validateLabelSelectorAttributes). One that cannot be parsed is none: it grants nothing.
    """
    raw, requirements = selector.get("rawSelector"), selector.get("requirements") or []
    if raw and requirements:
        found.append(invalid(f"{path}.rawSelector", raw, "may not specified at the same time as requirements"))
    elif not raw and not requirements:
        why = f"when {path} is specified, requirements or rawSelector is required"
        found.append(required(f"{path}.requirements", why))
    for index, each in enumerate(requirements):
        where = f"{path}.requirements[{index}]"
        if of_labels:
            label_requirement(each, where, found, of_any_operator=True)
        elif not each.get("key"):
            found.append(required(f"{where}.key", "must be specified"))


def _check(kind: str, spec: JsonObject, namespace: str) -> None:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if namespace and path is not None:
        why = "Invalid value: disallowed on this kind of request"
        raise InvalidError(kind, "", "spec.nonResourceAttributes", why, _AUTHORIZATION)
    check_attributes(kind, spec, of_user=True)
    if namespace and isinstance(resource, dict) and resource.get("namespace") != namespace:
        raise BadRequestError(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
