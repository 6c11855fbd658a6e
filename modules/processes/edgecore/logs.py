"""Logging of the process: one line for each event on standard error, with the thread, which is named after its
actor.
"""

import logging
import sys
import time

from beehive import log_lines
from beehive.library_logging import quieten_libraries
from beehive.log_lines import JsonFormatter, LineFormatter, LogFormat

_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)-7s %(threadName)s %(name)s: %(message)s"
_TIME = "%Y-%m-%dT%H:%M:%S"


class _UtcFormatter(LineFormatter):
    converter = staticmethod(time.gmtime)


def set_up(level: str, form: LogFormat = LogFormat.TEXT, node: str = "") -> None:
    """Log to standard error from `level` (a name of the logging module in any case) upwards; `node` is this node's
    name.
    """
    formatter = JsonFormatter(node) if form is LogFormat.JSON else _UtcFormatter(_FORMAT, _TIME)
    log_lines.set_up(logging.StreamHandler(sys.stderr), level, formatter)
    quieten_libraries()
