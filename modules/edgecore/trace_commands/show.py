"""`edgecore trace show`: one line for each record that the filters want, as the trace is read.

Lines go to standard output, everything said about them to standard error: progress on long files, and what could not
be read.
"""

import argparse
import os
import sys
from typing import Final

from beehive import BeehiveError
from beehive.trace import TraceReader, read
from modules.edgecore.exit_codes import ExitCode
from modules.edgecore.trace_commands.lines import json_line, text_line
from modules.edgecore.trace_commands.selection import Filter, seconds_of
from modules.printing.terminal import complain, say_json, say_lines

LONG: Final = 16 * 1024 * 1024
"""Bytes of a trace from which on progress is shown on a terminal."""

_STEP: Final = 20_000
"""Records between two looks at the progress."""


def show(chosen: argparse.Namespace) -> int:
    """Prints the trace."""
    try:
        with read(chosen.file) as trace:
            _show(trace, _filter(chosen, trace.header.began), chosen)
    except BrokenPipeError:
        raise
    except (BeehiveError, OSError) as error:
        _say(f"error: {error}")
        return ExitCode.USAGE
    return ExitCode.OK


def _show(trace: TraceReader, wanted: Filter, chosen: argparse.Namespace) -> None:
    began, colour = trace.header.began, _colour(chosen.color)
    progress = _Progress(trace)
    for record in trace:
        progress.step()
        if not wanted.wants(record):
            continue
        progress.clear()
        if chosen.json:
            say_json(json_line(record, began, trace.traceparent(record)))
        else:
            say_lines([text_line(record, began, colour=colour)], colours=colour, flush=False)
    progress.clear()
    sys.stdout.flush()
    if trace.skipped:
        _say(f"{trace.skipped} records are of kinds that this version does not know")
    if trace.damage:
        _say(f"the trace ends early: {trace.damage}")


def _filter(chosen: argparse.Namespace, began: float) -> Filter:
    return Filter(
        module=chosen.module or "",
        resource=chosen.resource or "",
        operation=chosen.operation or "",
        id=chosen.id or "",
        begin=seconds_of(chosen.begin, began) if chosen.begin else float("-inf"),
        end=seconds_of(chosen.end, began) if chosen.end else float("inf"),
        kinds=frozenset(chosen.only or ()),
    )


def _colour(wish: str) -> bool:
    """NO_COLOR as https://no-color.org has it."""
    return wish == "always" or (wish == "auto" and sys.stdout.isatty() and not os.environ.get("NO_COLOR"))


class _Progress:
    """How much of a long trace has been read, on a terminal and only there."""

    def __init__(self, trace: TraceReader) -> None:
        self._trace = trace
        self._wanted = sys.stderr.isatty() and trace.size >= LONG
        self._steps = 0
        self._shown = False

    def step(self) -> None:
        """One more record."""
        self._steps += 1
        if self._wanted and self._steps % _STEP == 0:
            done, size = self._trace.done, self._trace.size
            sys.stderr.write(f"\r\x1b[K{done / 1e6:,.0f} of {size / 1e6:,.0f} MB ({done / size:.0%})")
            sys.stderr.flush()
            self._shown = True

    def clear(self) -> None:
        """Make room for a line of the result."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False


def _say(text: str) -> None:
    complain("edgecore", text)
