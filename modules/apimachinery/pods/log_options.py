"""Options of a request for a log: `v1.PodLogOptions`, validated as in Kubernetes."""

from typing import Final, Protocol

import msgspec

from modules.apimachinery.attempts import UnreadableError
from modules.apimachinery.types import Nanoseconds, parse_time
from modules.apimachinery.types.times import SECOND, TimeError

_WHOLE = 18
_STREAMS: Final = {"": ("stdout", "stderr"), "All": ("stdout", "stderr"), "Stdout": ("stdout",), "Stderr": ("stderr",)}


class LogOptionError(UnreadableError):
    """An invalid option of a request for a log."""


class Query(Protocol):
    """The query of a request."""

    def first(self, name: str) -> str:
        """Return the first value of a field; empty without one."""

    def flag(self, name: str) -> bool:
        """Return whether a switch is on."""


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a log to show."""

    follow: bool = False
    """Continue until the container ends."""
    previous: bool = False
    """Show the previous container's log."""
    timestamps: bool = False
    """Begin each line with the time when it was written."""
    tail: int | None = None
    """Show only so many lines from the end."""
    since: Nanoseconds | None = None
    """Show only lines written then or later."""
    limit: int | None = None
    """Stop after so many bytes."""
    streams: tuple[str, ...] = ("stdout", "stderr")


def log_options(query: Query, now: Nanoseconds) -> LogOptions:
    """Return the options of a request.

    Raises:
        LogOptionError: an option is invalid.
    """
    if query.first("sinceSeconds") and query.first("sinceTime"):
        raise _invalid("sinceTime", "at most one of sinceTime and sinceSeconds")
    if query.first("stream") in ("Stdout", "Stderr") and query.first("tailLines"):
        raise _invalid("tailLines", "not together with one stream")
    if query.first("stream") not in _STREAMS:
        raise _invalid("stream", "All, Stdout or Stderr")
    return LogOptions(
        follow=query.flag("follow"),
        previous=query.flag("previous"),
        timestamps=query.flag("timestamps"),
        tail=_number(query, "tailLines", 0),
        since=_since(query, now),
        limit=_number(query, "limitBytes", 1),
        streams=_STREAMS[query.first("stream")],
    )


def _since(query: Query, now: Nanoseconds) -> Nanoseconds | None:
    seconds = _number(query, "sinceSeconds", 1)
    if seconds is not None:
        return Nanoseconds(now - seconds * SECOND)
    text = query.first("sinceTime")
    try:
        return parse_time(text) if text else None
    except TimeError:
        raise _invalid("sinceTime", "a time as 2026-11-20T01:54:50Z") from None


def _number(query: Query, name: str, least: int) -> int | None:
    text = query.first(name)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _WHOLE) or int(text) < least:
        raise _invalid(name, f"a number from {least} on")
    return int(text)


def _invalid(name: str, wanted: str) -> LogOptionError:
    return LogOptionError("the option is not valid", name, f"wanted is {wanted}")
