"""Filters responses to a node's reads: the API server sees cloudcore's credentials, so the node's permissions are
checked here.
"""

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject
from modules.cloud.authorization.attributes import user_of
from modules.cloud.client.calls import ApiCall, ApiResult

_OWNER_FIELDS = {"pods": "nodeName", "volumeattachments": "nodeName", "certificatesigningrequests": "username"}
"""Fields of the spec that say whose object it is."""


def shown(call: ApiCall, node: str, result: ApiResult) -> ApiResult:
    """Return the result of a node's call, or a refusal in place of an object of others.

    The authorizer lets a node ask for objects that the mirror does not have, as they may not exist. But a pod without a
    node is never there, one that was just bound not yet, and a certificate signing request neither.
    """
    field = _OWNER_FIELDS.get(call.plural)
    if call.verb != "get" or field is None or result.object is None:
        return result
    owner = user_of(node) if field == "username" else node
    if _spec_of(result.object).get(field) == owner:
        return result
    why = f"no relationship found between node '{node}' and this object"
    group, slash, _ = call.api_version.partition("/")
    error = ForbiddenError(call.plural, call.name[:253], why, group if slash else "")
    return ApiResult(refusal=error.status())


def _spec_of(obj: JsonObject) -> JsonObject:
    spec = obj.get("spec")
    return spec if isinstance(spec, dict) else {}
