"""What the structs of the settings have in common, and how the code that reads and writes files sees them.

The structs are the only description of the file: reading, writing, `config check` and the documentation
walk over `keys_of`. A setting that is added to a struct is thereby read, checked, printed and documented.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, get_args, get_origin

import msgspec

from modules.edgecore.config.kinds import Kind


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A mapping in the file. KubeEdge's key is the attribute's name in camel case unless the field says
    otherwise."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a section: either a setting, which has a kind, or a section of its own."""

    name: str
    """As it stands in the file."""

    attribute: str
    """As it stands in the struct."""

    kind: Kind[Any] | None = None
    """How the setting is read; None for a section."""

    section: type[Section] | None = None
    """The struct of the section; None for a setting."""


@cache
def keys_of(section: type[Section]) -> tuple[Key, ...]:
    """The keys of a section in the order of the struct."""
    return tuple(_key(field) for field in msgspec.structs.fields(section))


def _key(field: msgspec.structs.FieldInfo) -> Key:
    if isinstance(field.type, type) and issubclass(field.type, Section):
        return Key(name=field.encode_name, attribute=field.name, section=field.type)
    if get_origin(field.type) is not Annotated:
        raise TypeError(f"setting {field.name} has no kind: annotate it with one of config.kinds")
    marks = get_args(field.type)[1:]
    kind = next(mark for mark in marks if isinstance(mark, Kind))
    return Key(name=field.encode_name, attribute=field.name, kind=kind)
