"""How the process logs: one line an event on standard error, with the thread, which is named after its actor."""

import logging
import sys
import time

from beehive import log_lines
from beehive.log_lines import LineFormatter
from beehive.quiet import quieten_libraries

_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)-7s %(threadName)s %(name)s: %(message)s"
_TIME = "%Y-%m-%dT%H:%M:%S"


class _UtcFormatter(LineFormatter):
    converter = staticmethod(time.gmtime)


def set_up(level: str) -> None:
    """Log to standard error from `level` (a name of the logging module, any case) upwards."""
    log_lines.set_up(logging.StreamHandler(sys.stderr), level, _UtcFormatter(_FORMAT, _TIME))
    quieten_libraries()
