"""Kubernetes quantities: amounts of CPU, memory and the like, with exact arithmetic.

On the wire a quantity is text (`100m`, `1.5Gi`, `2e3`) or a number. It is kept in that form, and parsed when a decision
needs its value: into a fraction, which does not round by itself, so that Kubernetes' only rounding (away from zero, to
the requested unit) happens in one place.
"""

import re
from fractions import Fraction
from functools import lru_cache

from modules.apimachinery.attempts import UnreadableError

Quantity = str | int | float
"""A quantity in its form on the wire."""

_NANO = Fraction(1, 10**9)
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES = {power: suffix for suffix, power in _DECIMAL.items()}
_SYNTAX = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,4})|(?P<suffix>[KMGTPE]i|[numkMGTPE])?)",
    re.ASCII,
)
_LARGEST_EXPONENT = 100
_LARGEST = Fraction(2**63 - 1)
_LONGEST = 100
_LEAST_BINARY = 1024


class QuantityError(UnreadableError):
    """The text is not a Kubernetes quantity."""


@lru_cache(maxsize=1024)
def parse_quantity(quantity: Quantity) -> Fraction:
    """Return the exact value of a quantity in base units (cores, bytes, counts). Raises QuantityError.

    As resource.ParseQuantity of Kubernetes: fractions of a billionth round away from zero, values above 2^63-1 are cut
    to it.
    """
    text = str(quantity)
    match = _SYNTAX.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError("cannot read the quantity", repr(text[:_LONGEST]), "examples: 500m, 2, 1.5Gi, 1e3")
    value = Fraction(match["number"].rstrip(".")) * _scale(match["exponent"], match["suffix"], text)
    nanos = value / _NANO
    if nanos.denominator != 1:
        value = _round_away(nanos) * _NANO
    return max(-_LARGEST, min(_LARGEST, value))


def whole_value(quantity: Quantity) -> int:
    """Return the value in whole base units, rounded away from zero (Kubernetes' Quantity.Value())."""
    return _round_away(parse_quantity(quantity))


def milli_value(quantity: Quantity) -> int:
    """Return the value in thousandths of the base unit, rounded away from zero (Quantity.MilliValue())."""
    return _round_away(parse_quantity(quantity) * 1000)


def format_quantity(value: Fraction | int) -> str:
    """Return the shortest decimal notation that Kubernetes would print for a value (`2`, `1500m`, `24k`), exact to a
    billionth.
    """
    number, power = _shortest(Fraction(value))
    return f"{number}{_SUFFIXES[power]}"


def _shortest(value: Fraction) -> tuple[int, int]:
    """Return the smallest whole number and the power of ten, a multiple of three from -9 to 18, of a value."""
    number, power = _round_away(value / _NANO), -9
    if number == 0:
        return 0, 0
    while power < _DECIMAL["E"] and number % 1000 == 0:
        number, power = number // 1000, power + 3
    return number, power


def format_binary_quantity(value: int) -> str:
    """Return a whole number of bytes with the largest binary suffix without loss (`24684092Ki`), as in node status."""
    suffix = ""
    for candidate in _BINARY:
        if value == 0 or value % 1024 != 0:
            break
        value //= 1024
        suffix = candidate
    return f"{value}{suffix}"


@lru_cache(maxsize=1024)
def canonical_quantity(quantity: Quantity) -> str:
    """Return a quantity as Kubernetes stores and prints it (Quantity.CanonicalizeBytes): `0.5` is `500m`, `1024Mi` is
    `1Gi`, `1000e3` is `1e6`; an unreadable one as it is.
    """
    text = str(quantity)
    try:
        value = parse_quantity(text)
    except QuantityError:
        return text
    if text.endswith("i") and value.denominator == 1 and abs(value) >= _LEAST_BINARY:
        return format_binary_quantity(int(value))
    is_exponent = "e" in text.lower() and not text.endswith(("E", "Ei"))
    number, power = _shortest(value)
    if is_exponent:
        return f"{number}e{power}" if power else str(number)
    return f"{number}{_SUFFIXES[power]}"


def _scale(exponent: str | None, suffix: str | None, text: str) -> Fraction:
    if exponent is not None:
        power = int(exponent)
        if abs(power) > _LARGEST_EXPONENT:
            raise QuantityError("cannot read the quantity", repr(text), f"exponents end at {_LARGEST_EXPONENT}")
        return Fraction(10) ** power
    if suffix in _BINARY:
        return Fraction(1024) ** _BINARY[suffix]
    return Fraction(10) ** _DECIMAL[suffix or ""]


def _round_away(value: Fraction) -> int:
    whole, rest = divmod(abs(value.numerator), value.denominator)
    rounded = whole + (1 if rest else 0)
    return rounded if value >= 0 else -rounded
