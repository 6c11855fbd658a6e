"""Kinds of values in the file.

Each setting has its kind in its annotation: `heartbeat: Annotated[int, Whole("seconds", 1, 3600)]`. A kind reads the
value of the file, writes it back, and describes the allowed values. The description is used in errors, in the comments
of `config default` and in `docs/configuration.md`.

Values are checked as by Go's decoder in KubeEdge: no number in the place of text, no text in the place of a number.
"""

import re
from abc import ABC, abstractmethod
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Final, Generic, TypeVar

from modules.apimachinery.types.quantity import format_binary_quantity
from modules.processes.common.durations import format_duration, parse_duration, parse_size

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_LONGEST_SHOWN: Final = 60

QUOTES: Final = "put it in quotes"


class UnfitError(Exception):
    """The value is not of the kind; the text, which may be empty, is a hint."""


def shown(value: object) -> str:
    """Format a value of the file for a message: short, on one line, text in quotes."""
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


class ValueKind(ABC, Generic[T]):
    """A kind of value."""

    secret: bool = False
    """Whether values of this kind must never appear in a message."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """Description of the allowed values, which follows "want" in messages."""

    @property
    def bounds(self) -> str:
        """The allowed values, in the reference: a default beside them shows their form. Empty where it suffices."""
        return self.expected

    @abstractmethod
    def read(self, value: object) -> T:
        """Return the setting for a value of the file. Raises UnfitError if the value is not allowed."""

    def write(self, setting: T) -> object:
        """Return the value of the file for a setting; `read(write(x)) == x`."""
        return setting


class Switch(ValueKind[bool]):
    """`true` or `false`."""

    expected = "true or false"
    bounds = ""

    def read(self, value: object) -> bool:
        """Read a boolean; text such as "true" in quotes is refused, as by Go."""
        if not isinstance(value, bool):
            raise UnfitError("without quotes" if isinstance(value, str) else "")
        return value


class Whole(ValueKind[int]):
    """An integer within bounds."""

    def __init__(self, unit: str, low: int, high: int) -> None:
        """`unit` is in the plural, such as "seconds"; both bounds are allowed values."""
        self.unit, self.low, self.high = unit, low, high

    @property
    def expected(self) -> str:
        """Unit and bounds."""
        return f"an integer{f' of {self.unit}' if self.unit else ''}, {self.low} to {self.high}"

    @property
    def bounds(self) -> str:
        """The bounds, and the unit."""
        return f"{self.low} to {self.high} {self.unit}".rstrip()

    def read(self, value: object) -> int:
        """Read an integer; booleans are refused."""
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            raise UnfitError
        return value


class Duration(ValueKind[float]):
    """A duration in Go's notation, which becomes seconds."""

    def __init__(self, low: float, high: float) -> None:
        """Take the bounds in seconds, both allowed."""
        self.low, self.high = low, high

    @property
    def expected(self) -> str:
        """Notation and bounds."""
        return f"a duration such as 1m0s, {self.bounds}"

    @property
    def bounds(self) -> str:
        """The shortest and the longest."""
        return f"{format_duration(self.low)} to {format_duration(self.high)}"

    def read(self, value: object) -> float:
        """Read text with units; a bare number is refused, as by KubeEdge (metav1.Duration)."""
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
        """Return Go's form."""
        return format_duration(setting)


class Size(ValueKind[int]):
    """A number of bytes, as an integer or as a quantity such as `16Mi`."""

    def __init__(self, low: int, high: int) -> None:
        """Take the bounds in bytes, both allowed."""
        self.low, self.high = low, high

    @property
    def expected(self) -> str:
        """Notation and bounds."""
        return f"a size in bytes such as 16Mi, {self.bounds}"

    @property
    def bounds(self) -> str:
        """The smallest and the largest."""
        return f"{format_binary_quantity(self.low)} to {format_binary_quantity(self.high)}"

    def read(self, value: object) -> int:
        """Read an integer or a whole quantity."""
        try:
            size = parse_size(value) if isinstance(value, str) else value
        except ValueError:
            raise UnfitError from None
        if isinstance(size, bool) or not isinstance(size, int) or not self.low <= size <= self.high:
            raise UnfitError
        return size

    def write(self, setting: int) -> object:
        """Return binary units if they are exact."""
        return format_binary_quantity(setting)


