"""Options of a request for a log: `v1.PodLogOptions`, read and validated as in Kubernetes (`ValidatePodLogOptions`)."""

from collections.abc import Sequence
from typing import Final

import msgspec

from beehive.http.request import Request
from modules.apimachinery.attempts import UnreadableError
from modules.apimachinery.go_json import int64_error
from modules.apimachinery.go_values import time_error
from modules.apimachinery.types import Nanoseconds, parse_time
from modules.apimachinery.types.times import SECOND, TimeError

_SHOWN: Final = 40
_STREAMS: Final = {"": ("stdout", "stderr"), "All": ("stdout", "stderr"), "Stdout": ("stdout",), "Stderr": ("stderr",)}


class LogOptionError(UnreadableError):
    """An option of a request for a log that cannot be read."""

    def __init__(self, name: str, why: str) -> None:
        self.why = why
        super().__init__("the option cannot be read", name, why)


class InvalidLogOptionsError(UnreadableError):
    """Options of a request for a log that have values which none has."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.why = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
        super().__init__("the options are not valid", "PodLogOptions", self.why)


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


def log_options(query: Request, now: Nanoseconds) -> LogOptions:
    """Return the options of a request.

    Raises:
        LogOptionError: an option cannot be read.
        InvalidLogOptionsError: an option has a value that it may not have.
    """
    tail, limit, seconds = (_number(query, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    since, stream = _time(query), query.first("stream")
    faults = []
    if tail is not None and tail < 0:
        faults.append(f"tailLines: Invalid value: {tail}: must be greater than or equal to 0")
    if limit is not None and limit < 1:
        faults.append(f"limitBytes: Invalid value: {limit}: must be greater than 0")
    if seconds is not None and since is not None:
        faults.append("[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified")
    elif seconds is not None and seconds < 1:
        faults.append(f"sinceSeconds: Invalid value: {seconds}: must be greater than 0")
    if stream not in _STREAMS:
        faults.append(f'stream: Unsupported value: "{stream[:_SHOWN]}": supported values: "All", "Stderr", "Stdout"')
    elif stream in ("Stdout", "Stderr") and tail is not None:
        faults.append("tailLines: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now")
    if faults:
        raise InvalidLogOptionsError(faults)
    return LogOptions(
        follow=query.flag("follow"),
        previous=query.flag("previous"),
        timestamps=query.flag("timestamps"),
        tail=tail,
        since=since if seconds is None else Nanoseconds(now - seconds * SECOND),
        limit=limit,
        streams=_STREAMS[stream],
    )


def _time(query: Request) -> Nanoseconds | None:
    text = query.first("sinceTime")
    try:
        return parse_time(text) if text else None
    except TimeError:
        shown = text[:_SHOWN]
        why = time_error(shown) or f'parsing time "{shown}" as "2006-01-02T15:04:05Z07:00": it is no such time'
        raise LogOptionError("sinceTime", why) from None


def _number(query: Request, name: str) -> int | None:
    text = next(iter(query.all(name)), None)
    if text is None:
        return None
    if why := int64_error(text):
        raise LogOptionError(name, why)
    return int(text)
