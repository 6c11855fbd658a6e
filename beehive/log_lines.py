"""How a process writes its log: a line for each event that no foreign text can break, bound to a length, and not more
often than a person could read.

Nodes, pods, registries and clouds choose much of what is logged. So control characters in a message are shown escaped,
and a traceback, which keeps its lines, has them indented: neither can pretend to be a line of the log. What repeats
is counted instead of written: a line says how many more of its kind there were.
"""

import logging
from collections import OrderedDict
from typing import Final

from beehive.text import printable, printable_lines

LONGEST_LINE: Final = 2048
"""Characters of one message."""
LONGEST_TRACEBACK: Final = 16 * 1024
BURST: Final = {logging.DEBUG: 0, logging.INFO: 2000, logging.WARNING: 50}
"""Lines of one kind within `PERIOD`, by the level from which that holds; 0: any number."""
PERIOD: Final = 10.0
"""Seconds."""
_KINDS = 1024
"""Kinds that are counted at a time."""


class LineFormatter(logging.Formatter):
    """The standard formatter, whose messages are one line of bounded length and whose tracebacks are indented."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of one event."""
        bounded = logging.makeLogRecord(record.__dict__)
        bounded.msg, bounded.args = _cut(printable(record.getMessage()[: LONGEST_LINE + 1]), LONGEST_LINE), None
        bounded.exc_text = None
        return super().format(bounded)

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        """The traceback; what is too long loses its middle, since it begins and ends with what matters."""
        return _indented(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        """Likewise a stack."""
        return _indented(super().formatStack(stack_info))


class RateLimit(logging.Filter):
    """Lets a burst of each kind of line through; the first of the next period says how many were left out.

    A kind is a logger, a level and a message before its arguments are filled in. For handlers.
    """

    def __init__(self, burst: dict[int, int] | None = None) -> None:
        super().__init__()
        self._burst = sorted((BURST if burst is None else burst).items())
        self._counted: OrderedDict[tuple[str, int, str], tuple[float, int]] = OrderedDict()
        """When each kind's period began, and its lines since then."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
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
    """Make a handler the one of this process, from `level` (a name of the logging module, any case) upwards."""
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
