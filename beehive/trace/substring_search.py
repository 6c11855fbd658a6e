"""Finds any of many byte strings (needles) in a text, in time that depends on the text and not on their number.

Pieces of a few bytes are looked up in a set, in one pass in C. In the text they are taken at every eighth place, say,
and in a needle at each of its first eight places, so that one of these always meets a place of the text. Where a piece
is found, prefixes of the text of growing lengths are looked up until no needle begins with one. So common prefixes
(`eyJhbGciOi`, `-----BEGIN`) cost a step or two instead of a comparison with each needle. Needles with a common prefix
longer than `STEPS[-1]` are compared by their hash.

A text may be constructed so that a search takes long. So a search has a budget for each byte of its text, and gives up
above it.
"""

import hashlib
import sys
from collections.abc import Iterator
from typing import Final

import msgspec

SHORTEST: Final = 6
"""Bytes that a needle has at least."""

STEPS: Final = (6, 12, 24, 48, 96, 192)
"""Lengths of the prefixes that are looked up."""

_WORK: Final = 64
"""Bytes that a search may look up or hash for each byte of the text, on average."""
_WORK_BEFORE: Final = 1 << 20
"""Bytes that a search may look up or hash in addition, for a text of any length."""
_LOOK: Final = 8
"""Cost of a look-up in addition to its bytes."""


class TooMuchWorkError(Exception):
    """The search exceeded its budget, so its result is unknown."""


class SubstringMatch(msgspec.Struct, frozen=True):
    """A place in a text with a needle, or with several overlapping ones."""

    begin: int
    end: int
    of: bytes
    """The value of the needle, of the longest one if several overlap."""


class _Tier:
    """Pieces of needles with at least `width + stride - 1` bytes.

    Args:
        code: code of a piece in the `struct` module.
        width: bytes of a piece.
        stride: bytes from one place of a text to the next; a divisor of the width.
    """

    def __init__(self, code: str, width: int, stride: int) -> None:
        self._code = code
        self._width = width
        self._stride = stride
        self.shortest = width + stride - 1
        self._pieces: set[int] = set()

    @property
    def stride(self) -> int:
        """Possible starts of a needle for one place of its piece."""
        return self._stride

    def add(self, needle: bytes) -> None:
        """Add the pieces of a needle."""
        width = self._width
        self._pieces.update(
            int.from_bytes(needle[begin : begin + width], sys.byteorder) for begin in range(self._stride)
        )

    def places(self, text: bytes) -> list[int]:
        """Return the places of pieces in a text."""
        pieces, width = self._pieces, self._width
        found: list[int] = []
        if not pieces:
            return found
        for shift in range(0, width, self._stride):
            size = (len(text) - shift) // width * width
            if size > 0:
                values = memoryview(text)[shift : shift + size].cast(self._code).tolist()  # type: ignore[call-overload]
                if not pieces.isdisjoint(values):
                    found += [shift + at * width for at, value in enumerate(values) if value in pieces]
        return found


class SubstringSearch:
    """An index of needles. Many threads may search while one adds."""

    def __init__(self) -> None:
        self._tiers = (_Tier("Q", 8, 8), _Tier("I", 4, 4), _Tier("I", 4, 2))
        self._prefixes: set[bytes] = set()
        self._lengths: dict[bytes, tuple[int, ...]] = {}
        """Lengths of the needles, the longest first, by their longest prefix in `STEPS`."""
        self._whole: dict[bytes, bytes] = {}
        """Values by needle, or by its hash if it is longer than `STEPS[-1]`."""

    def __len__(self) -> int:
        return len(self._whole)

    def add(self, needle: bytes, of: bytes) -> None:
        """Add `needle`, of at least `SHORTEST` bytes, with the value `of`."""
        self._whole.setdefault(_key(needle), of)
        prefix = b""
        for step in STEPS:
            if step <= len(needle):
                prefix = needle[:step]
                self._prefixes.add(prefix)
        self._lengths[prefix] = tuple(sorted({*self._lengths.get(prefix, ()), len(needle)}, reverse=True))
        next(tier for tier in self._tiers if tier.shortest <= len(needle)).add(needle)

    def any_in(self, text: bytes) -> bool:
        """Return whether a text contains a needle; True as well if the search would take too long."""
        try:
            return bool(self.find(text))
        except TooMuchWorkError:
            return True

    def find(self, text: bytes) -> list[SubstringMatch]:
        """Return all matches in order; overlapping ones are merged.

        Raises:
            TooMuchWorkError: the search exceeded its budget.
        """
        found: list[SubstringMatch] = []
        longest = 0
        for one in self._matches(text):
            size = one.end - one.begin
            if found and one.begin < found[-1].end:
                last = found[-1]
                found[-1] = SubstringMatch(last.begin, max(last.end, one.end), one.of if size > longest else last.of)
                longest = max(longest, size)
            else:
                found.append(one)
                longest = size
        return found

    def _matches(self, text: bytes) -> Iterator[SubstringMatch]:
        """Yield the longest needle at each place where one begins."""
        work = _WORK_BEFORE + _WORK * len(text)
        for begin in self._begins(text):
            end, of, done = self._match(text, begin, work)
            work -= done
            if end:
                yield SubstringMatch(begin, end, of)

    def _begins(self, text: bytes) -> list[int]:
        """Return the places where a needle may begin, in order."""
        found: set[int] = set()
        for tier in self._tiers:
            for place in tier.places(text):
                found.update(range(max(0, place - tier.stride + 1), place + 1))
        return sorted(found)

    def _match(self, text: bytes, begin: int, work: int) -> tuple[int, bytes, int]:
        """Return the end of the longest needle at `begin` (0 without one), its value, and the cost of the search."""
        end, of, done = 0, b"", 0
        for step in STEPS:
            prefix = text[begin : begin + step]
            done += step + _LOOK
            if len(prefix) < step or prefix not in self._prefixes:
                break
            for length in self._lengths.get(prefix, ()):
                done += length + _LOOK
                if done > work:
                    raise TooMuchWorkError
                whole = text[begin : begin + length]
                known = self._whole.get(_key(whole)) if len(whole) == length else None
                if known is not None:
                    end, of = begin + length, known
                    break
        return end, of, done


def _key(needle: bytes) -> bytes:
    return needle if len(needle) <= STEPS[-1] else hashlib.blake2b(needle, digest_size=16).digest()
