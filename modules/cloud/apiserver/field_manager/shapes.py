"""How the fields of an object are merged: which are atomic, and which lists have keys or are sets.

Kubernetes' OpenAPI says so for built-in kinds (`x-kubernetes-list-type` in `fields.json`), a schema for custom ones. A
list without a type is atomic, unless a strategic merge patch merges it (kube-openapi, `schemaconv`).
"""

from collections.abc import Mapping
from enum import Enum, auto
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Protocol

from modules.cloud.apiserver.fields.validation import field_types, known_fields, merge_of, root_type_of

_ATOMIC: Final = "atomic"
_OF_ANY_FORM: Final = ("V1ControllerRevision", "data")
"""A field without a schema, which is merged as a whole."""
DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "V1ContainerPort": {"protocol": "TCP"},
    "V1ServicePort": {"protocol": "TCP"},
}
"""The values of keys that an element may lack."""


class MergeForm(Enum):
    """Way in which a value is merged."""

    LEAF = auto()
    """As a whole."""
    MAP = auto()
    """Field by field."""
    KEYED = auto()
    """A list, element by element, by keys."""
    SET = auto()
    """A list of plain values; each is there or not."""


class FieldShape(Protocol):
    """Way in which one field is merged."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of a list's elements."""

    @property
    def has_plain(self) -> bool:
        """Whether the kind has fields that are there even in an empty object."""

    def form(self, value: Any) -> MergeForm:
        """Return how a value is merged; one of another type than the schema's is a leaf."""

    def is_named(self, name: str) -> bool:
        """Return whether the schema names a field, so that it is no key of a map."""

    def field(self, name: str) -> "FieldShape":
        """Return the shape of a field."""

    def element(self) -> "FieldShape":
        """Return the shape of a list's elements."""

    def defaults(self) -> Mapping[str, Any]:
        """Return the values of keys that an element lacks."""


_NO_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({})


class DeducedShape:
    """A value without a schema: a map is merged field by field, everything else is a leaf."""

    keys: tuple[str, ...] = ()
    has_plain = False

    def form(self, value: Any) -> MergeForm:
        """Return how a value is merged."""
        return MergeForm.MAP if isinstance(value, dict) else MergeForm.LEAF

    def is_named(self, name: str) -> bool:  # noqa: ARG002 - as the schema of a kind has it
        """Return that no field has a name in the schema."""
        return False

    def field(self, name: str) -> FieldShape:  # noqa: ARG002
        """Return the shape of a field."""
        return self

    def element(self) -> FieldShape:
        """Return the shape of a list's elements."""
        return self

    def defaults(self) -> Mapping[str, Any]:
        """Return nothing."""
        return _NO_DEFAULTS


_DEDUCED: Final = DeducedShape()


