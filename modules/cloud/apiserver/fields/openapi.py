"""The schemas in the OpenAPI documents of the API server."""

from collections.abc import Sequence
from typing import Any

from modules.apimachinery.resources import Resource
from modules.cloud.apiextensions.openapi import custom_schemas
from modules.cloud.apiserver.fields.schemas import schemas_of


def openapi_schemas(resources: Sequence[Resource]) -> dict[str, Any]:
    """Return the schemas of resources, by name: of the built-in kinds, and of CustomResourceDefinitions."""
    built_in = schemas_of(one for one in resources if not one.is_custom)
    return built_in | {name: schema for one in resources if one.is_custom for name, schema in custom_schemas(one)}
