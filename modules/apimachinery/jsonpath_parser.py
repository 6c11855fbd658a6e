"""Reads Kubernetes' JSONPath templates: text with expressions in braces, `{.items[*].metadata.name}{"\\n"}`.

The grammar comes from `k8s.io/client-go/util/jsonpath`, with its error messages. A template is read in one pass from
left to right; filters, unions and quoted keys nest at most one level into each other, so the depth is bounded by the
grammar.
"""

import re
from typing import Any, Final, NamedTuple, NoReturn

from beehive.errors import BeehiveError
from beehive.printable import clipped

LONGEST: Final = 65_536
"""Characters that a template may have."""

_SHOWN: Final = 1000
_TERMINATORS: Final = frozenset(" \t\r\n.,[]$@{}")
_KEY: Final = re.compile(r"'([^']*)'")
_SLICE: Final = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?", re.ASCII)
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?[\d.]*", re.ASCII)
_ESCAPE: Final = re.compile(r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([0-7]{3})|(.?))", re.DOTALL)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JsonPathError(BeehiveError):
    """A template cannot be read, or does not fit the object; the text is kubectl's, in one line."""


class Field(NamedTuple):
    """`.name`: a member of each object."""

    name: str


class Wildcard(NamedTuple):
    """`.*`: all members of each object, all elements of each list."""


class Recursive(NamedTuple):
    """`..`: each object and list with everything within it."""


class Slice(NamedTuple):
    """`[first:end:step]`, `[index]` or `[*]`; None is a part that was left out."""

    first: int | None
    end: int | None
    step: int | None
    one: bool = False
    """Whether it is an index; `end` is then the index after it."""


class ElementFilter(NamedTuple):
    """`[?(left operator right)]`; without an operator, `[?(left)]` takes elements that have it."""

    left: "Path"
    operator: str
    right: "Path"


class PathUnion(NamedTuple):
    """`[a,b]`: the results of several subscripts one after the other."""

    paths: tuple["Path", ...]


class Identifier(NamedTuple):
    """`range` or `end`; every other word is refused when the template is run."""

    name: str


class Literal(NamedTuple):
    """A text, number or boolean."""

    value: Any


Node = Field | Wildcard | Recursive | Slice | ElementFilter | PathUnion | Identifier | Literal
Path = tuple[Node, ...]
"""The parts of one expression, each applied to the results of the one before."""


def parse(template: str) -> list[Path]:
    """Return the parts of a template: one path for each expression, and for each text between them.

    Raises:
        JsonPathError: the template does not follow the grammar.
    """
    if not template:
        raise JsonPathError("template format specified but no template given")
    if len(template) > LONGEST:
        raise JsonPathError(f"error parsing jsonpath {clipped(template)}, longer than {LONGEST} characters")
    found: list[Path] = []
    place = 0
    while place < len(template):
        start = template.find("{", place)
        text = template[place:] if start < 0 else template[place:start]
        if text:
            found.append((Literal(text),))
        if start < 0:
            break
        reader = _Expression(template, start + 1, template)
        found.append(reader.path())
        place = reader.place
    return found


