"""The past of a device's property, as the page shows it."""

from collections.abc import Sequence

import msgspec

from modules.cloud.device_values import NO_VALUES, ValueList
from modules.cloud.messages import LinkSession
from modules.insight.fleet.rows import gaps_of


class PropertyHistory(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/history/NAMESPACE/DEVICE/PROPERTY`."""

    values: Sequence[tuple[float, str]]
    """When a value was reported, in seconds since 1970 by its node's clock, and the value; oldest first."""
    kept: str
    """Which values are kept, in words."""
    now: float
    gaps: Sequence[tuple[float, float]] = ()
    """When the node was not connected, so that nothing could be reported; 0 for an end that has not come."""


def history_in_cloud(found: ValueList, sessions: Sequence[LinkSession], now: float) -> PropertyHistory:
    """Return the history of a property as cloudcore knows it.

    Args:
        found: the values.
        sessions: the link journal of the node that has reported them.
        now: seconds since 1970.
    """
    values = [(each.at, each.value) for each in found.values]
    kept = f"cloudcore keeps the last {found.most:,} values of seven days." if found.most else NO_VALUES
    periods = [(each.began, each.ended) for each in sessions]
    gaps = gaps_of(periods, now, now - values[0][0]) if values else ()
    return PropertyHistory(values, kept, now, gaps)
