"""The custom resources, for discovery, OpenAPI and tables."""

from modules.apimachinery.errors import CloudRefusalError
from modules.apimachinery.kinds import uid_of, version_of
from modules.apimachinery.resources import Resource
from modules.cloud.apiextensions.kinds import readable_kinds_of
from modules.cloud.apiserver.endpoints.module_caller import ApiCaller
from modules.cloud.client.calls import ApiCall


class CustomResourceList:
    """Asks the API server for its CustomResourceDefinitions, and reads the definitions that have changed since the last
    time.

    Args:
        caller: makes calls; on any thread.
    """

    def __init__(self, caller: ApiCaller) -> None:
        self._caller = caller
        self._read: dict[tuple[str, str], list[Resource]] = {}
        """By uid and resourceVersion of a definition."""

    def resources(self) -> list[Resource]:
        """Return the custom resources.

        Raises:
            ApiStatusError: the API server does not answer.
        """
        asked = ApiCall(verb="list", api_version="apiextensions.k8s.io/v1", plural="customresourcedefinitions")
        result = self._caller.call(asked)
        if result.object is None:
            raise CloudRefusalError(result.refusal or {})
        read = {}
        for each in result.object["items"]:
            key = (uid_of(each), version_of(each))
            known = self._read.get(key)
            read[key] = [kind.resource for kind in readable_kinds_of(each)] if known is None else known
        self._read = read
        return [resource for found in read.values() for resource in found]
