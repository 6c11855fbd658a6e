"""Builds plain values from the YAML of configuration files, with the line of every key.

The values are built here from the events of `yaml_reader`, for four reasons. PyYAML's builder recurses in C and
ends the process with a segmentation fault on deep nesting. It silently keeps the last of two equal keys. It reads
`1:30` as 90 and `2020-01-01` as a date, unlike Go's reader, whose files this accepts. And it drops line numbers, which
messages about wrong values should have.

Plain scalars are read as by `sigs.k8s.io/yaml` (YAML 1.1 with those two exceptions), except that `y` and `n` stay text,
because a node may have such a name.
"""

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
    builder = _Builder()
    try:
        for event in events(text, depth=MAX_DEPTH, shares_aliases=True):
            builder.handle(event)
    except _YamlSyntaxError as error:
        return error.problem
    except YamlBoundsError as error:
        return _problem_at(error.place, error.why)
    except YamlError as error:
        return _problem_at(error.place, f"not YAML: {', '.join(part for part in (error.context, error.why) if part)}")
    return ConfigDocument(builder.root, builder.lines, tuple(builder.problems))


def join(path: Path) -> str:
    """Return the dotted form, `modules.edged.nodeLabels` or `a.b[2].c`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


class _Frame:
    """An open mapping or list."""

    __slots__ = ("anchor", "container", "key", "merges", "path", "seen")

    def __init__(self, container: dict[str, object] | list[object], path: Path, anchor: str | None) -> None:
        self.container = container
        self.path = path
        self.anchor = anchor
        self.key: str | None = None
        self.merges = False
        self.seen: dict[str, int] = {}

    def child_path(self) -> Path:
        """Return the path of the next value."""
        part = len(self.container) if isinstance(self.container, list) else self.key
        return (*self.path, part if part is not None else "")


class _Builder:
    """The builder of one text's values from its events."""

    def __init__(self) -> None:
        self.root: object = None
        self.lines: dict[Path, int] = {}
        self.problems: list[Problem] = []
        self._documents = 0
        self._frames: list[_Frame] = []
        self._anchors: dict[str, object] = {}

    def handle(self, event: yaml.Event) -> None:
        """Take the next event."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise _stop(event, "a second document", "a configuration file holds one")
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open({} if isinstance(event, yaml.MappingStartEvent) else [], event)
        elif isinstance(event, yaml.CollectionEndEvent):
            frame = self._frames.pop()
            self._remember(frame.anchor, frame.container)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)

    def _open(self, container: dict[str, object] | list[object], event: yaml.CollectionStartEvent) -> None:
        if self._at_key():
            raise _stop(event, "a key that is a mapping or a list", "keys are text")
        path = self._frames[-1].child_path() if self._frames else ()
        self._place(container, event)
        self._frames.append(_Frame(container, path, event.anchor))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        value = self._scalar_value(event)
        self._remember(event.anchor, value)
        if self._at_key():
            merge = event.value == _MERGE and event.implicit[0]
            self._handle_key(_MERGE if merge else value, event, merge=merge)
        else:
            self._place(value, event)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            raise _stop(event, f"*{event.anchor} refers to no finished part of the file before it")
        value = self._anchors[event.anchor]
        if self._at_key():
            self._handle_key(value, event, merge=False)
        else:
            self._place(value, event)

    def _at_key(self) -> bool:
        frame = self._frames[-1] if self._frames else None
        return frame is not None and isinstance(frame.container, dict) and frame.key is None

    def _handle_key(self, value: object, event: yaml.Event, *, merge: bool) -> None:
        frame, line = self._frames[-1], _line(event)
        name = value if isinstance(value, str) else _shown(value)
        path = (*frame.path, name)
        if not isinstance(value, str):
            self._add_problem(path, line, f"the key {name} is not text", "put it in quotes")
        if name in frame.seen:
            self._add_problem(path, line, f"given twice, first in line {frame.seen[name]}", "remove one of them")
        if not merge:
            frame.seen.setdefault(name, line)
            self.lines.setdefault(path, line)
        frame.key, frame.merges = name, merge

    def _place(self, value: object, event: yaml.Event) -> None:
        """Put a value into the open mapping or list, or at the root."""
        if not self._frames:
            self.root = value
            return
        frame = self._frames[-1]
        if isinstance(frame.container, list):
            self.lines[frame.child_path()] = _line(event)
            frame.container.append(value)
        elif frame.key is not None:
            key, frame.key = frame.key, None
            if frame.merges:
                self._merge(frame.container, value, event)
            else:
                frame.container[key] = value

    def _merge(self, into: dict[str, object], value: object, event: yaml.Event) -> None:
        """Apply YAML's merge key: add the entries of another mapping that this one lacks."""
        if not isinstance(event, yaml.AliasEvent) or not isinstance(value, dict):
            raise _stop(event, "<<: needs an alias of a mapping, such as <<: *name")
        for name, entry in value.items():
            into.setdefault(name, entry)

    def _scalar_value(self, event: yaml.ScalarEvent) -> object:
        if event.tag is None and event.implicit[0]:
            return plain_value(event.value)
        if event.tag in (None, "!", _TAG + "str"):
            return str(event.value)
        value = plain_value(event.value)
        if event.tag != _TAG + _TAG_OF_TYPE.get(type(value), ""):
            raise _stop(event, f"the tag {event.tag}", "leave it away")
        return value

    def _remember(self, anchor: str | None, value: object) -> None:
        if anchor is not None:
            self._anchors[anchor] = value

    def _add_problem(self, path: Path, line: int, text: str, hint: str) -> None:
        self.problems.append(Problem(path=join(path), text=text, hint=hint, line=line))


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