class _Expression:
    """A parser of one expression, from behind its opening brace to behind its closing one."""

    def __init__(self, text: str, place: int, template: str) -> None:
        self.place = place
        self._text = text
        self._template = template
        self._nodes: list[Node] = []

    def path(self) -> Path:
        """Return the nodes of the expression."""
        while not self._text.startswith("}", self.place):
            self._part()
        self.place += 1
        return tuple(self._nodes)

    def _part(self) -> None:
        text, place = self._text, self.place
        char = text[place : place + 1]
        if text.startswith("[?(", place):
            self._filter()
        elif text.startswith("..", place):
            self._recursive()
        elif char in ("", "\n", "\r"):
            self._fail("unclosed action")
        elif char in " @$":
            self.place += 1
        elif char == "[":
            self._subscript()
        elif char in "\"'":
            self._quote(char)
        elif char == ".":
            self.place += 1
            self._field()
        elif char in "+-" or char.isdecimal():
            self._number()
        elif char == "_" or char.isalnum():
            word = self._until_terminator()
            self._nodes.append(Literal(word == "true") if word in ("true", "false") else Identifier(word))
        else:
            self._fail(f"unrecognized character in action: U+{ord(char):04X} '{char}'")

    def _recursive(self) -> None:
        if self._nodes and isinstance(self._nodes[-1], Recursive):
            self._fail("invalid multiple recursive descent")
        self._nodes.append(Recursive())
        self.place += 2
        char = self._text[self.place : self.place + 1]
        if char == "_" or char.isalnum():
            self._field()

    def _field(self) -> None:
        name = self._until_terminator()
        self._nodes.append(Wildcard() if name == "*" else Field(name.replace("\\", "")))

    def _until_terminator(self) -> str:
        start = self.place
        while self.place < len(self._text) and self._text[self.place] not in _TERMINATORS:
            self.place += 2 if self._text[self.place] == "\\" else 1
        self.place = min(self.place, len(self._text))
        return self._text[start : self.place]

    def _number(self) -> None:
        match = _NUMBER.match(self._text, self.place)
        word = match[0] if match else ""
        self.place += len(word)
        try:
            self._nodes.append(Literal(int(word) if "." not in word else float(word)))
        except ValueError:
            self._fail(f"cannot parse number {word}")

    def _quote(self, mark: str) -> None:
        start = self.place
        end = start
        while True:
            end = self._text.find(mark, end + 1)
            if end < 0 or "\n" in self._text[start:end]:
                self._fail("unterminated quoted string")
            if self._text[end - 1] != "\\":
                break
        self.place = end + 1
        quoted = self._text[start : end + 1]
        self._nodes.append(Literal(_ESCAPE.sub(lambda match: self._unescaped(match, quoted), quoted[1:-1])))

    def _unescaped(self, match: re.Match[str], quoted: str) -> str:
        letter, byte, point, octal, _ = match.groups()
        if letter:
            return _ESCAPES.get(letter, letter)
        if byte or point:
            return chr(int(byte or point, 16))
        if octal and int(octal, 8) < 256:
            return chr(int(octal, 8))
        return self._fail(f"unquote string {quoted} error invalid syntax")

    def _subscript(self) -> None:
        end = self._text.find("]", self.place)
        inside = self._text[self.place + 1 : end]
        if end < 0 or "\n" in inside:
            self._fail("unterminated array")
        self.place = end + 1
        members = inside.split(",")
        if len(members) > 1:
            self._nodes.append(PathUnion(tuple(self._within(f"[{member.strip(' ')}]") for member in members)))
            return
        key = _KEY.fullmatch(inside)
        if key:
            self._nodes += self._within(f".{key[1]}")
        else:
            self._nodes.append(self._slice(":" if inside == "*" else inside))

    def _slice(self, inside: str) -> Slice:
        match = _SLICE.fullmatch(inside)
        if match is None:
            self._fail(f"invalid array index {inside}")
        first, end, step = (self._index(part) for part in match.groups())
        if match[2] is None:
            return Slice(first, (first or 0) + 1, step, one=True)
        return Slice(first, end, step)

    def _index(self, part: str | None) -> int | None:
        digits = (part or "").removeprefix(":")
        if not digits:
            return None
        if digits == "-" or len(digits) > 18:
            self._fail(f"array index {digits} is not a number")
        return int(digits)

    def _filter(self) -> None:
        start = self.place + len("[?(")
        end = self._end_of_filter(start)
        if not self._text.startswith("]", end + 1):
            self._fail("unclosed array expect ]")
        self.place = end + 2
        inside = self._text[start:end]
        parts = _COMPARISON.fullmatch(inside)
        if parts is None:
            self._nodes.append(ElementFilter(self._within(inside), "exists", ()))
        else:
            self._nodes.append(ElementFilter(self._within(parts[1]), parts[2], self._within(parts[3])))

    def _end_of_filter(self, start: int) -> int:
        """Return the place of the closing parenthesis, which may stand in quotes as well."""
        mark, closed = "", False
        for place in range(start, len(self._text)):
            char = self._text[place]
            if char == "\n":
                break
            if char in "\"'":
                if not mark:
                    mark = char
                elif char == mark and self._text[place - 1] != "\\":
                    closed = True
            elif char == ")" and bool(mark) == closed:
                return place
        return self._fail("unterminated filter")

    def _within(self, text: str) -> Path:
        return _Expression(f"{text}}}", 0, self._template).path()

    def _fail(self, why: str) -> NoReturn:
        raise JsonPathError(f"error parsing jsonpath {clipped(self._template, _SHOWN)}, {clipped(why, _SHOWN)}")
