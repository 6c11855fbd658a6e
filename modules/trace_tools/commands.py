"""The commands `edgecore trace explain`, `export` and `view`. Their arguments are `modules.edgecore`'s.

Results go to standard output or to the file that is named; what is said about them goes to standard error.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from beehive import BeehiveError
from beehive.trace import Record, TraceReader, read
from modules.edgecore.exit_codes import ExitCode
from modules.printing.terminal import complain, say_json, say_lines
from modules.trace_tools.columns import Facts, pack
from modules.trace_tools.diagnosis import State, diagnose
from modules.trace_tools.event import Event
from modules.trace_tools.events import events_of
from modules.trace_tools.gather import Story, gather
from modules.trace_tools.mermaid import ARROWS, mermaid
from modules.trace_tools.names import named
from modules.trace_tools.page import page
from modules.trace_tools.perfetto import perfetto
from modules.trace_tools.target import Target
from modules.trace_tools.telling import lines, tell

SHOWN_FROM: Final = 16 * 1024 * 1024
"""Bytes of a trace from which on progress is shown."""
STEP: Final = 20_000
MOST: Final = 1_000_000
"""Events that a page takes; more are not to be looked at, and a browser would not hold them."""


class TooLongError(BeehiveError):
    """There is more in the trace than can be shown."""


class NotThereError(BeehiveError):
    """The trace has nothing of the object that is to be shown."""


def explain(chosen: argparse.Namespace) -> int:
    """Prints the story of one object. Exit status 2 when the trace does not know it."""
    return _guarded(lambda: _explain(chosen))


def export(chosen: argparse.Namespace) -> int:
    """Writes the trace in another program's form."""
    return _guarded(lambda: _export(chosen))


def view(chosen: argparse.Namespace) -> int:
    """Writes the trace as one HTML page."""
    return _guarded(lambda: _view(chosen))


def _guarded(command: Callable[[], int]) -> int:
    try:
        return command()
    except BrokenPipeError:
        raise
    except (BeehiveError, OSError) as error:
        _say(f"error: {error}")
        return ExitCode.USAGE


def _explain(chosen: argparse.Namespace) -> int:
    target = Target.parse(chosen.kind, chosen.name)
    story = gather(lambda: _events(chosen.file), target)
    with read(chosen.file) as trace:
        began = trace.header.began
    diagnosis = diagnose(story)
    telling = tell(story, diagnosis, began, everything=chosen.all)
    if chosen.json:
        say_json(telling)
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        say_lines(lines(telling, colour=colour), colours=colour)
    return ExitCode.USAGE if diagnosis.state is State.UNKNOWN else ExitCode.OK


def _export(chosen: argparse.Namespace) -> int:
    with read(chosen.file) as trace:
        node, began = trace.header.node, trace.header.began
    events = _chosen(chosen)
    if chosen.perfetto:
        return _write(chosen.output, perfetto(events, node, began))
    ordered = sorted(events, key=lambda event: (event.sent, event.taken))
    return _write(chosen.output, (f"{line}\n".encode() for line in mermaid(ordered, chosen.limit or ARROWS)))


def _view(chosen: argparse.Namespace) -> int:
    with read(chosen.file) as trace:
        header = trace.header
    title = str(chosen.object or chosen.file.name)
    facts = Facts(title=title, node=header.node, program=header.program, began=header.began)
    events = iter(_chosen(chosen))
    packed = pack(islice(events, MOST), facts)
    if next(events, None) is not None:
        hint = "narrow it down with --object, --from and --to"
        raise TooLongError("cannot show the trace", f"{chosen.file} has more than {MOST} events", hint)
    output = chosen.output or Path(f"{chosen.file.name}.html")
    status = _write(output, (piece.encode() for piece in page(packed)))
    _say(f"{output}: {packed.count} events, {output.stat().st_size / 1e6:.1f} MB; open it in a browser")
    return status


def _chosen(chosen: argparse.Namespace) -> Iterable[Event]:
    """The events that are asked for: all or those of one object's story, within a span of time."""
    if chosen.object is None:
        found: Iterable[Event] = _events(chosen.file)
    else:
        kind, _, name = chosen.object.partition(" ")
        found = _story_of(chosen.file, Target.parse(kind, name)).events
    begin, end = chosen.begin, chosen.end
    return (
        event for event in named(found) if (begin is None or event.end >= begin) and (end is None or event.sent <= end)
    )


def _story_of(path: Path, target: Target) -> Story:
    """The story of an object that is in the trace.

    Raises:
        NotThereError: there is nothing of it.
    """
    story = gather(lambda: _events(path), target)
    diagnosis = diagnose(story)
    if diagnosis.state is State.UNKNOWN:
        raise NotThereError("cannot show the object", f"{target} is not in the trace", diagnosis.why)
    return story


def _events(path: Path) -> Iterator[Event]:
    """The events of a trace, with a word on what is wrong with it and progress on a terminal."""
    with read(path) as trace:
        yield from events_of(_watched(trace))
        if trace.damage:
            _say(f"the trace ends early: {trace.damage}")


def _watched(trace: TraceReader) -> Iterator[Record]:
    """The records; on a terminal one sees how far they are read."""
    shown = sys.stderr.isatty() and trace.size > SHOWN_FROM
    for number, record in enumerate(trace):
        if shown and number % STEP == 0:
            sys.stderr.write(f"\redgecore: reading, {trace.done * 100 // trace.size} % ")
        yield record
    if shown:
        sys.stderr.write("\r\x1b[K")


def _write(output: Path | None, pieces: Iterable[bytes]) -> int:
    if output is None:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        return ExitCode.OK
    with output.open("wb") as file:
        file.writelines(pieces)
    return ExitCode.OK


def _say(text: str) -> None:
    complain("edgecore", text)
