"""The log of a process: one line for each event, of bounded length and rate, safe against text from outside.

Nodes, pods, registries and clouds choose much of the text in a log. So control characters in a message are escaped, and
the lines of a traceback are indented: neither can forge a line of the log. Lines of one kind beyond a rate are counted,
and a later line of that kind gives the number.
"""

import logging
from collections import OrderedDict
from typing import Final

from beehive.printable import printable, printable_lines

LONGEST_LINE: Final = 2048
"""Characters that one message may have."""
LONGEST_TRACEBACK: Final = 16 * 1024
BURST: Final = {logging.DEBUG: 0, logging.INFO: 2000, logging.WARNING: 50}
"""Lines of one kind that are logged within `PERIOD`, by the lowest level that it applies to; 0 is unlimited."""
PERIOD: Final = 10.0
"""Seconds in which the lines of a kind are counted."""
_KINDS = 1024
"""Kinds that are counted at a time; the one that was not logged for the longest time is forgotten first."""


class LineFormatter(logging.Formatter):
    """The standard formatter, with messages of one line of bounded length, and indented tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of one event."""
        bounded = logging.makeLogRecord(record.__dict__)
        bounded.msg, bounded.args = _cut(printable(record.getMessage()[: LONGEST_LINE + 1]), LONGEST_LINE), None
        bounded.exc_text = None
        return super().format(bounded)

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        """Return the traceback; a long one loses its middle, since its beginning and end matter most."""
        return _indented(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        """Return the stack, cut and indented as a traceback is."""
        return _indented(super().formatStack(stack_info))


class RateLimit(logging.Filter):
    """A filter for handlers that lets a burst of each kind of line through in each period.

    A kind is a logger, a level and a message before its arguments are filled in. The first line of the next period says
    how many were suppressed.
    """

    def __init__(self, burst: dict[int, int] | None = None) -> None:
        super().__init__()
        self._burst = sorted((BURST if burst is None else burst).items())
        self._counted: OrderedDict[tuple[str, int, str], tuple[float, int]] = OrderedDict()
        """When each kind's period began, in seconds since the Unix epoch, and its lines since then."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is logged."""
        burst = next((lines for level, lines in reversed(self._burst) if record.levelno >= level), 0)
        if not burst:
            return True
        kind = (record.name, record.levelno, str(record.msg)[:200])
        began, lines = self._counted.pop(kind, (record.created, 0))
        left_out = 0
        if not 0 <= record.created - began < PERIOD:
            began, lines, left_out = record.created, 0, max(0, lines - burst)
        self._counted[kind] = began, lines + 1
        if len(self._counted) > _KINDS:
            self._counted.popitem(last=False)
        if left_out:
            record.msg, record.args = f"{record.getMessage()[:LONGEST_LINE]} ({left_out} more suppressed)", None
        return lines < burst


def set_up(handler: logging.Handler, level: str, formatter: LineFormatter) -> None:
    """Make `handler` the only one of this process, from `level` (a name of the logging module, in any case) upwards."""
    handler.setFormatter(formatter)
    handler.addFilter(RateLimit())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."


def _indented(text: str) -> str:
    if len(text) > LONGEST_TRACEBACK:
        half = LONGEST_TRACEBACK // 2
        text = f"{text[:half]}\n...\n{text[-half:]}"
    return "\n".join(f"  {line}" for line in printable_lines(text).splitlines())
