"""YAML within bounds, for manifests and configuration files.

A few lines of YAML can stand for gigabytes, because an alias repeats the part that it refers to, and that part may have
aliases itself. So `events` counts the parser's events as it yields them: how deep they nest, and how much the aliases
stand for. libyaml parses (`CSafeLoader`), and only plain data is built.

`documents` builds values with PyYAML, `json_documents` builds manifests. The reader of configuration files
(`modules.processes.edgecore.config.yaml_text`) builds its own from `events`, to keep line numbers.
"""

import math
import re
from collections.abc import Iterator
from itertools import islice
from types import NoneType
from typing import Any, Final, NamedTuple, NoReturn

import yaml

from modules.apimachinery.attempts import UnreadableError

DEPTH: Final = 100
"""Levels of nesting that a text may have. A pod has about twelve."""
ALIASED_VALUES: Final = 20_000
"""Values that all aliases of a text may stand for. A pod has some hundreds."""
ALIASED_CHARACTERS: Final = 4 * 1024 * 1024
"""Characters that all aliases of a text may stand for."""
LARGEST: Final = 16 * 1024 * 1024
"""Characters of the longest text that is read."""

_LONGEST_KEY: Final = 100
_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"
_TEXT: Final = f"{_TAG}str"
_TAGS: Final[dict[type, str]] = {NoneType: f"{_TAG}null", bool: f"{_TAG}bool", int: f"{_TAG}int", float: f"{_TAG}float"}
"""By the type of a plain value; the others are texts."""
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE: Final = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_NUMERIC: Final = frozenset("+-.0123456789")
_INT: Final = re.compile(
    r"[-+]?(0[bB][01_]{1,64}|0[xX][0-9a-fA-F_]{1,32}|0[oO]?[0-7_]{0,32}|[1-9][0-9_]{0,32})", re.ASCII
)
_FLOAT: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", re.ASCII)
_SPECIAL: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST_FLOAT: Final = 64
_LEAST_INT: Final = -(2**63)
_MOST_INT: Final = 2**64 - 1


class YamlError(UnreadableError):
    """A text that is not YAML, or exceeds the bounds.

    Args:
        why: the reason.
        place: line and column, from 1; None if the parser does not tell.
        context: the parser's context of the reason, such as `while parsing a block mapping`.
    """

    def __init__(self, why: str, place: tuple[int, int] | None = None, context: str = "") -> None:
        self.why = why
        self.context = context
        self.place = place
        self.line = place[0] if place else 1
        super().__init__("cannot read YAML", f"line {self.line}", why)


class YamlBoundsError(YamlError):
    """A text that exceeds the bounds."""


def plain_value(text: str) -> str | float | bool | None:
    """Return the value of a plain scalar as Kubernetes' reader has it (sigs.k8s.io/yaml): `1e3` is a number, but
    `12:30`, `52:54:00:12:34:56` and a date are texts, unlike in YAML 1.1. Here `y` and `n` are texts, too.
    """
    if text[:1] in _NUMERIC:
        return _number(text)
    if text in _NULL:
        return None
    return text in _TRUE if text in _TRUE or text in _FALSE else text


def _number(text: str) -> str | float:
    if _INT.fullmatch(text):
        whole = _integer(text.replace("_", "").lower())
        if whole is None or _LEAST_INT <= whole <= _MOST_INT:
            return text if whole is None else whole
    if _SPECIAL.fullmatch(text):
        return float(text.lower().replace(".", ""))
    digits = text if text.startswith(".") else text.replace("_", "")
    number = float(digits) if len(text) <= _LONGEST_FLOAT and _FLOAT.fullmatch(digits) else math.inf
    return number if math.isfinite(number) else text


def _integer(text: str) -> int | None:
    """Parse an integer as Go's ParseInt with base 0 does: a leading zero means octal."""
    sign, digits = (text[0], text[1:]) if text[0] in "+-" else ("", text)
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdecimal():
        digits = "0o" + digits[1:]
    try:
        return int(sign + digits, 0)
    except ValueError:
        return None


