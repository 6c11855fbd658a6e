"""The log of a process: one line for each event, of bounded length and rate, safe against text from outside.

A line is text, or a JSON object (`JsonFormatter`).

Nodes, pods, registries and clouds choose much of the text in a log. So control characters in a message are escaped, and
the lines of a traceback are indented: neither can forge a line of the log. Lines of one kind beyond a rate are counted,
and so are identical lines; a later line gives the number.
"""

import errno
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from enum import StrEnum
from types import TracebackType
from typing import Final, Protocol, runtime_checkable

from beehive.printable import printable, printable_lines

LONGEST_LINE: Final = 2048
"""Characters that one message may have."""
LONGEST_TRACEBACK: Final = 16 * 1024
BURST: Final = {logging.DEBUG: 0, logging.INFO: 2000, logging.WARNING: 50}
"""Lines of one kind that are logged within `PERIOD`, by the lowest level that it applies to; 0 is unlimited."""
PERIOD: Final = 10.0
"""Seconds during which the lines of a kind are counted."""
SAME_BURST: Final = 5
"""Identical lines that are logged within `SAME_PERIOD`."""
SAME_PERIOD: Final = 60.0
"""Seconds during which identical lines are counted."""
_MACHINE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_DATABASE: Final = ("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_NOMEM")
_LONGEST_CHAIN = 8
_KINDS = 1024
"""Kinds that are counted at a time; the least recently logged kind is forgotten first."""
_FIELDS: Final = ("pod", "uid", "container", "node")
"""Fields of a JSON line that a caller may set with `extra`."""


_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


class LogFormat(StrEnum):
    """Form of the lines of a log."""

    TEXT = "text"
    JSON = "json"


@runtime_checkable
class HasLogFields(Protocol):
    """An argument of a message that is also fields of a JSON line, such as a pod."""

    def log_fields(self) -> Mapping[str, str]:
        """Return the fields by their names."""


