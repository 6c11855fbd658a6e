"""What a value in the file may be, and how it is said.

Each setting carries its kind in its annotation: `heartbeat: Annotated[int, Whole("seconds", 1, 3600)]`. A
kind does three things that must not drift apart: it reads the value of the file, writes it back, and states
in words what is allowed. The words are used in errors, in the comments of `config default` and in
`docs/configuration.md`.

Values are judged as Go's decoder does for KubeEdge: no number where text is wanted, no text where a number
is.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from enum import StrEnum
from pathlib import Path
from typing import Final, Generic, TypeVar

from modules.edgecore.config.durations import format_duration, format_size, parse_duration, parse_size

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_LONGEST_SHOWN: Final = 60

QUOTES: Final = "put it in quotes"


class UnfitError(Exception):
    """The value is not of the kind; the text, which may be empty, is a hint."""


def shown(value: object) -> str:
    """A value of the file as a message says it: short, one line, text in quotes."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        text = value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "…"
        return '"' + "".join(char if char.isprintable() else "�" for char in text) + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return "nothing" if value is None else str(value)


class Kind(ABC, Generic[T]):
    """One kind of value."""

    secret: bool = False
    """Whether values of this kind must never appear in a message."""

    @property
    @abstractmethod
    def want(self) -> str:
        """What is allowed, in words that follow "want"."""

    @abstractmethod
    def read(self, value: object) -> T:
        """The setting for a value of the file; UnfitError when it is not allowed."""

    def write(self, setting: T) -> object:
        """The value of the file for a setting; `read(write(x)) == x`."""
        return setting


class Switch(Kind[bool]):
    """`true` or `false`."""

    want = "true or false"

    def read(self, value: object) -> bool:
        """Only real booleans: text such as "true" in quotes is refused, as Go does."""
        if not isinstance(value, bool):
            raise UnfitError("without quotes" if isinstance(value, str) else "")
        return value


class Whole(Kind[int]):
    """A whole number of something, within bounds."""

    def __init__(self, unit: str, low: int, high: int) -> None:
        """`unit` in the plural, such as "seconds"; both bounds are allowed values."""
        self.unit, self.low, self.high = unit, low, high

    @property
    def want(self) -> str:
        """Unit and bounds."""
        return f"an integer{f' of {self.unit}' if self.unit else ''}, {self.low} to {self.high}"

    def read(self, value: object) -> int:
        """Integers only; a boolean is none."""
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            raise UnfitError
        return value


class Duration(Kind[float]):
    """A duration in Go's notation, in seconds inside the program."""

    def __init__(self, low: float, high: float) -> None:
        """Bounds in seconds, both allowed."""
        self.low, self.high = low, high

    @property
    def want(self) -> str:
        """Notation and bounds."""
        return f"a duration such as 1m0s, {format_duration(self.low)} to {format_duration(self.high)}"

    def read(self, value: object) -> float:
        """Text with units; KubeEdge refuses a bare number too (metav1.Duration)."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise UnfitError(f"with a unit, for example {value}s")
        if not isinstance(value, str):
            raise UnfitError
        try:
            seconds = parse_duration(value)
        except ValueError:
            raise UnfitError from None
        if not self.low <= seconds <= self.high:
            raise UnfitError
        return seconds

    def write(self, setting: float) -> object:
        """Go's own form."""
        return format_duration(setting)


class Size(Kind[int]):
    """A number of bytes, as an integer or as a quantity such as `16Mi`."""

    def __init__(self, low: int, high: int) -> None:
        """Bounds in bytes, both allowed."""
        self.low, self.high = low, high

    @property
    def want(self) -> str:
        """Notation and bounds."""
        return f"a size in bytes such as 16Mi, {format_size(self.low)} to {format_size(self.high)}"

    def read(self, value: object) -> int:
        """Integer or whole quantity."""
        try:
            size = parse_size(value) if isinstance(value, str) else value
        except ValueError:
            raise UnfitError from None
        if isinstance(size, bool) or not isinstance(size, int) or not self.low <= size <= self.high:
            raise UnfitError
        return size

    def write(self, setting: int) -> object:
        """In binary units when that is exact."""
        return format_size(setting)


