"""Changes settings in the text of a configuration file, and keeps the rest of it, comments included. Pure.

The place of a setting is found by the marks of YAML's nodes, and the changed text is read again: it must have the value
that the former text has with the setting, and nothing else. A file where that fails, such as one that shares parts by
aliases, is written anew without its comments.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import yaml

from modules.processes.edgecore.config.errors import ConfigError, Problem
from modules.processes.edgecore.config.model import EdgeCoreConfig
from modules.processes.edgecore.config.section import Section, keys_of
from modules.processes.edgecore.config.value_kinds import UnfitError, ValueKind
from modules.processes.edgecore.config.writing import inline
from modules.processes.edgecore.config.yaml_text import parse

_STEP: Final = 2
"""Columns by which a nested mapping is indented."""
_ARGUMENT: Final = "edgecore config set"


class EditedText(NamedTuple):
    """The text of a file with a setting."""

    text: str
    keeps_comments: bool
    """Whether all but the setting is as it was."""


def with_setting(text: str, key: str, written: str) -> EditedText:
    """Return a text with a setting.

    Args:
        text: of the file, which is YAML within the bounds of `yaml_text.parse`.
        key: dotted, such as `modules.edgeHub.heartbeat`; in any case.
        written: the value as in the file: `20`, `true`, `[a, b]`, `{a: b}`.

    Raises:
        ConfigError: there is no such setting, or it cannot have the value, or the file is not a mapping.
    """
    path, kind = _setting(key)
    value = _value(key, kind, written)
    document = parse(text)
    if isinstance(document, Problem) or not isinstance(document.value, dict | None):
        raise ConfigError(_ARGUMENT, (Problem(path=key, text="the file is no mapping of settings"),))
    names = _as_written(document.value or {}, path)
    wanted = _set(document.value or {}, names, value)
    changed = _changed(text, names, value)
    if changed is not None and getattr(parse(changed), "value", None) == wanted:
        return EditedText(changed, keeps_comments=True)
    dumped = yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True)
    return EditedText(dumped, keeps_comments=False)


def _setting(key: str) -> tuple[list[str], ValueKind[Any]]:
    """Return the names that lead to a setting, and its kind."""
    section: type[Section] | None = EdgeCoreConfig
    kind: ValueKind[Any] | None = None
    path = []
    for name in key.split("."):
        keys = {} if section is None else {each.name.lower(): each for each in keys_of(section)}
        found = keys.get(name.lower())
        if found is None:
            from difflib import get_close_matches  # noqa: PLC0415 - most keys are right

            near = get_close_matches(name.lower(), keys, n=1)
            hint = f"did you mean {keys[near[0]].name}?" if near else "`edgecore config default` prints all"
            raise ConfigError(_ARGUMENT, (Problem(path=key, text=f"there is no setting {name}", hint=hint),))
        path.append(found.name)
        section, kind = found.section, found.kind
    if kind is None:
        raise ConfigError(_ARGUMENT, (Problem(path=key, text="is a section; name one of its settings"),))
    return path, kind


def _value(key: str, kind: ValueKind[Any], written: str) -> object:
    """Return the value of the file that a text means: what it is in YAML, or the text itself."""
    document = parse(written)
    meant = [written] if isinstance(document, Problem) or document.problems else [document.value, written]
    hint = ""
    for value in meant:
        try:
            kind.read(value)
        except UnfitError as error:
            hint = hint or str(error)
        else:
            return value
    raise ConfigError(_ARGUMENT, (Problem(path=key, text=f"got another value, want {kind.expected}", hint=hint),))


def _as_written(value: dict[str, object], path: Sequence[str]) -> list[str]:
    """Return the names of a path as the file writes them, which may have other upper and lower case."""
    names, at = [], value
    for name in path:
        found = next((each for each in at if each.lower() == name.lower()), name)
        names.append(found)
        inner = at.get(found)
        at = inner if isinstance(inner, dict) else {}
    return names


def _set(value: dict[str, object], names: Sequence[str], setting: object) -> dict[str, object]:
    """Return the file's value with the setting; what aliases share with it stays as it was there."""
    name, *rest = names
    inner = value.get(name)
    return {**value, name: _set(inner if isinstance(inner, dict) else {}, rest, setting) if rest else setting}


def _changed(text: str, names: Sequence[str], value: object) -> str | None:
    """Return the text with the setting; None where its place cannot be told."""
    node = yaml.compose(text, Loader=yaml.CSafeLoader)
    if node is None:
        return f"{text.rstrip()}\n{_block(names, value, 0)}".lstrip("\n")
    key: Any = None
    for number, name in enumerate(names):
        if isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null") and key is not None:
            column = key.start_mark.column + _STEP
            return _replaced(text, key, node, f":\n{_block(names[number:], value, column).rstrip()}")
        if not isinstance(node, yaml.MappingNode):
            return None
        found = next((pair for pair in node.value if pair[0].value == name), None)
        if found is None:
            return _inserted(text, node, names[number:], value)
        key, node = found
    return _replaced(text, key, node, f": {inline(value)}")


def _replaced(text: str, key: yaml.Node, node: yaml.Node, what: str) -> str:
    return text[: key.end_mark.index] + what + text[max(_end(node), key.end_mark.index + 1) :]


def _inserted(text: str, mapping: yaml.MappingNode, names: Sequence[str], value: object) -> str:
    """Return the text with further entries at the end of a mapping."""
    if mapping.flow_style or not mapping.value:
        at = mapping.end_mark.index - 1
        nested = value
        for name in reversed(names[1:]):
            nested = {name: nested}
        return f"{text[:at].rstrip()}{', ' if mapping.value else ''}{names[0]}: {inline(nested)}{text[at:]}"
    column, end = mapping.value[0][0].start_mark.column, _end(mapping)
    if text[end - 1] != "\n":
        line = text.find("\n", end)
        end = len(text) if line < 0 else line + 1
    before = text[:end] if text[:end].endswith("\n") else f"{text[:end]}\n"
    return before + _block(names, value, column) + text[end:]


def _block(names: Sequence[str], value: object, column: int) -> str:
    """Return nested entries, a line for each name."""
    lines = [f"{' ' * (column + _STEP * depth)}{name}:" for depth, name in enumerate(names)]
    return "\n".join(lines) + f" {inline(value)}\n"


def _end(node: yaml.Node) -> int:
    """Return where the text of a node ends; YAML's mark of a block is behind the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        if isinstance(last, tuple):
            return max(_end(last[1]), int(last[0].end_mark.index) + 1)
        return _end(last)
    return int(node.end_mark.index)
