"""Classes of characters in the regular expressions of schemas, as Go's `regexp/syntax` reads them."""

import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

Ranges = tuple[tuple[int, int], ...]
"""The first and last code points of ranges, in order, with gaps between them."""

_LAST: Final = sys.maxunicode
EVERY: Final[Ranges] = ((0, _LAST),)


def ranges(text: str) -> Ranges:
    """Return the ranges of pairs of characters: `azAZ` has the letters."""
    return joined((ord(first), ord(last)) for first, last in zip(text[::2], text[1::2], strict=True))


def joined(parts: Iterable[tuple[int, int]]) -> Ranges:
    """Return ranges in order, each as large as it can be."""
    made: list[tuple[int, int]] = []
    for first, last in sorted(parts):
        if made and first <= made[-1][1] + 1:
            made[-1] = made[-1][0], max(last, made[-1][1])
        else:
            made.append((first, last))
    return tuple(made)


def others(of: Ranges) -> Ranges:
    """Return the ranges of all other characters."""
    begins = (0, *(last + 1 for _, last in of))
    ends = (*(first - 1 for first, _ in of), _LAST)
    return tuple((begin, end) for begin, end in zip(begins, ends, strict=True) if begin <= end)


WORD: Final = ranges("09AZ__az")
SHORTHANDS: Final = {"d": ranges("09"), "w": WORD, "s": ranges("\t\n\f\r  ")}
"""Perl's classes; of a capital letter, all others."""
POSIX: Final = {
    "alnum": ranges("09AZaz"), "alpha": ranges("AZaz"), "ascii": ranges("\0\x7f"), "blank": ranges("\t\t  "),
    "cntrl": ranges("\0\x1f\x7f\x7f"), "digit": ranges("09"), "graph": ranges("!~"), "lower": ranges("az"),
    "print": ranges(" ~"), "punct": ranges("!/:@[`{~"), "space": ranges("\t\r  "), "upper": ranges("AZ"),
    "word": WORD, "xdigit": ranges("09AFaf"),
}  # fmt: skip


def of_category(name: str) -> Ranges | None:
    """Return the characters of a general category of Unicode, such as `L` or `Lu`; None for another name."""
    return EVERY if name == "Any" else _categories().get(name)


@lru_cache(1)
def _categories() -> dict[str, Ranges]:
    """Return the ranges by category, and by the first letter of categories. It takes some tenths of a second."""
    found: dict[str, list[tuple[int, int]]] = {}
    for name, group in groupby(range(_LAST + 1), lambda code: unicodedata.category(chr(code))):
        codes = list(group)
        for each in (name, name[0]):
            found.setdefault(each, []).append((codes[0], codes[-1]))
    return {name: joined(parts) for name, parts in found.items()}


class CharacterClass(NamedTuple):
    """A set of characters."""

    ranges: Ranges
    folds: bool = False
    """Whether a character is in it whose lower or upper case is."""

    def holds(self, char: str) -> bool:
        """Return whether a character is in it."""
        if self._has(ord(char)):
            return True
        cases = (char.lower(), char.upper(), char.casefold()) if self.folds else ()
        return any(len(case) == 1 and self._has(ord(case)) for case in cases)

    def _has(self, code: int) -> bool:
        at = bisect_right(self.ranges, (code, _LAST)) - 1
        return at >= 0 and code <= self.ranges[at][1]
