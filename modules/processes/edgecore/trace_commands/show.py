"""The command `edgecore trace show`: prints a line for each matching record while the trace is read.

Lines go to standard output; progress on long files and errors go to standard error.
"""

import argparse
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from beehive.decoding import decode_json
from beehive.trace import (
    CriCall,
    CriEvent,
    Delivered,
    Direction,
    LinkFrame,
    Note,
    Record,
    StoreCommit,
    TimerFired,
)
from beehive.trace.reader import TraceReader, read
from modules.apimachinery.printing.terminal import print_json, print_lines
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.reporting import print_remark, reporting_errors_as
from modules.processes.edgecore.trace.progress import Progress
from modules.processes.edgecore.trace_commands.selection import (
    CLOUD,
    KIND,
    RUNTIME,
    STORE,
    Filter,
    envelope_of,
    seconds_of,
    subject_of,
)

_RESET: Final = "\x1b[0m"
_DIM: Final = "\x1b[2m"
_COLOUR: Final = {
    Delivered: "",
    TimerFired: "\x1b[2m",
    CriCall: "\x1b[36m",
    CriEvent: "\x1b[36m",
    LinkFrame: "\x1b[34m",
    StoreCommit: "\x1b[35m",
    Note: "\x1b[33m",
}
_BAD: Final = "\x1b[31m"
_GOOD: Final = frozenset({"handled", "coalesced"})
_ID: Final = 8
"""Characters of a message's id that are shown; `--id` accepts them."""


@reporting_errors_as(ExitCode.USAGE)
def show(chosen: argparse.Namespace) -> None:
    """Print the trace."""
    with read(chosen.file) as trace:
        _show(trace, _filter(chosen, trace.header.began), chosen)


class Line(NamedTuple):
    """Columns of a line."""

    sender: str
    receiver: str
    operation: str
    about: str
    detail: str
    failed: bool = False


def text_line(record: Record, began: float, *, colour: bool) -> str:
    """Return one line: time, sender, receiver, operation, object, details."""
    line = _LINES[type(record)](record)
    arrow = "→" if line.receiver else " "
    ways = f"{line.sender:>16.16} {arrow} {line.receiver:<16.16} {line.operation:<20.20}"
    time, rest = moment(began + record.time, "%H:%M:%S"), f"{ways} {line.about:<40} {line.detail}".rstrip()
    if not colour:
        return f"{time} {rest}"
    paint = _BAD if line.failed else _COLOUR[type(record)]
    return f"{_DIM}{time}{_RESET} {paint}{rest}{_RESET if paint else ''}"


def json_line(record: Record, began: float, traceparent: str) -> bytes:
    """Return one JSON object; contents that are JSON are embedded as values."""
    fields: dict[str, Any] = {
        "record": KIND[type(record)],
        "at": moment(began + record.time, "%Y-%m-%dT%H:%M:%S") + "Z",
    }
    fields |= {"traceparent": traceparent} if traceparent else {}
    return msgspec.json.encode(fields | _plain(record))


def moment(wall: float, form: str) -> str:
    """Format a wall clock time, UTC, to the microsecond."""
    return f"{datetime.fromtimestamp(wall, UTC):{form}.%f}"


def _delivered(record: Delivered) -> Line:
    message = record.message
    detail = f"{_ms(record.handled)}" + (f" after {_ms(record.waited)}" if record.waited >= 0.001 else "")
    detail = "" if record.way == "response" else detail
    if record.depth:
        detail += f" behind {record.depth}"
    if record.outcome != "handled":
        detail += f" {record.outcome.upper()}" + (f": {record.reason}" if record.reason else "")
    sender = record.sender or message.source or "?"
    answered = f" answers {message.parent_id[:_ID]}" if message.parent_id else ""
    failed = record.outcome not in _GOOD or message.operation == "error"
    return Line(
        sender, record.module, message.operation, message.resource, f"{message.id[:_ID]}{answered} {detail}", failed
    )


def _timer(record: TimerFired) -> Line:
    every = f"every {record.seconds:g} s" if record.periodic else f"after {record.seconds:g} s"
    return Line(record.module, "", "timer", record.name, f"{every} {_ms(record.handled)}")


def _cri(record: CriCall) -> Line:
    outcome = f" {record.error}: {record.detail}" if record.error else ""
    return Line(
        record.sender, RUNTIME, record.method, subject_of(record.request), _ms(record.seconds) + outcome,
        bool(record.error),
    )  # fmt: skip


def _event(record: CriEvent) -> Line:
    return Line(RUNTIME, "edged", record.kind, record.subject, "")


def _frame(record: LinkFrame) -> Line:
    header, route = envelope_of(record.frame).header, envelope_of(record.frame).route
    ways = (CLOUD, "websocket") if record.direction is Direction.IN else ("websocket", CLOUD)
    answered = f" answers {header.parent_msg_id[:_ID]}" if header.parent_msg_id else ""
    return Line(
        *ways, route.operation, route.resource, f"{header.msg_id[:_ID]}{answered} {record.size} bytes",
        route.operation == "error",
    )  # fmt: skip


def _commit(record: StoreCommit) -> Line:
    changes = record.changes
    about = f"{changes[0].operation} {changes[0].key}" if changes else ""
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    failed = bool(record.error)
    return Line(
        "metamanager", STORE, record.operation, about + more, f"{_ms(record.seconds)} {record.error}".rstrip(), failed
    )


def _note_line(record: Note) -> Line:
    return Line(record.module, "", record.kind, record.text, "", record.kind in ("failure", "lost"))


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 1 else f"{seconds:.3f} s"


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return _json(value)
    return value


def _json(text: bytes) -> Any:
    """Return JSON text as a value, other text as a string."""
    try:
        decode_json(text)
    except (msgspec.DecodeError, UnicodeError):
        return text.decode("utf-8", "replace")
    return msgspec.Raw(text)


_LINES: Final[dict[type[Record], Callable[[Any], Line]]] = {
    Delivered: _delivered,
    TimerFired: _timer,
    CriCall: _cri,
    CriEvent: _event,
    LinkFrame: _frame,
    StoreCommit: _commit,
    Note: _note_line,
}


def _show(trace: TraceReader, wanted: Filter, chosen: argparse.Namespace) -> None:
    began, colour = trace.header.began, _colour(chosen.color)
    progress = Progress(trace)
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
        print_remark(f"{trace.skipped} records are of kinds that this version does not know")
    if trace.damage:
        print_remark(f"the trace ends early: {trace.damage}")


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
    """Return whether to use colours; NO_COLOR as in https://no-color.org."""
    return wish == "always" or (wish == "auto" and sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