class Text(Kind[str]):
    """Text, of which a pattern may be asked."""

    def __init__(self, want: str = "text", pattern: str = r"[^\x00-\x1f\x7f]*", *, most: int = 4096) -> None:
        """`pattern` must match the whole text; `most` is the largest length in characters."""
        self._want, self.pattern, self.most = want, re.compile(pattern, re.ASCII), most

    @property
    def want(self) -> str:
        """The words given for it."""
        return self._want

    def read(self, value: object) -> str:
        """Text only; numbers and booleans need quotes."""
        if not isinstance(value, str):
            raise UnfitError("" if isinstance(value, list | dict) else QUOTES)
        if len(value) > self.most or self.pattern.fullmatch(value) is None:
            raise UnfitError
        return value


class SecretText(str):
    """Text that does not show itself in a repr, and so not in a log of the settings."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Whether there is a value, and nothing else."""
        return "'(hidden)'" if self else "''"


class Secret(Kind[SecretText]):
    """Text that is never shown in a message."""

    secret = True

    def __init__(self, want: str = "text", pattern: str = r"[^\x00-\x1f\x7f]*") -> None:
        """As for `Text`."""
        self.text = Text(want, pattern)

    @property
    def want(self) -> str:
        """The words given for it."""
        return self.text.want

    def read(self, value: object) -> SecretText:
        """Text only."""
        return SecretText(self.text.read(value))

    def write(self, setting: SecretText) -> object:
        """Plain text: who writes a file with a secret wants it in the file."""
        return str(setting)


class AbsolutePath(Kind[Path]):
    """An absolute path of this machine."""

    want = "an absolute path"

    def read(self, value: object) -> Path:
        """A path that begins with `/`: a relative one would depend on where the service was started."""
        if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
            raise UnfitError
        return Path(value)

    def write(self, setting: Path) -> object:
        """As text."""
        return str(setting)


class Choice(Kind[E]):
    """One of the members of an enumeration."""

    def __init__(self, members: type[E], hint: str = "") -> None:
        """The values of `members` are the words of the file; `hint` says what to do about another one."""
        self.members, self.hint = members, hint

    @property
    def want(self) -> str:
        """All that may be chosen."""
        return " or ".join(f'"{member.value}"' for member in self.members)

    def read(self, value: object) -> E:
        """Exactly one of the words."""
        for member in self.members:
            if member.value == value:
                return member
        raise UnfitError(self.hint)

    def write(self, setting: E) -> object:
        """The word."""
        return setting.value


class TextList(Kind[tuple[str, ...]]):
    """A list of texts of one kind."""

    def __init__(self, item: Kind[str], most: int) -> None:
        """`most` is the largest number of items."""
        self.item, self.most = item, most

    @property
    def want(self) -> str:
        """The items' words and their number."""
        return f"a list of at most {self.most}, each {self.item.want}"

    def read(self, value: object) -> tuple[str, ...]:
        """A list; every item is judged."""
        if not isinstance(value, list) or len(value) > self.most:
            raise UnfitError
        return tuple(_read_part(self.item, item) for item in value)

    def write(self, setting: tuple[str, ...]) -> object:
        """A list."""
        return [self.item.write(item) for item in setting]


class TextMap(Kind[dict[str, str]]):
    """A mapping from text to text."""

    def __init__(self, key: Kind[str], value: Kind[str], most: int) -> None:
        """Kinds of keys and values; `most` is the largest number of entries."""
        self.key, self.value, self.most = key, value, most

    @property
    def want(self) -> str:
        """Both kinds' words."""
        return f"a mapping from {self.key.want} to {self.value.want}"

    def read(self, value: object) -> dict[str, str]:
        """A mapping; every entry is judged."""
        if not isinstance(value, dict) or len(value) > self.most:
            raise UnfitError
        return {
            _read_part(self.key, name): _read_part(self.value, entry, f"{shown(name)} is ")
            for name, entry in value.items()
        }

    def write(self, setting: dict[str, str]) -> object:
        """A mapping."""
        return dict(setting)


def _read_part(kind: Kind[T], value: object, place: str = "") -> T:
    """A part of a list or mapping; the hint says which part is wrong."""
    try:
        return kind.read(value)
    except UnfitError as error:
        hint = f"{place}{shown(value)}"
        raise UnfitError(f"{hint}, {error}" if str(error) else hint) from None
