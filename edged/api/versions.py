"""resourceVersions as numbers, as KubeEdge's cloud compares them."""

from typing import Final

_DIGITS: Final = 20
"""Of the largest that there can be (an unsigned number of 64 bits)."""


def version_number(version: str) -> int:
    """A resourceVersion as a number; 0 for what is none, or is longer than any is."""
    return int(version) if version.isascii() and version.isdigit() and len(version) <= _DIGITS else 0
