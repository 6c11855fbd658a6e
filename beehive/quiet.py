"""Keeps what libraries say for their own makers out of a process's log.

`websockets` writes the ends of every frame at DEBUG, and `sqlalchemy` the parameters of each statement at INFO: bodies
of secrets. Nobody knows what the next library writes. So at whatever level a process logs, from libraries it logs
warnings and errors alone.
"""

import logging
from typing import Final

_OURS: Final = frozenset({"__main__", "beehive", "edged", "edgehub", "metamanager", "modules", "protos", "tests"})
"""Packages whose own messages are written at the level that was asked for."""

COSTLY: Final = ("grpc", "pykka", "sqlalchemy", "websockets")
"""Loggers of libraries that make the text of a message before they ask whether anybody wants it."""


def quieten_libraries() -> None:
    """Take from the handlers of the root logger what libraries say below WARNING. Call it when they are set up."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(is_for_us)
    for name in COSTLY:
        logging.getLogger(name).setLevel(logging.WARNING)


def is_for_us(record: logging.LogRecord) -> bool:
    """Whether a record is one of ours, or a warning of anybody."""
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] in _OURS
