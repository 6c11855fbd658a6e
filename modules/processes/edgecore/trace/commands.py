"""The commands `edgecore trace explain`, `export` and `view`; `modules.processes.edgecore` parses their arguments.

Results go to standard output or to a file, remarks and progress to standard error.
"""

import argparse
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from beehive.errors import TraceError
from beehive.trace import Record
from beehive.trace.reader import TraceReader, read
from modules.apimachinery.printing.terminal import print_json, print_lines
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.reporting import print_remark, reporting_errors_as
from modules.processes.edgecore.trace.columns import TraceFacts, pack
from modules.processes.edgecore.trace.device_diagnosis import device_lines
from modules.processes.edgecore.trace.diagnosis import State, diagnose
from modules.processes.edgecore.trace.event import Event
from modules.processes.edgecore.trace.events import events_of
from modules.processes.edgecore.trace.explanation import explanation_of, lines
from modules.processes.edgecore.trace.mermaid import ARROWS, mermaid
from modules.processes.edgecore.trace.names import named
from modules.processes.edgecore.trace.object_history import ObjectHistory, history_of
from modules.processes.edgecore.trace.page import page
from modules.processes.edgecore.trace.perfetto import perfetto
from modules.processes.edgecore.trace.progress import Progress
from modules.processes.edgecore.trace.target import Target, TargetError

_DUMP: Final = "`edgecore trace dump -o FILE` writes one"
_DEVICES: Final = ("device", "devices")
MOST: Final = 1_000_000
"""Events that a page may have; a browser cannot hold more."""


@reporting_errors_as(ExitCode.USAGE)
def explain(chosen: argparse.Namespace) -> int:
    """Print the history of one object; the exit status is 2 if the trace does not have the object."""
    file, kind, name = _asked(chosen)
    if kind in _DEVICES:
        return _explain_device(chosen, file, name)
    if file is None:
        raise TargetError("a trace is wanted", str(chosen.file), f"edgecore trace explain FILE KIND NAME; {_DUMP}")
    target = Target.parse(kind, name)
    history = history_of(lambda: _events(file), target)
    with read(file) as trace:
        began = trace.header.began
    diagnosis = diagnose(history, began)
    explanation = explanation_of(history, diagnosis, began, everything=chosen.all)
    if chosen.json:
        print_json(explanation)
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print_lines(lines(explanation, colour=colour), colours=colour)
    return ExitCode.USAGE if diagnosis.state is State.UNKNOWN else ExitCode.OK


def _asked(chosen: argparse.Namespace) -> tuple[Path | None, str, str]:
    """Return file, kind and name; no file for a device of this node: `explain device ns/name`, `device/ns/name`."""
    file, kind, name = chosen.file, chosen.kind, chosen.name
    if not kind:
        kind, _, name = str(file).partition("/")
        return None, kind, name
    if not name and str(file) in _DEVICES and not file.exists():
        return None, str(file), kind
    if not name and Target.is_kind(str(file)) and not file.exists():
        kind, name = str(file), kind
        raise TargetError("a trace is wanted", f"{kind} {name}", f"edgecore trace explain FILE {kind} {name}; {_DUMP}")
    if not name:
        kind, _, name = kind.partition("/")
    return file, kind, name


def _explain_device(chosen: argparse.Namespace, file: Path | None, name: str) -> int:
    """Say why desired values of a device have not arrived."""
    from modules.processes.edgecore.trace import device_explanation  # noqa: PLC0415 - explanations of pods do without it

    target = Target.parse("device", name)
    device_id = f"{target.namespace}/{target.name}" if target.namespace else target.name
    if file is None:
        found = device_explanation.explained_by_node(chosen, device_id)
    else:
        found = device_explanation.explained_by_trace(file, device_id)
    if chosen.json:
        print_json(found)
    else:
        print_lines(device_lines(found))
    return ExitCode.OK if found.known else ExitCode.USAGE


@reporting_errors_as(ExitCode.USAGE)
def export(chosen: argparse.Namespace) -> int:
    """Write the trace in the format of another program."""
    with read(chosen.file) as trace:
        node, began = trace.header.node, trace.header.began
    events = _chosen(chosen)
    if chosen.perfetto:
        return _write(chosen.output, perfetto(events, node, began))
    ordered = sorted(events, key=lambda event: (event.sent, event.taken))
    return _write(chosen.output, (f"{line}\n".encode() for line in mermaid(ordered, chosen.limit or ARROWS)))


@reporting_errors_as(ExitCode.USAGE)
def view(chosen: argparse.Namespace) -> int:
    """Write the trace as one HTML page."""
    with read(chosen.file) as trace:
        header = trace.header
    title = str(chosen.object or chosen.file.name)
    facts = TraceFacts(title=title, node=header.node, program=header.program, began=header.began)
    events = iter(_chosen(chosen))
    packed = pack(islice(events, MOST), facts)
    if next(events, None) is not None:
        hint = "narrow it down with --object, --from and --to"
        raise TraceError("cannot show the trace", f"{chosen.file} has more than {MOST} events", hint)
    output = chosen.output or Path(f"{chosen.file.name}.html")
    status = _write(output, (piece.encode() for piece in page(packed)))
    print_remark(f"{output}: {packed.count} events, {output.stat().st_size / 1e6:.1f} MB; open it in a browser")
    return status


def _chosen(chosen: argparse.Namespace) -> Iterable[Event]:
    """Return the events that the arguments select: all, or one object's history, within a span of time."""
    if chosen.object is None:
        found: Iterable[Event] = _events(chosen.file)
    else:
        kind, _, name = chosen.object.partition(" ")
        found = _story_of(chosen.file, Target.parse(kind, name)).events
    begin, end = chosen.begin, chosen.end
    return (
        event for event in named(found) if (begin is None or event.end >= begin) and (end is None or event.sent <= end)
    )


def _story_of(path: Path, target: Target) -> ObjectHistory:
    """Return the history of an object.

    Raises:
        NotThereError: the object is not in the trace.
    """
    history = history_of(lambda: _events(path), target)
    diagnosis = diagnose(history)
    if diagnosis.state is State.UNKNOWN:
        raise TraceError("cannot show the object", f"{target} is not in the trace", diagnosis.why)
    return history


def _events(path: Path) -> Iterator[Event]:
    """Yield the events of a trace; report damage of the file, and progress on a terminal."""
    with read(path) as trace:
        yield from events_of(_watched(trace))
        if trace.damage:
            print_remark(f"the trace ends early: {trace.damage}")


def _watched(trace: TraceReader) -> Iterator[Record]:
    """Yield the records, and show the progress on a terminal."""
    progress = Progress(trace)
    for record in trace:
        progress.step()
        yield record
    progress.clear()


def _write(output: Path | None, pieces: Iterable[bytes]) -> int:
    if output is None:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        return ExitCode.OK
    with open(output, "wb", opener=_private) as file:
        file.writelines(pieces)
    return ExitCode.OK


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read, as the trace itself."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, 0o600)
    return descriptor
