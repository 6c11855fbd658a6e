"""The OpenAPI v3 that kubectl wants: that the server validates fields (`fieldValidation`), and the fields of the kinds.

Before it writes, kubectl finds a resource's patch by its kind and looks for the query parameter; with it, it leaves the
validation of manifests to the server. `explain` reads the schemas.

`/openapi/v2` is for clients before v3: kubectl 1.27 and 1.28 do nothing with a manifest before they have read it. They
ask for it in protobuf, but read fields and validation from v3, so this form has no definitions.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from modules.apimachinery.errors import no_such_path
from modules.apimachinery.resources import Resource

_WRITES: Final = ("put", "patch")
_STRING: Final = {"type": "string", "uniqueItems": True}
_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation", "force")

SchemasOf = Callable[[Sequence[Resource]], Any]
"""Returns the schemas of resources, by name."""

V2_PATH: Final = ("openapi", "v2")
V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""As clients ask for it."""
V2_PROTOBUF_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Media type of the answer: clients refuse one with `@`."""
_VERSION: Final = "2.0"
_TITLE: Final = "Kubernetes"
_UNVERSIONED: Final = "unversioned"
_V3: Final = "#/components/schemas/"
_V2: Final = "#/definitions/"


def swagger(resources: Sequence[Resource], schemas: SchemasOf) -> dict[str, Any]:
    """Return the document with the definitions of the resources' kinds, and without paths."""
    info = {"title": _TITLE, "version": _UNVERSIONED}
    return {"swagger": _VERSION, "info": info, "paths": {}, "definitions": _referring(schemas(resources))}


def swagger_protobuf() -> bytes:
    """Return a document without definitions as gnostic's `openapi.v2.Document`."""
    info = _text(1, _TITLE.encode()) + _text(2, _UNVERSIONED.encode())
    return _text(1, _VERSION.encode()) + _text(2, info)


def _text(field: int, data: bytes) -> bytes:
    """Return a field with a length, which must be less than 128."""
    return bytes((field << 3 | 2, len(data))) + data


def _referring(schema: Any) -> Any:
    """Return a schema with references to definitions as in Kubernetes' v2, where other fields may be beside one; no
    deeper than the schemas of kinds.
    """
    match schema:
        case {"allOf": [{"$ref": str() as reference}], **others}:
            schema = {"$ref": reference, **others}
    if isinstance(schema, dict):
        return {key: _referring(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_referring(each) for each in schema]
    return schema.replace(_V3, _V2, 1) if isinstance(schema, str) and schema.startswith(_V3) else schema


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
        items = {_path(one): {"parameters": _of_path(one), **_operations(one)} for one in found}
        return {"openapi": "3.0.0", "info": info, "paths": items, "components": {"schemas": schemas}}


def _prefix(resource: Resource) -> str:
    return f"apis/{resource.group_version}" if resource.group else f"api/{resource.version}"


def _path(resource: Resource) -> str:
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"/{_prefix(resource)}{namespace}/{resource.plural}/{{name}}"


def _of_path(resource: Resource) -> list[dict[str, Any]]:
    names = ("namespace", "name") if resource.namespaced else ("name",)
    return [{"name": name, "in": "path", "required": True, "schema": _STRING} for name in names]


def _operations(resource: Resource) -> dict[str, Any]:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    parameters = [{"name": name, "in": "query", "schema": _STRING} for name in _PARAMETERS]
    responses = {"200": {"description": "OK"}}
    operation = {"parameters": parameters, "x-kubernetes-group-version-kind": kind, "responses": responses}
    return {method: {**operation, "x-kubernetes-action": method} for method in _WRITES}
