"""Custom resources in API calls: their resources, subresources and versions."""

from collections.abc import Iterable
from typing import Final

from modules.apimachinery.kinds import JsonObject, Kind
from modules.apimachinery.limits import VALUES
from modules.apimachinery.resources import Resource
from modules.apimachinery.served_resources import resource_of
from modules.apimachinery.structural_schema.values import Defaults
from modules.cloud.apiextensions.kinds import ServedKinds
from modules.cloud.apiextensions.objects import in_version

_OTHER: Final = (("v1", "Status"), ("autoscaling/v1", "Scale"))
"""Kinds of responses that are no custom objects."""
_OF_ITEM: Final = 64
"""Values for each object of a list that defaults may add, besides those for the whole list."""


def resource_in(kinds: ServedKinds, kind: Kind) -> Resource:
    """Return the resource of a kind."""
    return kinds.custom()[kind.api_version, kind.plural].resource if kind.is_custom else resource_of(kind)


def subresources_of(kinds: ServedKinds, kind: Kind) -> Iterable[str]:
    """Return the subresources of a kind."""
    resource = resource_in(kinds, kind) if kind.is_custom else resource_of(kind)
    return resource.subresources


def in_requested_version(
    kinds: ServedKinds, api_version: str, plural: str, obj: JsonObject | None, *, is_made: bool = False
) -> JsonObject | None:
    """Return a response's object or list with custom objects in the version of the request's path.

    Args:
        kinds: the kinds that are served.
        api_version: the version of the path.
        plural: the resource of the path.
        obj: the object or list; None: there is none.
        is_made: whether the request has made the object, which then has the defaults of the stored version.
    """
    custom = kinds.custom_at(api_version, plural)
    if obj is None or custom is None or (obj.get("apiVersion"), obj.get("kind")) in _OTHER:
        return obj
    if obj.get("kind") == f"{custom.kind.name}List":
        defaults = Defaults(VALUES + _OF_ITEM * len(obj["items"]))
        items = [in_version(each, custom.resource, defaults) for each in obj["items"]]
        return {**obj, "apiVersion": api_version, "items": items}
    return obj if is_made and api_version == custom.stored_version else in_version(obj, custom.resource)
