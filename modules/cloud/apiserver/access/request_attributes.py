"""The attributes of an HTTP request on which authorizers decide (kube-apiserver's `RequestInfo`)."""

from typing import Final

from beehive.http.request import Request
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.paths import parse_target
from modules.cloud.apiserver.endpoints.watch_paths import without_watch_path
from modules.cloud.authorization.rbac.rules import AccessRequest

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_COLLECTIONS: Final = {"get": "list", "delete": "deletecollection"}
_OF_PATHS: Final = {"POST": "post", "PUT": "put", "PATCH": "patch", "DELETE": "delete"}
_BY_NAME: Final = "metadata.name="
_NAMESPACES: Final = "namespaces"


def attributes_of(request: Request) -> AccessRequest:
    """Return the attributes of a request; a path that is no resource is a path."""
    request = without_watch_path(request)
    try:
        target = parse_target(request.parts)
    except ApiStatusError:
        return AccessRequest(verb=_OF_PATHS.get(request.method, "get"), path=request.path)
    verb, name = _VERBS.get(request.method, "get"), target.name
    if not name:
        verb = _OF_COLLECTIONS.get(verb, verb)
        fields = request.first("fieldSelector")
        if verb != "create" and fields.startswith(_BY_NAME) and "," not in fields:
            name = fields.removeprefix(_BY_NAME)
    if verb in ("get", "list") and request.flag("watch") and not target.subresource:
        verb = "watch"
    is_namespace = target.plural == _NAMESPACES and not target.group
    return AccessRequest(
        verb=verb,
        group=target.group,
        resource=target.plural,
        subresource=target.subresource,
        namespace=target.namespace or (name if is_namespace else ""),
        name=name,
    )


def forbidden(user: str, asked: AccessRequest, why: str = "") -> ApiStatusError:
    """Return the error for a user without the right, in kube-apiserver's words."""
    if not asked.resource:
        return ApiStatusError(403, f'forbidden: User "{user}" cannot {asked.verb} path "{asked.path}"')
    qualified = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    named = f' "{asked.name}"' if asked.name else ""
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    told = f'User "{user}" cannot {asked.verb} resource "{asked.combined}" in API group "{asked.group}" {where}'
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    kept = {key: value for key, value in details.items() if value}
    return ApiStatusError(403, f"{qualified}{named} is forbidden: {told}{why}", kept)
