"""The custom resources, for discovery, OpenAPI and tables."""

from collections.abc import Callable

from modules.apimachinery.errors import CloudRefusalError
from modules.apimachinery.resources import Resource
from modules.cloud.apiserver.custom_resources.kinds import readable_kinds_of
from modules.cloud.client.calls import ApiCall, ApiResult


def custom_resources(call: Callable[[ApiCall], ApiResult]) -> list[Resource]:
    """Return the custom resources, asked of the API server.

    Raises:
        ApiStatusError: it does not answer.
    """
    asked = ApiCall(verb="list", api_version="apiextensions.k8s.io/v1", plural="customresourcedefinitions")
    result = call(asked)
    if result.object is None:
        raise CloudRefusalError(result.refusal or {})
    return [kind.resource for each in result.object["items"] for kind in readable_kinds_of(each)]
