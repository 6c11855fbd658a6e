"""Objects inside custom ones (`x-kubernetes-embedded-resource`), in apiextensions' words (`schema/objectmeta`)."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from modules.apimachinery.validation.causes import Cause, Causes, invalid, required
from modules.apimachinery.validation.metadata import check_embedded_metadata
from modules.apimachinery.validation.names import faults_of_dns_1035_label

EMBEDDED: Final = "x-kubernetes-embedded-resource"
_VERSION_PARTS: Final = 2
_LONGEST_SHOWN: Final = 200

Reader = Callable[[str, Any, str], Any]
"""Returns a member of an embedded object (`apiVersion`, `kind` or `metadata`) as it is to be; the text is its path."""


def has_embedded(schema: Any) -> bool:
    """Return whether a schema, or one in it, is that of an embedded object."""
    if not isinstance(schema, dict):
        return False
    inner = (*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties"))
    return bool(schema.get(EMBEDDED)) or any(map(has_embedded, inner))


def with_embedded(value: Any, schema: Any, read: Reader, path: str = "") -> Any:
    """Return a value with the members of its embedded objects as they are read."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, list):
        items = schema.get("items")
        return [with_embedded(each, items, read, f"{path}[{at}]") for at, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    made, more, declared = dict(value), schema.get("additionalProperties"), schema.get("properties") or {}
    for name, member in value.items():
        if schema.get(EMBEDDED) and name in ("apiVersion", "kind", "metadata"):
            made[name] = read(name, member, f"{path}.{name}")
        elif name in declared:
            made[name] = with_embedded(member, declared[name], read, f"{path}.{name}" if path else name)
        elif more:
            made[name] = with_embedded(member, more, read, f"{path}[{name}]")
    return made


def embedded_faults(value: dict[str, Any], path: str) -> Iterator[Cause]:
    """Yield the rules that an embedded object breaks."""
    for name, check in (("apiVersion", _version_faults), ("kind", _kind_faults)):
        given, place = value.get(name), f"{path}.{name}"
        if name not in value:
            yield required(place, "must not be empty")
        elif not isinstance(given, str):
            yield invalid(place, given, "must be a string")
        elif not given:
            yield invalid(place, given, "must not be empty")
        else:
            for why in check(given):
                yield invalid(place, given, why)
    if isinstance(metadata := value.get("metadata"), dict):
        found = Causes()
        check_embedded_metadata(metadata, f"{path}.metadata", found)
        yield from found


def _version_faults(text: str) -> Iterator[str]:
    if len(text.split("/")) > _VERSION_PARTS:
        yield f"unexpected GroupVersion string: {text[:_LONGEST_SHOWN]}"


def _kind_faults(text: str) -> Iterator[str]:
    if found := list(faults_of_dns_1035_label(text.lower())):
        yield f"may have mixed case, but should otherwise match: {','.join(found)}"
