"""`/openapi/v2` for clients before v3: kubectl 1.27 and 1.28 do nothing with a manifest before they have read it.

They ask for it in protobuf, and read fields and validation from v3 all the same, so that this form has no definitions.
"""

from collections.abc import Sequence
from typing import Any, Final

from modules.apimachinery.openapi import SchemasOf
from modules.apimachinery.resources import Resource

PATH: Final = ("openapi", "v2")
PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""As clients ask for it."""
PROTOBUF_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
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
    """Return a schema with references to definitions; no deeper than the schemas of kinds."""
    if isinstance(schema, dict):
        return {key: _referring(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_referring(each) for each in schema]
    return schema.replace(_V3, _V2, 1) if isinstance(schema, str) and schema.startswith(_V3) else schema
