"""Values that are in their stored form already, as most of what nodes report: no reader has to walk through them."""

from functools import cache
from typing import Annotated, Any, Final

import msgspec

from beehive.decoding import convert
from modules.apimachinery.go_values import USUAL_TIME
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.protobuf.decoding import MessageField
from modules.apimachinery.protobuf.empty_members import fields_to_omit, is_left_out
from modules.cloud.apiserver.fields.types import INTEGER_BITS, TEXT, TIME, go_types

_PLAIN: Final[dict[str, Any]] = {
    TEXT: str,
    "bool": bool,
    TIME: Annotated[str, msgspec.Meta(pattern=USUAL_TIME)],
    **{name: Annotated[int, msgspec.Meta(ge=-(2**bits), le=2**bits - 1)] for name, bits in INTEGER_BITS.items()},
}
_ZEROS: Final[dict[str, Any]] = {TEXT: "", "bool": False, **dict.fromkeys(INTEGER_BITS, 0)}


def is_in_stored_form(of: str, message: str, value: JsonObject) -> bool:
    """Return whether it is certain that `decoded` and `without_empty_members` find nothing to refuse or to change in a
    struct: it has no null, no empty member that its type leaves out, and of each field the type. Quantities, maps of
    structs and unusual times are never certain.

    Args:
        of: its type in `fields.json`.
        message: its message in `messages.json`.
        value: the struct, as JSON.
    """
    try:
        found = convert(value, _shape(of, message))
    except msgspec.ValidationError:
        return False
    return bool(msgspec.to_builtins(found) == value)


@cache
def _shape(of: str, message: str) -> type[msgspec.Struct]:
    """Return the class of a type's values in stored form; it has none of the fields that are never certain. The type
    must not contain itself.
    """
    found = {field: _field(kind, message, fields_to_omit(message).get(field)) for field, kind in go_types()[of].items()}
    certain = [(field, shape) for field, shape in found.items() if shape is not None]
    names = {f"_{number}": field for number, (field, _) in enumerate(certain)}
    fields = [(name, *shape) for name, (_, shape) in zip(names, certain, strict=True)]
    return msgspec.defstruct(
        of, fields, rename=names, kw_only=True, frozen=True, omit_defaults=True, forbid_unknown_fields=True
    )


def _field(kind: str, message: str, known: MessageField | None) -> tuple[Any, Any] | None:
    """Return the class of a field's values, and the default that stands for an absent one.

    Args:
        kind: Go's type.
        message: the message that has the field.
        known: the field there, if it may be left out or has parts.
    """
    plain, mark = kind.lstrip("*{"), kind[:1]
    is_struct = plain in go_types()
    shape: Any = _PLAIN.get(plain)
    if is_struct and known is not None:
        shape = _shape(plain, known.kind)
    if shape is None or (mark == "{" and plain != TEXT):
        return None
    empty: Any = _ZEROS.get(plain, {})
    if mark in _CONTAINERS:
        shape, empty = _CONTAINERS[mark](shape)
    if known is None or not is_left_out(message, known, empty):
        return shape | msgspec.UnsetType, msgspec.UNSET
    if mark in _CONTAINERS:
        return shape, msgspec.field(default_factory=type(empty))
    return None if is_struct else (shape, empty)


def _list(shape: Any) -> tuple[Any, Any]:
    return list[shape], []


def _map(shape: Any) -> tuple[Any, Any]:
    return dict[str, shape], {}


_CONTAINERS: Final = {"*": _list, "{": _map}
"""By the mark of Go's type: returns the class, and the empty one."""
