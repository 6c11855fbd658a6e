"""Resource quantities (`500m`, `64Mi`, `1e3`) as exact numbers, as far as the stub compares them."""

from fractions import Fraction

_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}


def quantity(value: str | float) -> Fraction:
    """The number that a quantity stands for.

    Raises:
        ValueError: the text is not a quantity.
    """
    text = str(value)
    number = text.rstrip("numkKMGTPEi")
    try:
        return Fraction(number) * _SUFFIXES[text[len(number) :]]
    except (KeyError, ZeroDivisionError, ValueError) as error:
        raise ValueError(f"{text[:50]!r} is not a quantity such as 500m or 64Mi") from error
