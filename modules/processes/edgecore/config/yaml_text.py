"""Builds plain values from the YAML of configuration files, with the line of every key.

The values are built here from the events of `yaml_reader`, for four reasons. PyYAML's builder recurses in C and
ends the process with a segmentation fault on deep nesting. It silently keeps the last of two equal keys. It reads
`1:30` as 90 and `2020-01-01` as a date, unlike Go's reader, whose files this accepts. And it drops line numbers, which
messages about wrong values should have.

Plain scalars are read as by `sigs.k8s.io/yaml` (YAML 1.1 with those two exceptions), except that `y` and `n` stay text,
because a node may have such a name.
"""

from collections.abc import Iterator
from types import NoneType
from typing import Final

import msgspec
import yaml

from modules.apimachinery.yaml_reader import YamlBoundsError, YamlError, events, plain_value
from modules.processes.edgecore.config.errors import Problem

Path = tuple[str | int, ...]

MAX_DEPTH: Final = 64
"""Deepest nesting that is read. KubeEdge's own file has 7 levels."""

_TAG: Final = "tag:yaml.org,2002:"
_TAG_OF_TYPE: Final = {bool: "bool", int: "int", float: "float", NoneType: "null"}
_MERGE: Final = "<<"
_LONGEST_SHOWN: Final = 60


class ConfigDocument(msgspec.Struct, frozen=True):
    """A parsed file."""

    value: object
    """Mappings, lists, text, numbers, booleans, None. A part and its aliases are one object."""

    lines: dict[Path, int]
    """Line of each key and list item, from 1."""

    problems: tuple[Problem, ...]
    """Duplicate keys and keys that are not text; the document is complete nevertheless."""

    def line_of(self, path: Path) -> int | None:
        """Return the line of the innermost part of `path` that has one."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


class _YamlSyntaxError(Exception):
    """The reading cannot continue; carries the problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


def parse(text: str) -> ConfigDocument | Problem:
    """Return the one document of `text` (None for an empty text), or the problem that stops the reading."""
    builder = _Builder(events(text, depth=MAX_DEPTH, shares_aliases=True))
    try:
        root = builder.root()
    except _YamlSyntaxError as error:
        return error.problem
    except YamlBoundsError as error:
        return _problem_at(error.place, error.why)
    except YamlError as error:
        return _problem_at(error.place, f"not YAML: {', '.join(part for part in (error.context, error.why) if part)}")
    return ConfigDocument(root, builder.lines, tuple(builder.problems))


def join(path: Path) -> str:
    """Return the dotted form, `modules.edged.nodeLabels` or `a.b[2].c`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


class _Builder:
    """The builder of one text's values from its events."""

    def __init__(self, given: Iterator[yaml.Event]) -> None:
        self.lines: dict[Path, int] = {}
        self.problems: list[Problem] = []
        self._events = given
        self._anchors: dict[str, object] = {}
        """The finished parts that aliases may refer to."""

    def root(self) -> object:
        """Build the one document; None without any."""
        root, documents = None, 0
        for event in self._events:
            if isinstance(event, yaml.NodeEvent):
                root = self._value(event, ())
            documents += isinstance(event, yaml.DocumentStartEvent)
            if documents > 1:
                raise _stop(event, "a second document", "a configuration file holds one")
        return root

    def _value(self, event: yaml.Event, path: Path) -> object:
        """Build the value that begins with an event."""
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise _stop(event, f"*{event.anchor} refers to no finished part of the file before it")
            return self._anchors[event.anchor]
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        else:
            value = self._mapping(path) if isinstance(event, yaml.MappingStartEvent) else self._list(path)
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _list(self, path: Path) -> list[object]:
        found: list[object] = []
        while not isinstance(event := next(self._events), yaml.CollectionEndEvent):
            at = (*path, len(found))
            self.lines[at] = _line(event)
            found.append(self._value(event, at))
        return found

    def _mapping(self, path: Path) -> dict[str, object]:
        found: dict[str, object] = {}
        seen: dict[str, int] = {}
        while not isinstance(event := next(self._events), yaml.CollectionEndEvent):
            if isinstance(event, yaml.ScalarEvent) and event.value == _MERGE and event.implicit[0]:
                if _MERGE in seen:
                    self._add_problem((*path, _MERGE), event, _twice(seen[_MERGE]))
                self._merge(found, next(self._events))
                continue
            name = self._key(event, path, seen)
            found[name] = self._value(next(self._events), (*path, name))
        return found

    def _key(self, event: yaml.Event, path: Path, seen: dict[str, int]) -> str:
        """Return a key as text, and note its line."""
        if isinstance(event, yaml.CollectionStartEvent):
            raise _stop(event, "a key that is a mapping or a list", "keys are text")
        value = self._value(event, path)
        name = value if isinstance(value, str) else _shown(value)
        at = (*path, name)
        if not isinstance(value, str):
            self._add_problem(at, event, (f"the key {name} is not text", "put it in quotes"))
        if name in seen:
            self._add_problem(at, event, _twice(seen[name]))
        seen.setdefault(name, _line(event))
        self.lines.setdefault(at, _line(event))
        return name

    def _merge(self, into: dict[str, object], event: yaml.Event) -> None:
        """Apply YAML's merge key: add the entries of another mapping that this one lacks."""
        value = self._value(event, ()) if isinstance(event, yaml.AliasEvent) else None
        if not isinstance(value, dict):
            raise _stop(event, "<<: needs an alias of a mapping, such as <<: *name")
        for name, entry in value.items():
            into.setdefault(name, entry)

    def _add_problem(self, path: Path, event: yaml.Event, text_and_hint: tuple[str, str]) -> None:
        text, hint = text_and_hint
        self.problems.append(Problem(path=join(path), text=text, hint=hint, line=_line(event)))


def _twice(first: int) -> tuple[str, str]:
    return f"given twice, first in line {first}", "remove one of them"


def _scalar(event: yaml.ScalarEvent) -> object:
    if event.tag is None and event.implicit[0]:
        return plain_value(event.value)
    if event.tag in (None, "!", _TAG + "str"):
        return str(event.value)
    value = plain_value(event.value)
    if event.tag != _TAG + _TAG_OF_TYPE.get(type(value), ""):
        raise _stop(event, f"the tag {event.tag}", "leave it away")
    return value


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _stop(event: yaml.Event, text: str, hint: str = "") -> _YamlSyntaxError:
    column = event.start_mark.column + 1 if event.start_mark else 1
    return _YamlSyntaxError(Problem(path="", text=text, hint=hint, line=_line(event), column=column))


def _problem_at(place: tuple[int, int] | None, text: str) -> Problem:
    line, column = place or (None, None)
    return Problem(path="", text=text, line=line, column=column)