class _Loader(yaml.CSafeLoader):
    """PyYAML's safe loader on libyaml, with the plain values of Kubernetes' reader."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        """Return the tag of a node without one."""
        if kind is yaml.ScalarNode and implicit[0]:
            return _MERGE if value == "<<" else _TAGS.get(type(plain_value(value)), _TEXT)
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]


def _typed(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> str | float | bool | None:
    """Return the value of a scalar with the tag of its type, be it the parser's or the text's own."""
    value = plain_value(str(loader.construct_scalar(node)))
    if node.tag == _TAGS[float] and isinstance(value, int):
        return float(value)
    if _TAGS.get(type(value)) != node.tag:
        raise _unbuilt(node, f"{str(value)[:_LONGEST_KEY]!r} has not the type of its tag {node.tag}")
    return value


def _timestamp(_loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> NoReturn:
    raise _unbuilt(node, "plain data has no timestamps")


def _unbuilt(node: yaml.Node, why: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, why, node.start_mark)


def _text(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


for _of in _TAGS.values():
    _Loader.add_constructor(_of, _typed)
_Loader.add_constructor(_MERGE, _text)
_Loader.add_constructor(f"{_TAG}timestamp", _timestamp)


def events(text: str, *, depth: int = DEPTH, shares_aliases: bool = False) -> Iterator[yaml.Event]:
    """Yield the parser's events of a text.

    Args:
        text: the text.
        depth: levels of nesting that are allowed.
        shares_aliases: the caller uses one object for a part and all its aliases, so aliases need no bounds.

    Raises:
        YamlError: the text is not YAML.
        YamlBoundsError: the text exceeds the bounds.
    """
    if len(text) > LARGEST:
        raise YamlBoundsError(f"longer than {LARGEST} characters", (1, 1))
    sizes = _Sizes(depth, shares_aliases=shares_aliases)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            yield event
            sizes.count(event)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise YamlError(" ".join(str(error).split())) from error


def check(text: str) -> None:
    """Check a text that another reader will read.

    Raises:
        YamlError: the text is not YAML, or exceeds the bounds.
    """
    for _ in events(text):
        continue


def has_more_values(text: str, most: int) -> bool:
    """Return whether a text has more than so many values, keys included; nothing is read beyond them.

    Raises:
        YamlError: the text is not YAML up to there, or exceeds the bounds.
    """
    values = (each for each in events(text) if isinstance(each, yaml.NodeEvent))
    return len(text) > most and next(islice(values, most, None), None) is not None


class RepeatedKey(NamedTuple):
    """A key that a map has a second time; the last value counts."""

    line: int
    column: int
    """Both from 1."""
    key: str

    @property
    def why(self) -> str:
        """Kubernetes' text for it."""
        return f'key "{self.key[:_LONGEST_KEY]}" already set in map'


def documents(text: str, repeated: list[RepeatedKey] | None = None) -> Iterator[tuple[Any, int]]:
    """Yield the documents of a text as plain data, each with its first line.

    Args:
        text: the text.
        repeated: takes the keys that a map of the document has twice; None: such a text is refused.

    Raises:
        YamlError: the text is not YAML, exceeds the bounds, or has a tag or a key that plain data cannot have.
    """
    check(text)
    loader = _Loader(text)
    try:
        while loader.check_node() and (node := loader.get_node()) is not None:
            found = sorted(_repeated_keys(node))
            if found and repeated is None:
                raise YamlError(found[0].why, found[0][:2])
            if repeated is not None:
                repeated += found
            yield loader.construct_document(node), node.start_mark.line + 1
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error) from error
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())) from error
    finally:
        loader.dispose()


