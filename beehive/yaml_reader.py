"""YAML within bounds: how manifests are read, whoever has written them.

A few lines of YAML can stand for gigabytes, because an alias repeats what it refers to, and aliases may refer to parts
that have aliases in them. So the parser's events are counted first: how deep they go, and how much the aliases would
add. Whoever builds values of them builds no more than that. libyaml parses (`CSafeLoader`), which constructs nothing
but plain data. (Configuration files have a builder of their own, `modules.edgecore.config.yaml_text`, which keeps lines
and bounds the same things.)
"""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from beehive.errors import BeehiveError

DEPTH: Final = 100
"""Levels of nesting. A pod has about twelve."""
ALIASED_VALUES: Final = 20_000
"""Values that the aliases of a text stand for, all together. A pod has some hundreds."""
ALIASED_CHARACTERS: Final = 4 * 1024 * 1024
"""Characters of them."""
LARGEST: Final = 16 * 1024 * 1024
"""Characters of a text."""

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


class YamlError(BeehiveError):
    """A text that is no YAML, or is beyond the bounds; says where, counted from 1."""

    def __init__(self, why: str, line: int = 1, column: int = 1) -> None:
        self.why = why
        self.line = line
        self.column = column
        super().__init__("cannot read YAML", f"line {line}", why)


class _Loader(yaml.CSafeLoader):
    """PyYAML's safe loader on libyaml, without timestamps: to Kubernetes a date is the text that it looks like."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, expression) for tag, expression in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def events(text: str) -> Iterator[yaml.Event]:
    """The parser's events of a text. What is not within the bounds ends them.

    Raises:
        YamlError: see there.
    """
    if len(text) > LARGEST:
        raise YamlError(f"longer than {LARGEST} characters")
    sizes = _Sizes()
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            yield event
            sizes.take(event)
    except yaml.MarkedYAMLError as error:
        raise _no_yaml(error) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise YamlError(" ".join(str(error).split())) from error


def check(text: str) -> None:
    """Checks a text that something else is going to read.

    Raises:
        YamlError: it is no YAML, or not within the bounds.
    """
    for _ in events(text):
        continue


def documents(text: str) -> Iterator[tuple[Any, int]]:
    """The documents of a text as plain data, each with the line at which it begins.

    Raises:
        YamlError: it is no YAML, or not within the bounds.
        TypeError, ValueError: it has a tag or a key that plain data do not have.
    """
    check(text)
    loader = _Loader(text)
    try:
        while loader.check_node() and (node := loader.get_node()) is not None:
            yield loader.construct_document(node), node.start_mark.line + 1
    except yaml.MarkedYAMLError as error:
        raise _no_yaml(error) from error
    except yaml.YAMLError as error:
        raise YamlError(str(error)) from error
    finally:
        loader.dispose()


class _Part:
    """A mapping or list that is being read: how much it is with its aliases written out."""

    __slots__ = ("anchor", "characters", "values")

    def __init__(self, anchor: str | None) -> None:
        self.anchor = anchor
        self.values = 1
        self.characters = 0


class _Sizes:
    """How much a text stands for. One instance for each."""

    def __init__(self) -> None:
        self._open: list[_Part] = []
        self._anchors: dict[str, tuple[int, int] | None] = {}
        """None: of a part that is not finished, which would hold itself."""
        self._values = self._characters = 0

    def take(self, event: yaml.Event) -> None:
        """Counts an event."""
        if isinstance(event, yaml.ScalarEvent):
            self._add(event.anchor, 1, len(event.value))
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            part = self._open.pop()
            self._add(part.anchor, part.values, part.characters)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._anchors.clear()

    def _begin(self, event: yaml.CollectionStartEvent) -> None:
        if len(self._open) >= DEPTH:
            raise _beyond(event, f"nested more than {DEPTH} levels deep")
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


def _no_yaml(error: yaml.MarkedYAMLError) -> YamlError:
    mark = error.problem_mark or error.context_mark
    why = str(error.problem or error.context)
    return YamlError(why, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1)


def _beyond(event: yaml.Event, why: str) -> YamlError:
    mark = event.start_mark
    return YamlError(why, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1)
