"""Exports traces for Perfetto (ui.perfetto.dev) and chrome://tracing: JSON in Chrome's trace event format.

Each lane is a thread, each event a slice with an arrow from the sender's lane, and the length of an inbox is a counter.
Slices of one thread must nest, so overlapping ones go to further threads of their lane. The file is written in pieces,
with only the open rows in memory.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from modules.processes.edgecore.trace.event import Event, in_order, label

_PID: Final = 1
_ROWS: Final = 100
"""Threads that a lane may have; further overlapping slices share the last one."""
_LEAST: Final = 1.0
"""Microseconds that a slice lasts at least; shorter ones are invisible."""


class _Lanes:
    """The threads of the lanes, made on demand."""

    def __init__(self) -> None:
        self._rows: dict[str, list[float]] = {}

    def names(self) -> set[str]:
        return set(self._rows)

    def thread(self, lane: str, row: int = 0) -> int:
        """Return the number of a thread, which never changes."""
        self._rows.setdefault(lane, [])
        return (list(self._rows).index(lane) + 1) * _ROWS + row

    def row(self, lane: str, begin: float, end: float) -> int:
        """Reserve the first row of a lane that is free from `begin` to `end`, and return its number."""
        rows = self._rows.setdefault(lane, [])
        row = next((place for place, busy in enumerate(rows) if busy <= begin), min(len(rows), _ROWS - 1))
        if row == len(rows):
            rows.append(end)
        rows[row] = max(rows[row], end)
        return row

    def described(self) -> Iterator[dict[str, Any]]:
        """Yield the names and the order of all threads."""
        for order, lane in enumerate(in_order(self.names())):
            for row in range(max(len(self._rows[lane]), 1)):
                about = {"pid": _PID, "tid": self.thread(lane, row), "ph": "M"}
                yield {**about, "name": "thread_name", "args": {"name": label(lane)}}
                yield {**about, "name": "thread_sort_index", "args": {"sort_index": order * _ROWS + row}}


def perfetto(events: Iterable[Event], node: str, began: float) -> Iterator[bytes]:
    """Yield the file in pieces.

    Args:
        events: in any order; Perfetto sorts them.
        node: name of the process.
        began: wall clock of the trace's origin, in seconds since the Unix epoch; stored beside the events.
    """
    lanes = _Lanes()
    yield b'{"displayTimeUnit":"ms","otherData":' + msgspec.json.encode({"node": node, "began": began})
    yield b',"traceEvents":[\n'
    yield msgspec.json.encode({"name": "process_name", "ph": "M", "pid": _PID, "args": {"name": node or "node"}})
    for number, event in enumerate(events):
        for item in _of_event(event, number, lanes):
            yield b",\n" + msgspec.json.encode(item)
    for item in lanes.described():
        yield b",\n" + msgspec.json.encode(item)
    yield b"\n]}\n"


def _of_event(event: Event, number: int, lanes: _Lanes) -> Iterator[dict[str, Any]]:
    begin = _micros(event.taken)
    lasts = max(_micros(event.end) - begin, _LEAST)
    thread = lanes.thread(event.target, lanes.row(event.target, begin, begin + lasts))
    name = f"{event.verb} {event.about}".rstrip()
    kind = {"cat": str(event.kind), "name": name, "pid": _PID}
    yield {**kind, "ph": "X", "ts": begin, "dur": lasts, "tid": thread, "args": _arguments(event)}
    if event.source != event.target:
        sent = {**kind, "ts": _micros(event.sent), "tid": lanes.thread(event.source), "id": number}
        yield {**sent, "ph": "X", "dur": _LEAST, "name": f"send {name}"}
        yield {**sent, "ph": "s"}
        yield {**sent, "ph": "f", "bp": "e", "ts": begin, "tid": thread}
    if event.depth >= 0:
        waiting = {"waiting": event.depth + 1}
        counter = f"inbox of {label(event.target)}"
        yield {"name": counter, "ph": "C", "pid": _PID, "ts": _micros(event.sent), "args": waiting}
        yield {"name": counter, "ph": "C", "pid": _PID, "ts": begin, "args": {"waiting": event.depth}}


def _arguments(event: Event) -> dict[str, Any]:
    fields = {
        "id": event.id,
        "answers": event.parent,
        "way": event.route,
        "outcome": event.outcome,
        "reason": event.reason,
        "waited_ms": round(event.waited * 1e3, 6),
        "body": event.body.decode(errors="replace"),
    }
    return {key: value for key, value in fields.items() if value}


def _micros(time: float) -> float:
    return round(time * 1e6, 3)