class Text(ValueKind[str]):
    """Text that matches a pattern."""

    def __init__(self, want: str = "text", pattern: str = r"[^\x00-\x1f\x7f]*", *, most: int = 4096) -> None:
        """`pattern` must match the whole text; `most` is the largest length in characters."""
        self._want, self._expression, self.most = want, pattern, most

    @property
    def expected(self) -> str:
        """The given description."""
        return self._want

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled with the first text of this kind: a file has few of the keys."""
        return re.compile(self._expression, re.ASCII)

    def read(self, value: object) -> str:
        """Read text; numbers and booleans need quotes."""
        if not isinstance(value, str):
            raise UnfitError("" if isinstance(value, list | dict) else QUOTES)
        if len(value) > self.most or self.pattern.fullmatch(value) is None:
            raise UnfitError
        return value


class SecretText(str):
    """Text that is hidden in its repr, and so in a log of the settings."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show only whether there is a value."""
        return "'(hidden)'" if self else "''"


class Secret(ValueKind[SecretText]):
    """Text that is never shown in a message."""

    secret = True

    def __init__(self, want: str = "text", pattern: str = r"[^\x00-\x1f\x7f]*") -> None:
        """As for `Text`."""
        self.text = Text(want, pattern)

    @property
    def expected(self) -> str:
        """The given description."""
        return self.text.expected

    def read(self, value: object) -> SecretText:
        """Read text."""
        return SecretText(self.text.read(value))

    def write(self, setting: SecretText) -> object:
        """Return plain text, because a written file needs the secret."""
        return str(setting)


class AbsolutePath(ValueKind[Path]):
    """An absolute path of this machine."""

    expected = "an absolute path"

    def read(self, value: object) -> Path:
        """Read a path that begins with `/`; a relative one would depend on the working directory of the service."""
        if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
            raise UnfitError
        return Path(value)

    def write(self, setting: Path) -> object:
        """Return text."""
        return str(setting)


class Choice(ValueKind[E]):
    """A member of an enumeration."""

    def __init__(self, members: type[E], hint: str = "") -> None:
        """Take the values of `members` as the words of the file; `hint` is the remedy for any other word."""
        self.members, self.hint = members, hint

    @property
    def expected(self) -> str:
        """All words."""
        return " or ".join(f'"{member.value}"' for member in self.members)

    def read(self, value: object) -> E:
        """Read exactly one of the words."""
        for member in self.members:
            if member.value == value:
                return member
        raise UnfitError(self.hint)

    def write(self, setting: E) -> object:
        """Return the word."""
        return setting.value


class TextList(ValueKind[tuple[str, ...]]):
    """A list of texts of one kind."""

    def __init__(self, item: ValueKind[str], most: int) -> None:
        """`most` is the largest number of items."""
        self.item, self.most = item, most

    @property
    def expected(self) -> str:
        """Description of the items, and their number."""
        return f"a list of at most {self.most}, each {self.item.expected}"

    def read(self, value: object) -> tuple[str, ...]:
        """Read a list; every item is checked."""
        if not isinstance(value, list) or len(value) > self.most:
            raise UnfitError
        return tuple(_read_part(self.item, item) for item in value)

    def write(self, setting: tuple[str, ...]) -> object:
        """Return a list."""
        return [self.item.write(item) for item in setting]


class TextMap(ValueKind[dict[str, str]]):
    """A mapping from text to text."""

    def __init__(self, key: ValueKind[str], value: ValueKind[str], most: int) -> None:
        """`key` and `value` are the kinds of the entries; `most` is their largest number."""
        self.key, self.value, self.most = key, value, most

    @property
    def expected(self) -> str:
        """Descriptions of key and value."""
        return f"a mapping from {self.key.expected} to {self.value.expected}"

    def read(self, value: object) -> dict[str, str]:
        """Read a mapping; every entry is checked."""
        if not isinstance(value, dict) or len(value) > self.most:
            raise UnfitError
        return {
            _read_part(self.key, name): _read_part(self.value, entry, f"{shown(name)} is ")
            for name, entry in value.items()
        }

    def write(self, setting: dict[str, str]) -> object:
        """Return a mapping."""
        return dict(setting)


def _read_part(kind: ValueKind[T], value: object, place: str = "") -> T:
    """Read a part of a list or mapping; the hint of an error names the part."""
    try:
        return kind.read(value)
    except UnfitError as error:
        hint = f"{place}{shown(value)}"
        raise UnfitError(f"{hint}, {error}" if str(error) else hint) from None