class BuiltInShape:
    """A field of a built-in kind.

    Args:
        types: the fields of all types (`field_types`).
        of: its type, as in `types`.
        merged: its keys if it is a list with keys, () if it is a set, None for another.
        is_atomic: whether it is a map that is merged as a whole; None: as all of its type.
    """

    has_plain = True

    def __init__(
        self, types: Mapping[str, Mapping[str, str]], of: str, merged: tuple[str, ...] | None = None,
        *, is_atomic: bool | None = None,
    ) -> None:  # fmt: skip
        self._types = types
        self._of = of
        self._merged = merged
        self._is_atomic = of in known_fields().atomic if is_atomic is None else is_atomic
        self.keys = merged or ()

    def form(self, value: Any) -> MergeForm:
        """Return how a value is merged."""
        if isinstance(value, dict):
            is_map = self._of in self._types or self._of.startswith("{") or self._of == "object"
            return MergeForm.MAP if is_map and not self._is_atomic else MergeForm.LEAF
        if isinstance(value, list) and self._merged is not None and self._of.startswith("["):
            return MergeForm.KEYED if self._merged else MergeForm.SET
        return MergeForm.LEAF

    def is_named(self, name: str) -> bool:
        """Return whether the type has a field."""
        return name in self._types.get(self._of, ())

    def field(self, name: str) -> FieldShape:
        """Return the shape of a field, or of a map's values."""
        if self._of.startswith("{"):
            return BuiltInShape(self._types, self._of[1:])
        of = self._types.get(self._of, {}).get(name)
        if of is None:
            return _DEDUCED
        merge = merge_of(self._of, name)
        keys, is_set = merge.list_map_keys, merge.list_type == "set"
        if not merge.list_type and merge.patch_strategy.startswith("merge"):
            keys = (merge.patch_merge_key,) if merge.patch_merge_key else ()
            is_set = not keys
        is_atomic = merge.map_type == _ATOMIC if merge.map_type else None
        if (self._of, name) == _OF_ANY_FORM:
            is_atomic = True
        return BuiltInShape(self._types, of, keys or (() if is_set else None), is_atomic=is_atomic)

    def element(self) -> FieldShape:
        """Return the shape of a list's elements."""
        return BuiltInShape(self._types, self._of[1:])

    def defaults(self) -> Mapping[str, Any]:
        """Return the values of keys that an element lacks."""
        return DEFAULTS.get(self._of[1:], _NO_DEFAULTS)


class SchemaShape:
    """A field of a custom kind, by its OpenAPI schema (`x-kubernetes-list-type` and its likes).

    Args:
        schema: of the field.
        is_root: whether it is the whole object, whose metadata every kind has.
    """

    has_plain = False

    def __init__(self, schema: Mapping[str, Any], *, is_root: bool = False) -> None:
        self._schema = schema
        self._is_root = is_root
        found = schema.get("x-kubernetes-list-map-keys")
        self.keys = tuple(str(key) for key in found) if isinstance(found, list) else ()

    def form(self, value: Any) -> MergeForm:
        """Return how a value is merged."""
        if isinstance(value, dict):
            return MergeForm.LEAF if self._schema.get("x-kubernetes-map-type") == _ATOMIC else MergeForm.MAP
        kind = self._schema.get("x-kubernetes-list-type")
        if isinstance(value, list) and kind == "map" and self.keys:
            return MergeForm.KEYED
        return MergeForm.SET if isinstance(value, list) and kind == "set" else MergeForm.LEAF

    def is_named(self, name: str) -> bool:
        """Return whether the schema has a property."""
        return name in self._properties() or (self._is_root and name in ("apiVersion", "kind", "metadata"))

    def field(self, name: str) -> FieldShape:
        """Return the shape of a property, or of a map's values."""
        if self._is_root and name == "metadata":
            return _metadata_shape()
        found = self._properties().get(name, self._schema.get("additionalProperties"))
        return SchemaShape(found) if isinstance(found, dict) else _DEDUCED

    def element(self) -> FieldShape:
        """Return the shape of a list's elements."""
        items = self._schema.get("items")
        return SchemaShape(items) if isinstance(items, dict) else _DEDUCED

    def defaults(self) -> Mapping[str, Any]:
        """Return the values of keys that an element lacks."""
        items = self._schema.get("items")
        properties = items.get("properties") if isinstance(items, dict) else None
        if not isinstance(properties, dict):
            return _NO_DEFAULTS
        return {
            key: properties[key]["default"]
            for key in self.keys
            if isinstance(properties.get(key), dict) and "default" in properties[key]
        }

    def _properties(self) -> Mapping[str, Any]:
        found = self._schema.get("properties")
        return found if isinstance(found, dict) else {}


@cache
def _metadata_shape() -> FieldShape:
    return shape_of("ConfigMap").field("metadata")


@cache
def shape_of(kind: str) -> FieldShape:
    """Return the shape of a built-in kind."""
    return BuiltInShape(field_types(kind), root_type_of(kind))
