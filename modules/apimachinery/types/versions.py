"""resourceVersions as numbers, as KubeEdge's cloud compares them."""

from typing import Final

from beehive.whole_numbers import whole_number
from modules.apimachinery.types.meta import ObjectMeta

_DIGITS: Final = 20
"""Digits of the largest unsigned number of 64 bits."""


def version_number(version: str) -> int:
    """Return a resourceVersion as a number; 0 for a text that is not a decimal number of at most 20 digits."""
    return whole_number(version, _DIGITS) or 0


def order_of_making(metadata: ObjectMeta) -> tuple[str, int]:
    """Return the sort key of objects that have had one name after each other: the creationTimestamp has whole seconds,
    so that the resourceVersion decides between objects of one second.
    """
    return metadata.creation_timestamp or "", version_number(metadata.resource_version)
