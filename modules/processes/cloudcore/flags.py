"""The options of `cloudcore run` that set a field of its configuration.

A field of `config.CloudCoreConfig` that has a `Flag` is an option: its type, choices and default are the field's, and
`settings_of` puts what was given back into it. So an option is added in one place, as a key of edgecore's configuration
is. A section that is None by default is there when its own option is given, or else the one of its first field.
"""

import argparse
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from beehive.decoding import convert
from beehive.whole_numbers import whole_number

ADDRESS: Final = "ADDRESS:PORT"
_PORTS: Final = 65_536
S = TypeVar("S", bound=Struct)


class Flag(Struct, frozen=True):
    """An option that sets a field."""

    name: str
    """With its dashes."""

    metavar: str | None
    """What the help has for its value; None for a switch, and where it has the choices."""

    help: str
    """`%(default)s` stands for the field's default."""

    group: str = ""
    """Title of its group in the help, and of a section's that it brings. Default the section's."""

    port: str = ""
    """The field of the port, where the option is ADDRESS:PORT and its field the address."""

    read: Callable[[str], object] | None = None
    """Makes the value of the option's text. Default by the type of the field; a tuple or a mapping takes one item, or
    one KEY=VALUE, each time that the option is given."""

    @property
    def attribute(self) -> str:
        """Where argparse puts the value."""
        return self.name.strip("-").replace("-", "_")


class Flags(Struct, frozen=True):
    """The options of a section."""

    group: str
    """Title of their group in the help."""

    by_field: Mapping[str, Flag] = {}
    """The options by field, where another package has the section's struct."""


class _Field(NamedTuple):
    name: str
    type: Any
    """Without None and annotations."""
    default: Any
    flags: tuple[Flag, ...]
    inner: Flags
    """The options of its fields, where it is a section."""

    @property
    def is_section(self) -> bool:
        return isinstance(self.type, type) and issubclass(self.type, Struct)


def add_flags(parser: argparse.ArgumentParser, section: type[Struct]) -> None:
    """Add the options of a configuration, in the order of its fields."""
    _add_section({"": parser}, "", _fields(section, {}), may_be_missing=False)


def settings_of(chosen: argparse.Namespace, section: type[Struct]) -> dict[str, Any]:
    """Return what the options set, as a mapping for the section; fields that they do not set keep their defaults."""
    return _settings(vars(chosen), _fields(section, {}), may_be_missing=False)


def converted(settings: dict[str, Any], section: type[S]) -> S:
    """Return settings as the section.

    Raises:
        msgspec.ValidationError: a value is out of its bounds.
    """
    return convert(settings, section, dec_hook=lambda kind, value: kind(value))


def address_and_port(text: str) -> tuple[str, int]:
    """Return address and port; -1 for an invalid port, which the configuration refuses."""
    address, colon, port = text.rpartition(":")
    number = whole_number(port, 5) if colon else None
    return address.strip("[]"), -1 if number is None else number


def addresses_without_port(chosen: argparse.Namespace, section: type[Struct]) -> dict[str, str]:
    """Return the options ADDRESS:PORT whose value has no valid port, with the value."""
    found: dict[str, str] = {}
    for field in _fields(section, {}):
        if field.is_section:
            found |= addresses_without_port(chosen, field.type)
        for flag in field.flags:
            value = getattr(chosen, flag.attribute, None) if flag.port else None
            if value and not 0 <= address_and_port(value)[1] < _PORTS:
                found[flag.name] = value
    return found


def comma_separated(text: str) -> tuple[str, ...]:
    """Return the parts of a text."""
    return tuple(each.strip() for each in text.split(","))


def pairs_in(texts: list[str]) -> dict[str, str]:
    """Return texts KEY=VALUE as a mapping."""
    return {key: value for key, _, value in (each.partition("=") for each in texts)}


def _fields(section: type[Struct], flags: Mapping[str, Flag]) -> list[_Field]:
    found = []
    for field in fields(section):
        kind, marks = _plain(field.type)
        if field.name in flags:
            marks.append(flags[field.name])
        own = [mark for mark in marks if isinstance(mark, Flag)]
        inner = next((mark for mark in marks if isinstance(mark, Flags)), Flags(own[0].group if own else ""))
        default = field.default if field.default_factory is NODEFAULT else field.default_factory()
        found.append(_Field(field.name, kind, default, tuple(own), inner))
    return found


def _plain(kind: Any) -> tuple[Any, list[object]]:
    """Return a type without None and annotations, and the annotations."""
    marks: list[object] = []
    while (origin := get_origin(kind)) in (Annotated, Union, UnionType):
        first, *more = (each for each in get_args(kind) if each is not NoneType)
        kind = first
        marks += more if origin is Annotated else []
    return kind, marks


def _add_section(
    groups: dict[str, argparse._ActionsContainer], title: str, section: list[_Field], *, may_be_missing: bool
) -> None:
    """Add the options of a section to their groups. In a section that may be missing they have no default: then it is
    known what was given.
    """
    defaults = {field.name: field.default for field in section}
    for field in section:
        for flag in field.flags:
            default = f"{field.default}:{defaults[flag.port]}" if flag.port and field.default else field.default
            options = _options(field, flag) | {"help": flag.help.replace("%(default)s", _shown(default))}
            if not may_be_missing and default not in ("", ()) and options.get("action") is None:
                options["default"] = default
            group = flag.group or title
            if group not in groups:
                groups[group] = groups[""].add_argument_group(group)
            groups[group].add_argument(flag.name, **options)
        if field.is_section:
            inner = _fields(field.type, field.inner.by_field)
            _add_section(groups, field.inner.group, inner, may_be_missing=field.default is None)


def _options(field: _Field, flag: Flag) -> dict[str, Any]:
    """Return what argparse takes for an option."""
    if field.is_section or field.type is bool:
        return {"action": "store_true"}
    kind, options = field.type, dict[str, Any](metavar=flag.metavar)
    if flag.read is not None or flag.port:
        return options | ({"type": flag.read} if flag.read is not None else {})
    if get_origin(kind) is tuple or isinstance(field.default, Mapping):
        kind = _plain(get_args(kind)[0])[0]
        options |= {"action": "append", "default": []}
    if get_origin(kind) is Literal:
        return options | {"choices": get_args(kind)}
    return options | ({} if kind is str else {"type": kind})


def _shown(default: object) -> str:
    if isinstance(default, Mapping):
        return ",".join(f"{key}={value}" for key, value in default.items())
    return ", ".join(default) if isinstance(default, tuple) else str(default)


def _settings(chosen: Mapping[str, Any], section: list[_Field], *, may_be_missing: bool) -> dict[str, Any]:
    """Return what the options of a section set. An empty ADDRESS:PORT that has no default stands for none."""
    found: dict[str, Any] = {}
    for field in section:
        if field.is_section:
            inner = _fields(field.type, field.inner.by_field)
            needed, *_ = field.flags or next(each.flags for each in inner if each.flags)
            if field.default is not None or chosen[needed.attribute]:
                found[field.name] = _settings(chosen, inner, may_be_missing=field.default is None)
            continue
        for flag in field.flags:
            value = chosen[flag.attribute]
            if value in (None, []) or (flag.port and not value and (may_be_missing or not field.default)):
                continue
            if flag.port:
                found[field.name], found[flag.port] = address_and_port(value)
            elif not isinstance(value, list):
                found[field.name] = value
            elif isinstance(field.default, Mapping):
                found[field.name] = pairs_in(value)
            else:
                found[field.name] = (*found.get(field.name, ()), *value)
    return found
