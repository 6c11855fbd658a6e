"""Base of the settings' structs, and their keys.

The structs are the only description of the file: reading, writing, `config check` and the documentation walk over
`keys_of`. So a setting that is added to a struct is also read, checked, printed and documented.
"""

from functools import cache
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec

from modules.processes.edgecore.config.value_kinds import ValueKind

_NOT_SHOWN: Final = "not shown"


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A mapping in the file. The key is the attribute's name in camel case unless the field gives another one."""


class ConfigKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a section: either a setting with a kind, or a section."""

    name: str
    """Name in the file."""

    attribute: str
    """Name in the struct."""

    kind: ValueKind[Any] | None = None
    """Kind of the setting's value; None for a section."""

    section: type[Section] | None = None
    """Struct of the section; None for a setting."""


@cache
def keys_of(section: type[Section]) -> tuple[ConfigKey, ...]:
    """Return the keys of a section in the order of the struct."""
    return tuple(_key(field) for field in msgspec.structs.fields(section))


def _key(field: msgspec.structs.FieldInfo) -> ConfigKey:
    if isinstance(field.type, type) and issubclass(field.type, Section):
        return ConfigKey(name=field.encode_name, attribute=field.name, section=field.type)
    if get_origin(field.type) is not Annotated:
        raise TypeError(f"setting {field.name} has no kind: annotate it with one of config.value_kinds")
    marks = get_args(field.type)[1:]
    kind = next(mark for mark in marks if isinstance(mark, ValueKind))
    return ConfigKey(name=field.encode_name, attribute=field.name, kind=kind)


def value_of(section: Section, key: ConfigKey) -> Any:
    """Return the value of the file for a setting."""
    setting = getattr(section, key.attribute)
    return setting if key.kind is None else key.kind.write(setting)


def plain(section: Section) -> dict[str, Any]:
    """Return settings as JSON values under their keys in the file; for a secret only whether it is set."""
    settings: dict[str, Any] = {}
    for key in keys_of(type(section)):
        value = value_of(section, key)
        if isinstance(value, Section):
            value = plain(value)
        elif key.kind is not None and key.kind.secret:
            value = _NOT_SHOWN if value else ""
        settings[key.name] = value
    return settings
