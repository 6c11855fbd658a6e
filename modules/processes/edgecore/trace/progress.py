"""The line on a terminal that shows how much of a long trace has been read."""

import sys
from typing import Final

from beehive.trace.reader import TraceReader

LONG: Final = 16 * 1024 * 1024
"""Bytes of a trace above which progress is shown."""
_STEP: Final = 20_000
"""Records between two updates."""


class Progress:
    """The progress of reading one trace.

    Args:
        trace: the reader.
    """

    def __init__(self, trace: TraceReader) -> None:
        self._trace = trace
        self._wanted = sys.stderr.isatty() and trace.size >= LONG
        self._steps = 0
        self._shown = False

    def step(self) -> None:
        """Count a record."""
        self._steps += 1
        if self._wanted and self._steps % _STEP == 0:
            done, size = self._trace.done, self._trace.size
            sys.stderr.write(f"\r\x1b[K{done / 1e6:,.0f} of {size / 1e6:,.0f} MB ({done / size:.0%})")
            sys.stderr.flush()
            self._shown = True

    def clear(self) -> None:
        """Remove the progress, to make room for a line of output."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False
