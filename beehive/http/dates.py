"""Dates in the headers of HTTP (RFC 9110, section 5.6.7)."""

from email.utils import parsedate_to_datetime


def seconds_of_date(text: str | None) -> float | None:
    """Return a date in seconds since the Unix epoch; None without one, or if it cannot be read."""
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, OverflowError):
        return None
