"""The order of Events, the newest last."""

from typing import Final

from beehive.whole_numbers import whole_number
from modules.apimachinery.printing.ages import seconds_of
from modules.apimachinery.printing.fields import JsonObject, text_at

_LAST: Final = ("series.lastObservedTime", "lastTimestamp", "eventTime", "firstTimestamp", "metadata.creationTimestamp")


def last_time_of(event: JsonObject) -> str:
    """Return when an Event was last seen (RFC 3339); empty if it does not say."""
    return next((text for path in _LAST if (text := text_at(event, path))), "")


def event_order(event: JsonObject) -> tuple[float, int, str]:
    """Return the sort key of an Event: when it was last seen, mostly in whole seconds; then its resourceVersion, which
    counts on within a second; then its name, if no API server has numbered it yet.
    """
    version = whole_number(text_at(event, "metadata.resourceVersion")) or 0
    return seconds_of(last_time_of(event)) or 0.0, version, text_at(event, "metadata.name")
