"""Writes settings as a file of KubeEdge's form, with docstrings as comments.

PyYAML writes no comments, so this does not use it. `loads(render(config)).config == config` always holds, and is
tested.
"""

import textwrap
from collections.abc import Collection, Iterator
from typing import Final

import yaml

from modules.apimachinery.yaml_reader import plain_value
from modules.processes.edgecore.config.docstrings import text_of
from modules.processes.edgecore.config.section import ConfigKey, Section, keys_of, value_of

MINIMAL_KEYS: Final = (
    "apiVersion",
    "kind",
    "database.dataSource",
    "modules.edgeHub.httpServer",
    "modules.edgeHub.token",
    "modules.edgeHub.websocket.server",
    "modules.edged.hostnameOverride",
    "modules.edged.tailoredKubeletConfig.containerRuntimeEndpoint",
)
"""Keys that differ from node to node or from site to site; the defaults of all others suit most users."""

_SELF_EVIDENT: Final = ("true or false", "text")
_WIDTH: Final = 100
_STR_TAG: Final = "tag:yaml.org,2002:str"
_BARE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._:@+-")


def render(config: Section, only: Collection[str] | None = None) -> str:
    """Return the settings as commented YAML; `only` restricts it to these dotted keys."""
    return "\n".join(_section(config, "", "", only)) + "\n"


def comment_of(section: type[Section], key: ConfigKey) -> str:
    """Return the comment of a key: its docstring and the allowed values."""
    text = text_of(section).fields[key.attribute]
    if key.kind is None:
        return text
    allowed = "" if key.kind.expected in _SELF_EVIDENT else f" Allowed: {key.kind.expected}."
    return f"{text}{allowed}"


def keys_chosen(config: Section, path: str = "") -> Iterator[str]:
    """Yield the dotted keys whose settings differ from the defaults."""
    defaults = type(config)()
    for key in keys_of(type(config)):
        setting = getattr(config, key.attribute)
        if isinstance(setting, Section):
            yield from keys_chosen(setting, f"{path}{key.name}.")
        elif setting != getattr(defaults, key.attribute):
            yield f"{path}{key.name}"


def inline(value: object) -> str:
    """Return a value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{inline(name)}: {inline(entry)}" for name, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    return str(value) if isinstance(value, int | float) else _text(str(value))


def _section(section: Section, path: str, indent: str, only: Collection[str] | None) -> Iterator[str]:
    for number, key in enumerate(_chosen(section, path, only)):
        at = f"{path}{key.name}"
        if number:
            yield ""
        yield from textwrap.wrap(
            comment_of(type(section), key),
            _WIDTH,
            initial_indent=f"{indent}# ",
            subsequent_indent=f"{indent}# ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        value = value_of(section, key)
        if isinstance(value, Section):
            yield f"{indent}{key.name}:"
            yield from _section(value, f"{at}.", indent + "  ", only)
        else:
            yield from _setting(f"{indent}{key.name}:", value, indent)


def _setting(name: str, value: object, indent: str) -> Iterator[str]:
    """Yield a setting on one line, or a mapping that is too long with a line for each entry."""
    line = f"{name} {inline(value)}"
    if len(line) <= _WIDTH or not isinstance(value, dict):
        yield line
        return
    yield name
    for entry, setting in value.items():
        yield f"{indent}  {inline(entry)}: {inline(setting)}"


def _chosen(section: Section, path: str, only: Collection[str] | None) -> list[ConfigKey]:
    keys = keys_of(type(section))
    if only is None:
        return list(keys)
    return [key for key in keys if any(f"{name}.".startswith(f"{path}{key.name}.") for name in only)]


def _text(text: str) -> str:
    """Return text bare if every reader of YAML, old or new, takes it for text; else in quotes."""
    if text and set(text) <= _BARE and text[0] not in ":@+-" and text[-1] != ":" and _reads_as_text(text):
        return text
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _reads_as_text(text: str) -> bool:
    resolver = yaml.resolver.Resolver()
    tag = resolver.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return tag == _STR_TAG and plain_value(text) == text and text.lower() not in ("y", "n")


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\U{ord(char):08x}"
