"""Keeps the debug lines of libraries out of a process's log.

`websockets` logs the ends of every frame at DEBUG, and `sqlalchemy` the parameters of each statement at INFO: these
hold bodies of secrets, and the lines of future libraries are unknown. So a process logs only warnings and errors of
libraries, at every log level.
"""

import logging
from typing import Final

_OURS: Final = frozenset({"__main__", "beehive", "edged", "edgehub", "metamanager", "modules", "protos", "tests"})
"""Packages whose messages are logged at the configured level."""

COSTLY: Final = ("grpc", "pykka", "sqlalchemy", "websockets")
"""Loggers of libraries that format a message before they check the level."""


def quieten_libraries() -> None:
    """Drop messages of libraries below WARNING from the root logger's handlers. Call it after these are set up."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(is_ours_or_warning)
    for name in COSTLY:
        logging.getLogger(name).setLevel(logging.WARNING)


def is_ours_or_warning(record: logging.LogRecord) -> bool:
    """Return whether a record is of this project, or is at least a warning."""
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] in _OURS
