"""The documents of discovery and OpenAPI, for the metaservers of KubeEdge's nodes."""

from typing import Final

from modules.apimachinery.discovery import Discovery
from modules.apimachinery.errors import no_such_path
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.openapi import OpenApi
from modules.apimachinery.served_resources import RESOURCES
from modules.cloud.apiextensions.kinds import ServedKinds
from modules.cloud.apiserver.fields.openapi import openapi_schemas

_VERSION: Final = "v1.32.10-edgecore"


def document(kinds: ServedKinds, path: str) -> JsonObject:
    """Return the document at a path.

    Raises:
        ApiStatusError: 404; there is no document.
    """
    resources = (*RESOURCES, *(custom.resource for custom in kinds.custom().values()))
    parts = tuple(path.strip("/").split("/"))
    found = Discovery(resources, _VERSION).document(parts) or OpenApi(resources, openapi_schemas).document(parts)
    if found is None:
        raise no_such_path()
    return found
