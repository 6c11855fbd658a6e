"""Mutates good inputs: parsers fail on inputs that differ in a detail from a good one.

All randomness comes from the `Random` argument, so a case is a function of its seed.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

LONGEST: Final = 48 * 1024
"""Upper limit of a mutated input in bytes; longer ones are cut, so that a case stays cheap."""

NUMBERS: Final = (
    0,
    1,
    125,
    126,
    127,
    128,
    255,
    256,
    32767,
    65535,
    65536,
    2**31 - 1,
    2**32 - 1,
    2**63 - 1,
    2**63,
    2**64,
)
"""Limits of the integer types of protocols and languages."""

TEXTS: Final = (
    b"null", b"true", b"-0", b"1e999", b"-1e-999", b"9" * 25, b"9" * 5000, b"0x10", b"NaN", b'""', b"{}", b"[]",
    b"\\u0000", b"\\ud800", b"\\udc00\\ud800", b"\x00", b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    "ſ".encode(), "²".encode(), b"\xb2", b"\xb9\xb2\xb3", "١".encode(), b"../../..", b"/", b"%2f", b"%00", b"%",
    b"\r\n",
    b"\r\n\r\n", b"\n", b" ", b"\t", b":", b",", b"=", b".", b"-", b"{", b"}", b"[", b"]", b'"', b"\\", b"'", b"&a",
    b"*a",
    b"!!python/object:x", b"!!timestamp 9999-99-99", b"2026-99-99", b"<<: *a", b"---\n", b"? ", b"|\n", b"system:nodes",
)  # fmt: skip
"""Words that mean something to one format or another."""

_NESTS: Final = ((b"[", b"]"), (b'{"a":', b"}"), (b"{", b"}"), (b"\x30\x80", b"\x00\x00"), (b"\x91", b""), (b"- ", b""))
_DEPTHS: Final = (3, 60, 500, 1500, 12000)

_ODD: Final[tuple[Any, ...]] = (
    None, True, 0, -1, 2**63, 1.5, "", "x", "../..", "a/b", "é\u0000", "x" * 5000, [], [None], {}, {"": None}, "100Gi",
    "-1", "2026-11-20T01:54:50Z", "Never", "Always", "$(A)$(B", [[]], {"name": "a"}, [{"name": "a"}, {"name": "a"}],
)  # fmt: skip

_Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]


def mutate(random: Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds, changed one to five times (one case in twenty stays as it is: the good ones must pass)."""
    data = random.choice(seeds)
    if random.random() < 0.05:
        return data
    for _ in range(min(random.randint(1, 5), random.randint(1, 5))):
        data = random.choice(_MUTATIONS)(random, data, seeds)[:LONGEST]
    return data


def misshape(random: Random, value: Any) -> Any:
    """Return JSON with one part of another kind, missing, or odd: well-formed without sense."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(list(value))
        if random.random() < 0.1:
            return {each: part for each, part in value.items() if each != key}
        return {**value, key: misshape(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.85:
        at = random.randrange(len(value))
        return [*value[:at], misshape(random, value[at]), *value[at + random.randint(0, 1) :]]
    return random.choice(_ODD)


def pieces(random: Random, data: bytes) -> list[bytes]:
    """Cut the bytes at up to eight positions, as a network may deliver them."""
    cuts = sorted(random.randint(0, len(data)) for _ in range(random.randint(0, 8)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def _span(random: Random, data: bytes, longest: int = 64) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(len(data), start + random.randint(0, longest))


def _flip(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]


def _overwrite(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(random, data, 8)
    return data[:start] + random.randbytes(end - start) + data[end:]


def _cut(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: random.randint(0, len(data))]


def _drop(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(random, data)
    return data[:start] + data[end:]


def _repeat(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(random, data, 256)
    return data[:end] + data[start:end] * random.choice((1, 2, 50)) + data[end:]


def _splice(random: Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    other = random.choice(seeds)
    return data[: random.randint(0, len(data))] + other[random.randint(0, len(other)) :]


def _say(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(random, data, random.choice((0, 0, 4, 12)))
    return data[:start] + random.choice(TEXTS) + data[end:]


def _lie(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A number in binary, in either order, over what stands there: lengths and counts."""
    width = random.choice((1, 2, 4, 8))
    start = random.randint(0, min(len(data), random.choice((16, LONGEST))))
    number = random.choice(NUMBERS) % (1 << 8 * width)
    return data[:start] + number.to_bytes(width, random.choice(("big", "little"))) + data[start + width :]


def _renumber(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Another number in place of a present one."""
    places = [at for at in range(len(data)) if 0x30 <= data[at] <= 0x39]
    if not places:
        return data
    start = end = random.choice(places)
    while end < len(data) and 0x30 <= data[end] <= 0x39:
        end += 1
    return data[:start] + str(random.choice(NUMBERS) * random.choice((1, 1, -1))).encode() + data[end:]


def _nest(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    opening, closing = random.choice(_NESTS)
    depth = random.choice(_DEPTHS)
    start, end = _span(random, data, 4)
    return data[:start] + opening * depth + data[start:end] + closing * random.choice((depth, 0)) + data[end:]


def _revalue(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Another kind of value behind a colon, as JSON and YAML have it."""
    colons = [at for at, byte in enumerate(data) if byte == 0x3A]
    if not colons:
        return data
    start = random.choice(colons) + 1
    ends = [at for at in range(start, min(len(data), start + 200)) if data[at] in b",\n}]"]
    end = random.choice(ends[:3]) if ends else start
    return data[:start] + b" " + random.choice(TEXTS) + data[end:]


def _swap_lines(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    random.shuffle(lines)
    return b"\n".join(lines)


def _member_twice(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A member of an object again, with another value or in another case."""
    commas = [at for at, byte in enumerate(data) if byte == 0x2C]
    if len(commas) < 2:
        return data
    first = random.randrange(len(commas) - 1)
    member = data[commas[first] : commas[first + 1]]
    at = random.choice(commas)
    return data[:at] + random.choice((member, member.upper(), member.swapcase())) + data[at:]


_MUTATIONS: Final[tuple[_Mutation, ...]] = (
    _flip, _flip, _overwrite, _cut, _drop, _repeat, _splice, _say, _say, _lie, _lie, _renumber, _nest, _revalue,
    _revalue, _swap_lines, _member_twice,
)  # fmt: skip