class LineFormatter(logging.Formatter):
    """The standard formatter, with messages of one line of bounded length, and indented tracebacks.

    An exception whose cause is the machine, such as a full disk, has its text in the message and no traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of one event."""
        bounded = logging.makeLogRecord(record.__dict__)
        message, bounded.exc_info = _message_of(record)
        bounded.msg, bounded.args = _cut(printable(message[: LONGEST_LINE + 1]), LONGEST_LINE), None
        bounded.exc_text = None
        return super().format(bounded)

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        """Return the traceback; a long one loses its middle, since its beginning and end matter most."""
        return _indented(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        """Return the stack, cut and indented as a traceback is."""
        return _indented(super().formatStack(stack_info))


class TimedFormatter(LineFormatter):
    """The line formatter with the time before each event: UTC, in RFC 3339 with milliseconds.

    Args:
        fields: the rest of the line, in logging's form with `%`.
    """

    converter = staticmethod(time.gmtime)

    def __init__(self, fields: str) -> None:
        super().__init__(f"%(asctime)s.%(msecs)03dZ {fields}", "%Y-%m-%dT%H:%M:%S")


class JsonFormatter(LineFormatter):
    """A formatter that makes each event a JSON object on one line, in ASCII.

    Keys: `ts` (RFC 3339, milliseconds, UTC), `level`, `logger`, `msg`; where they are known `module` (of the bus),
    `node`, `pod` (namespace/name), `uid` (of the pod) and `container`; with an exception `exception`, its traceback.

    Args:
        node: name of this node, for a process that is one.
    """

    converter = staticmethod(time.gmtime)

    def __init__(self, node: str = "") -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        """Return the object of one event."""
        message, exception = _message_of(record)
        line = {
            "ts": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": _cut(message[: LONGEST_LINE + 1], LONGEST_LINE),
        }
        line.update(self._fields(record))
        if exception is not None:
            line["exception"] = _shortened(logging.Formatter.formatException(self, exception))
        return json.dumps(line)

    def _fields(self, record: logging.LogRecord) -> Iterator[tuple[str, str]]:
        if record.threadName and record.threadName != "MainThread":
            yield "module", record.threadName.partition("/")[0]
        if self._node:
            yield "node", self._node
        if isinstance(record.args, tuple):
            for argument in record.args:
                if isinstance(argument, HasLogFields):
                    yield from argument.log_fields().items()
        for name in _FIELDS:
            if value := getattr(record, name, ""):
                yield name, _cut(str(value), LONGEST_LINE)


class _Counter:
    """A count of lines by a key, in periods."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._counted: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()
        """When each key's period began, in seconds since the Unix epoch, and its lines since then."""

    def count(self, key: Hashable, burst: int, now: float) -> tuple[bool, int]:
        """Count a line; return whether it is within the burst, and how many were suppressed in the last period."""
        began, lines = self._counted.pop(key, (now, 0))
        left_out = 0
        if not 0 <= now - began < self._period:
            began, lines, left_out = now, 0, max(0, lines - burst)
        self._counted[key] = began, lines + 1
        if len(self._counted) > _KINDS:
            self._counted.popitem(last=False)
        return lines < burst, left_out


class RateLimit(logging.Filter):
    """A filter for handlers that lets a burst of each kind of line through in each period, and few identical ones.

    A kind is a logger, a level and a message before its arguments are filled in. The first line of the next period has
    the number of suppressed ones.
    """

    def __init__(self, burst: dict[int, int] | None = None) -> None:
        super().__init__()
        self._burst = sorted((BURST if burst is None else burst).items())
        self._kinds, self._same = _Counter(PERIOD), _Counter(SAME_PERIOD)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is logged."""
        burst = next((lines for level, lines in reversed(self._burst) if record.levelno >= level), 0)
        if not burst:
            return True
        where, now = (record.name, record.levelno), record.created
        is_new, same_left_out = self._same.count((*where, record.getMessage()[:LONGEST_LINE]), SAME_BURST, now)
        if not is_new:
            return False
        admitted, left_out = self._kinds.count((*where, str(record.msg)[:200]), burst, now)
        if left_out or same_left_out:
            _append_suppressed(record, left_out + same_left_out)
        return admitted


def _append_suppressed(record: logging.LogRecord, lines: int) -> None:
    if isinstance(record.args, tuple) and record.args:
        record.msg, record.args = f"{record.msg} (%d more suppressed)", (*record.args, lines)
    else:
        record.msg, record.args = f"{record.getMessage()[:LONGEST_LINE]} ({lines} more suppressed)", None


def set_up(handler: logging.Handler, level: str, formatter: LineFormatter) -> None:
    """Make `handler` the only one of this process, from `level` (a name of the logging module, in any case) upwards."""
    vars(logging)["logAsyncioTasks"] = False  # from Python 3.12 on: a record would ask, and load, asyncio
    handler.setFormatter(formatter)
    handler.addFilter(RateLimit())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _message_of(record: logging.LogRecord) -> tuple[str, _ExcInfo | None]:
    """Return the message and the exception whose traceback is to be shown."""
    message, exception = record.getMessage(), record.exc_info
    if not exception or exception[0] is None:
        return message, None
    problem = machine_problem(exception[1])
    return (message, exception) if problem is None else (f"{message}: {problem}", None)


def machine_problem(error: BaseException | None) -> str | None:
    """Return which resource the machine has refused, if that caused an exception: disk space, write access, open files
    or memory.
    """
    for _ in range(_LONGEST_CHAIN):
        if error is None:
            return None
        if isinstance(error, OSError) and error.errno in _MACHINE:
            return f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
        if str(getattr(error, "sqlite_errorname", "")).startswith(_DATABASE):
            return str(error)
        error = error.__cause__
    return None


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in printable_lines(_shortened(text)).splitlines())


def _shortened(text: str) -> str:
    half = LONGEST_TRACEBACK // 2
    return text if len(text) <= LONGEST_TRACEBACK else f"{text[:half]}\n...\n{text[-half:]}"


_OURS: Final = frozenset(
    {"__main__", "beehive", "edgecore_mapper", "edged", "edgehub", "metamanager", "modules", "protos", "tests"}
)
"""Packages whose messages are logged at the configured level."""

COSTLY: Final = ("grpc", "pykka", "sqlalchemy", "websockets")
"""Loggers of libraries that format a message before they check the level."""


def quieten_libraries() -> None:
    """Drop messages of libraries below WARNING from the root logger's handlers. Call it after these are set up.

    `websockets` logs the ends of every frame at DEBUG, and `sqlalchemy` the parameters of each statement at INFO: these
    hold bodies of secrets, and the lines of future libraries are unknown.
    """
    for handler in logging.getLogger().handlers:
        handler.addFilter(is_ours_or_warning)
    for name in COSTLY:
        logging.getLogger(name).setLevel(logging.WARNING)


def is_ours_or_warning(record: logging.LogRecord) -> bool:
    """Return whether a record is of this project, or is at least a warning."""
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] in _OURS
