"""The history of a device's property, as a page draws it."""

from collections.abc import Sequence

import msgspec


class PropertyHistory(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/history/NAMESPACE/DEVICE/PROPERTY`."""

    values: Sequence[tuple[float, str]]
    """When a value was reported, in seconds since 1970 by its node's clock, and the value; oldest first."""
    kept: str
    """Which values are kept, in words."""
    now: float
