"""The OpenAPI v3 that kubectl wants: that the server validates fields (`fieldValidation`), and the fields of the kinds.

Before it writes, kubectl finds a resource's patch by its kind and looks for the query parameter; with it, it leaves the
validation of manifests to the server. `explain` reads the schemas.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from modules.apimachinery.errors import no_such_path
from modules.apimachinery.resources import Resource

_WRITES: Final = ("put", "patch")
_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation", "force")

SchemasOf = Callable[[Sequence[Resource]], Any]
"""Returns the schemas of resources, by name."""


class OpenApi:
    """The documents of `/openapi/v3`.

    Args:
        resources: everything that the server serves.
        schemas: returns the schemas of some of them, by name; default none.
    """

    def __init__(self, resources: Sequence[Resource], schemas: SchemasOf | None = None) -> None:
        self._resources = resources
        self._schemas = schemas

    def document(self, parts: tuple[str, ...]) -> dict[str, Any] | None:
        """Return the document of a path, None for a path elsewhere.

        Raises:
            ApiStatusError: 404; there is no such document.
        """
        if parts[:1] != ("openapi",):
            return None
        if parts == ("openapi", "v3"):
            prefixes = sorted({_prefix(resource) for resource in self._resources})
            paths = {prefix: {"serverRelativeURL": f"/openapi/v3/{prefix}"} for prefix in prefixes}
            return {"paths": paths}
        found = [one for one in self._resources if f"openapi/v3/{_prefix(one)}" == "/".join(parts)]
        if not found:
            raise no_such_path()
        schemas = {} if self._schemas is None else self._schemas(found)
        info = {"title": "Kubernetes", "version": "unversioned"}
        paths = {_path(one): _operations(one) for one in found}
        return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _prefix(resource: Resource) -> str:
    return f"apis/{resource.group_version}" if resource.group else f"api/{resource.version}"


def _path(resource: Resource) -> str:
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"/{_prefix(resource)}{namespace}/{resource.plural}/{{name}}"


def _operations(resource: Resource) -> dict[str, Any]:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    string = {"type": "string", "uniqueItems": True}
    parameters = [{"name": name, "in": "query", "schema": string} for name in _PARAMETERS]
    operation = {"parameters": parameters, "x-kubernetes-group-version-kind": kind, "responses": {}}
    return {method: {**operation, "x-kubernetes-action": method} for method in _WRITES}
