"""Logging of the process: one line for each event on standard error, with the thread, which is named after its
actor.
"""

import logging
import sys

from beehive import log_lines
from beehive.log_lines import JsonFormatter, LogFormat, TimedFormatter, quieten_libraries

_FIELDS = "%(levelname)-7s %(threadName)s %(name)s: %(message)s"


def print_remark(text: str, form: str) -> None:
    """Print a remark beside the log, in the form of its lines (`text` or `json`)."""
    if form == LogFormat.JSON:
        print_remark_as_json(text)
    else:
        sys.stderr.write(f"edgecore: {text.removeprefix('error: ')}\n")


def print_remark_as_json(text: str) -> None:
    """Print a remark as a line of a log in JSON; `error: ` or `warning: ` before it is its level."""
    begin, colon, rest = text.partition(": ")
    level = logging.getLevelNamesMapping().get(begin.upper()) if colon else None
    message = text if level is None else rest
    record = logging.makeLogRecord({"name": "edgecore", "msg": message, "levelno": level or logging.INFO})
    record.levelname = logging.getLevelName(record.levelno)
    sys.stderr.write(f"{JsonFormatter().format(record)}\n")


def set_up(level: str, form: str = LogFormat.TEXT, node: str = "") -> None:
    """Log to standard error.

    Args:
        level: least severe level that is logged, a name of the logging module in any case.
        form: `text` or `json`.
        node: this node's name.
    """
    formatter = JsonFormatter(node) if form == LogFormat.JSON else TimedFormatter(_FIELDS)
    log_lines.set_up(logging.StreamHandler(sys.stderr), level, formatter)
    quieten_libraries()
