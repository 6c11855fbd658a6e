"""How the process logs: one line an event on standard error, with the thread, which is named after its actor."""

import logging
import sys
import time

from beehive.quiet import quieten_libraries

_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)-7s %(threadName)s %(name)s: %(message)s"
_TIME = "%Y-%m-%dT%H:%M:%S"


class _UtcFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)


def set_up(level: str) -> None:
    """Log to standard error from `level` (a name of the logging module, any case) upwards."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_UtcFormatter(_FORMAT, _TIME))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    quieten_libraries()
