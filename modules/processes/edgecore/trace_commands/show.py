"""The command `edgecore trace show`: prints a line for each matching record while the trace is read.

Lines go to standard output; progress on long files and errors go to standard error.
"""

import argparse
import os
import sys
from typing import Final

from beehive import BeehiveError
from beehive.trace import TraceReader, read
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.trace_commands.lines import json_line, text_line
from modules.processes.edgecore.trace_commands.selection import Filter, seconds_of
from modules.tools.printing.terminal import print_error, print_json, print_lines

LONG: Final = 16 * 1024 * 1024
"""Bytes of a trace above which progress is shown on a terminal."""

_STEP: Final = 20_000
"""Records between two updates of the progress."""


def show(chosen: argparse.Namespace) -> int:
    """Print the trace."""
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
        if not wanted.matches(record):
            continue
        progress.clear()
        if chosen.json:
            print_json(json_line(record, began, trace.traceparent(record)))
        else:
            print_lines([text_line(record, began, colour=colour)], colours=colour, flush=False)
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
    """Whether to use colours; NO_COLOR as in https://no-color.org."""
    return wish == "always" or (wish == "auto" and sys.stdout.isatty() and not os.environ.get("NO_COLOR"))


class _Progress:
    """Shows on a terminal how much of a long trace has been read."""

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


def _say(text: str) -> None:
    print_error("edgecore", text)
