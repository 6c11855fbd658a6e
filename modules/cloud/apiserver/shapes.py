"""The shape of a requested object: kind, name, and the types of its fields."""

from typing import Any

from modules.apimachinery.kinds import JsonObject, kind_named
from modules.apimachinery.validation.objects import check_shape
from modules.cloud.apiserver.fields.types import decoded


def shaped(document: Any) -> JsonObject:
    """Return an object of the API server's own kinds as its decoder reads it, after checking its shape.

    Raises:
        ApiError: it is not an object of a known kind, or a field has another type than its kind's.
    """
    if isinstance(document, dict) and isinstance(document.get("kind"), str):
        document = decoded(kind_named(document["kind"]), document)
    return check_shape(document)
