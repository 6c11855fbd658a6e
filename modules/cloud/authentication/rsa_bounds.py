"""Bounds of RSA keys that others choose: a check of a signature takes the square of a key's size, and the logarithm of
its exponent.
"""

from typing import Final

LEAST_BITS: Final = 2048
MOST_BITS: Final = 4096
_LARGEST_EXPONENT: Final = 2**31 - 1


def is_within_bounds(modulus_bits: int, exponent: int) -> bool:
    """Return whether a key is neither weak nor expensive."""
    return LEAST_BITS <= modulus_bits <= MOST_BITS and exponent <= _LARGEST_EXPONENT
