"""Finding any of many byte strings in a text, in time that depends on the text and not on how many they are.

A few bytes at a time are looked up in a set, in one pass in C. Of a text they are taken at every eighth place, say, and
of what is looked for at each of the first eight: wherever it stands, one of those falls on such a place. Where a piece
is found, the text's prefixes of growing lengths are looked up until nothing that is looked for begins so. Common
beginnings (`eyJhbGciOi`, `-----BEGIN`) therefore cost a step or two and not a comparison with each. What begins in the
same way for longer than `STEPS[-1]` is compared by its hash.

What a text and what is looked for have in common may be made so that all this takes long. A search has a budget for
each byte of its text; above that it gives up.
"""

import hashlib
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

SHORTEST: Final = 6
"""Bytes that each of them has at least."""

STEPS: Final = (6, 12, 24, 48, 96, 192)
"""Lengths of the prefixes that are looked up."""

_WORK: Final = 64
"""Bytes that a search may look up or hash for each byte of the text, on average."""
_WORK_BEFORE: Final = 1 << 20
"""And for a text of any length."""
_LOOK: Final = 8
"""What a look-up costs beside its bytes."""


class TooMuchWorkError(Exception):
    """The search was given up: nobody knows what the text has."""


class Found(NamedTuple):
    """A place where one of them stands, or several overlap."""

    begin: int
    end: int
    of: bytes
    """What it stands for: that of the longest."""


class _Tier:
    """Pieces of those that have at least `width + stride - 1` bytes.

    Args:
        code: of `struct`, for a piece.
        width: bytes of it.
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
        """How far before a piece of it something may begin, and one more."""
        return self._stride

    def add(self, needle: bytes) -> None:
        """Take its pieces."""
        width = self._width
        self._pieces.update(
            int.from_bytes(needle[begin : begin + width], sys.byteorder) for begin in range(self._stride)
        )

    def places(self, text: bytes) -> list[int]:
        """Where pieces stand in a text."""
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


class Needles:
    """See the module's docstring. Searched by many threads while one adds."""

    def __init__(self) -> None:
        self._tiers = (_Tier("Q", 8, 8), _Tier("I", 4, 4), _Tier("I", 4, 2))
        self._prefixes: set[bytes] = set()
        self._lengths: dict[bytes, tuple[int, ...]] = {}
        """By their longest prefix in `STEPS`: the lengths of those that begin so, the longest first."""
        self._whole: dict[bytes, bytes] = {}
        """What they stand for; by a hash where they are longer than the last of `STEPS`."""

    def __len__(self) -> int:
        return len(self._whole)

    def add(self, needle: bytes, of: bytes) -> None:
        """Look for `needle`, at least `SHORTEST` bytes, which stands for `of`."""
        self._whole.setdefault(_key(needle), of)
        prefix = b""
        for step in STEPS:
            if step <= len(needle):
                prefix = needle[:step]
                self._prefixes.add(prefix)
        self._lengths[prefix] = tuple(sorted({*self._lengths.get(prefix, ()), len(needle)}, reverse=True))
        next(tier for tier in self._tiers if tier.shortest <= len(needle)).add(needle)

    def any_in(self, text: bytes) -> bool:
        """Whether one of them is in a text; also where that would take too long to say."""
        try:
            return bool(self.find(text))
        except TooMuchWorkError:
            return True

    def find(self, text: bytes) -> list[Found]:
        """All places, in order, none overlapping another.

        Raises:
            TooMuchWorkError: see there.
        """
        found: list[Found] = []
        longest = 0
        for one in self._matches(text):
            size = one.end - one.begin
            if found and one.begin < found[-1].end:
                last = found[-1]
                found[-1] = Found(last.begin, max(last.end, one.end), one.of if size > longest else last.of)
                longest = max(longest, size)
            else:
                found.append(one)
                longest = size
        return found

    def _matches(self, text: bytes) -> Iterator[Found]:
        """The longest that begins at each place where one does."""
        work = _WORK_BEFORE + _WORK * len(text)
        for begin in self._begins(text):
            end, of, done = self._match(text, begin, work)
            work -= done
            if end:
                yield Found(begin, end, of)

    def _begins(self, text: bytes) -> list[int]:
        """Where one of them may begin, in order."""
        found: set[int] = set()
        for tier in self._tiers:
            for place in tier.places(text):
                found.update(range(max(0, place - tier.stride + 1), place + 1))
        return sorted(found)

    def _match(self, text: bytes, begin: int, work: int) -> tuple[int, bytes, int]:
        """The end of the longest that begins there, 0 for none; what it stands for; and what it cost to find out."""
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
