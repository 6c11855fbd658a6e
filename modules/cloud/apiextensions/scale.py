"""The subresource `scale` of custom kinds: where an object has its replicas (CustomResourceSubresourceScale)."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import Cause, invalid, required

_PATH: Final = re.compile(r"(\.[A-Za-z_][A-Za-z0-9_-]*){2,}")
"""A JSON path without array notation."""


class ScalePaths(msgspec.Struct, frozen=True):
    """The fields of a custom object that its Scale shows, each as the names that lead to it."""

    replicas: tuple[str, ...]
    """Of the spec."""
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()
    """The selector as text; empty without one."""


def scale_faults(scale: JsonObject, path: str) -> Iterator[Cause]:
    """Yield the faults of a definition's `subresources.scale`, as apiextensions-apiserver words them."""
    for field, roots, where in (
        ("specReplicasPath", ("spec",), ".spec"),
        ("statusReplicasPath", ("status",), ".status"),
        ("labelSelectorPath", ("spec", "status"), "either .spec or .status"),
    ):
        given = scale.get(field)
        if not given and field == "labelSelectorPath":
            continue
        if not given:
            yield required(f"{path}.{field}")
        elif not _PATH.fullmatch(given):
            yield invalid(f"{path}.{field}", given, "is not a json path without array notation")
        elif given.split(".")[1] not in roots:
            yield invalid(f"{path}.{field}", given, f"should be a json path under {where}")


def scale_paths(version: JsonObject) -> ScalePaths | None:
    """Return the paths of a valid version of a definition; None without the subresource."""
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return None
    names = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    return ScalePaths(*(tuple(str(scale.get(name) or "").split(".")[1:]) for name in names))


def value_at(obj: JsonObject, path: tuple[str, ...]) -> Any:
    """Return the value of an object at a path, or None."""
    found: Any = obj
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if path else None


def with_value(obj: JsonObject, path: tuple[str, ...], value: Any) -> JsonObject:
    """Return a copy of an object with a value at a path."""
    first, *rest = path
    inner = obj.get(first)
    made = with_value(inner if isinstance(inner, dict) else {}, tuple(rest), value) if rest else value
    return {**obj, first: made}
