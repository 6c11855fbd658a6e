"""The columns that a CustomResourceDefinition gives to the tables of its objects (`additionalPrinterColumns`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modules.tools.kubectl.custom_columns import go_text
from modules.tools.kubectl.errors import StatusError
from modules.tools.kubectl.jsonpath import JsonPath, relaxed
from modules.tools.kubectl.jsonpath_parser import JsonPathError
from modules.tools.kubectl.rest import path_of
from modules.tools.printing.ages import ago
from modules.tools.printing.columns import Column, columns_of
from modules.tools.printing.fields import JsonObject, objects_at, text_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modules.tools.kubectl.discovery import ApiResource
    from modules.tools.kubectl.session import Session

_DEFINITIONS: Final = ("apis", "apiextensions.k8s.io", "v1", "customresourcedefinitions")
_MOST: Final = 40
"""Columns of a definition."""
_BUILT_IN: Final = ".k8s.io"
"""Ends the groups of Kubernetes' own kinds that have columns of their own, and no definition."""


def columns_for(session: Session, resource: ApiResource) -> Sequence[Column]:
    """Return the columns of a resource: kubectl's own, those of its definition, or name and age where the server has no
    definition or shows it to nobody.
    """
    known = columns_of(resource.kind)
    if "." not in resource.group or resource.group.endswith(_BUILT_IN):
        return known
    try:
        definition = session.client.get(path_of(*_DEFINITIONS, resource.qualified))
    except StatusError:
        return columns_of("")
    version = next(
        (one for one in objects_at(definition, "spec.versions") if text_at(one, "name") == resource.version), {}
    )
    found = [_column(one) for one in objects_at(version, "additionalPrinterColumns")[:_MOST]]
    return (columns_of("")[0], *found) if found else columns_of("")


def _column(given: JsonObject) -> Column:
    path = _path_of(text_at(given, "jsonPath"))
    is_date = given.get("type") == "date"

    def cell(obj: JsonObject, now: float) -> str:
        values = _values(path, obj)
        if is_date:
            return ago(values[0], now) if values and isinstance(values[0], str) else "<unknown>"
        return ",".join(map(go_text, values))

    return Column(text_at(given, "name"), cell, wide=bool(given.get("priority")))


def _path_of(text: str) -> JsonPath | None:
    try:
        return JsonPath(relaxed(text))
    except JsonPathError:
        return None


def _values(path: JsonPath | None, obj: JsonObject) -> list[Any]:
    try:
        return path.values(obj) if path is not None else []
    except JsonPathError:
        return []