def json_documents(text: str, repeated: list[RepeatedKey] | None = None) -> Iterator[tuple[Any, int]]:
    """Yield the documents of a text in JSON's types, as Kubernetes reads manifests; see `documents`.

    Raises:
        YamlError: as there.
        TypeError: the text has a value or a key that JSON does not have.
    """
    for content, line in documents(text, repeated):
        yield _in_json_types(content), line


def _in_json_types(value: Any) -> Any:
    if isinstance(value, dict):
        return {_json_key(key): _in_json_types(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_in_json_types(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeError(f"{value} is no number in JSON")
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"a {type(value).__name__} has no place in a manifest")


def _json_key(key: object) -> str:
    """Return a key as a string; numbers and booleans are formatted nearly as written, as Kubernetes does."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float):
        return str(key).removesuffix(".0") if isinstance(key, float) else str(key)
    raise TypeError("a key must be a string")


def _repeated_keys(node: yaml.Node) -> Iterator[RepeatedKey]:
    """Yield the keys that a map has twice; an alias's part is looked at once."""
    waiting, seen = [node], {id(node)}
    while waiting:
        part = waiting.pop()
        if not isinstance(part, yaml.CollectionNode):
            continue
        members = part.value
        if isinstance(part, yaml.MappingNode):
            yield from _repeated_in_map(part)
            members = [each for pair in part.value for each in pair]
        for each in members:
            if id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)


def _repeated_in_map(node: yaml.MappingNode) -> Iterator[RepeatedKey]:
    keys: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
            if (key.tag, key.value) in keys:
                yield RepeatedKey(key.start_mark.line + 1, key.start_mark.column + 1, key.value)
            keys.add((key.tag, key.value))


class _Part:
    """Size of an open mapping or list, with its aliases written out."""

    __slots__ = ("anchor", "characters", "values")

    def __init__(self, anchor: str | None) -> None:
        self.anchor = anchor
        self.values = 1
        self.characters = 0


class _Sizes:
    """The sizes of one text's events."""

    def __init__(self, depth: int, *, shares_aliases: bool) -> None:
        self._depth = depth
        self._shares_aliases = shares_aliases
        self._open: list[_Part] = []
        self._anchors: dict[str, tuple[int, int] | None] = {}
        """Values and characters of a part; None for an open one, which would contain itself."""
        self._values = self._characters = 0

    def count(self, event: yaml.Event) -> None:
        """Count an event."""
        if isinstance(event, yaml.ScalarEvent):
            self._add(event.anchor, 1, len(event.value))
        elif isinstance(event, yaml.AliasEvent):
            if not self._shares_aliases:
                self._alias(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            part = self._open.pop()
            self._add(part.anchor, part.values, part.characters)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._anchors.clear()

    def _begin(self, event: yaml.CollectionStartEvent) -> None:
        if len(self._open) >= self._depth:
            raise _beyond(event, f"nested more than {self._depth} levels deep")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Part(event.anchor))

    def _alias(self, event: yaml.AliasEvent) -> None:
        size = self._anchors.get(event.anchor or "", (1, 0))
        if size is None:
            raise _beyond(event, f"*{event.anchor} is a part of what it refers to")
        self._values += size[0]
        self._characters += size[1]
        if self._values > ALIASED_VALUES or self._characters > ALIASED_CHARACTERS:
            raise _beyond(event, f"written out without aliases it has more than {ALIASED_VALUES} values")
        self._add(None, *size)

    def _add(self, anchor: str | None, values: int, characters: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = values, characters
        if self._open:
            self._open[-1].values += values
            self._open[-1].characters += characters


def _syntax_error(error: yaml.MarkedYAMLError) -> YamlError:
    mark = error.problem_mark or error.context_mark
    place = (mark.line + 1, mark.column + 1) if mark else None
    if error.problem:
        return YamlError(str(error.problem), place, str(error.context or ""))
    return YamlError(str(error.context), place)


def _beyond(event: yaml.Event, why: str) -> YamlBoundsError:
    mark = event.start_mark
    return YamlBoundsError(why, (mark.line + 1, mark.column + 1) if mark else None)
