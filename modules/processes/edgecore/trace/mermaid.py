"""Exports traces as sequence diagrams in Mermaid's language, which code forges and wikis display in a text.

A diagram with more than some hundred arrows is not readable, so their number is limited, and a note at the end has the
number of the missing ones. Select one object (`--object`) or a span of time first.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from modules.processes.edgecore.trace.event import Event, in_order, label
from modules.processes.edgecore.trace.explanation import seconds

ARROWS: Final = 200
_REPLACED: Final = str.maketrans({";": "#59;", "#": "#35;", "\n": " ", "\r": " ", "<": "#lt;", ">": "#gt;"})
"""Characters with a meaning in Mermaid's language, and their escapes."""


def mermaid(events: Iterable[Event], most: int = ARROWS) -> Iterator[str]:
    """Yield the lines of the diagram; `events` are in the order that they were sent."""
    source = iter(events)
    chosen = list(islice(source, most))
    left = sum(1 for _ in source)
    yield "sequenceDiagram"
    lanes = in_order({event.source for event in chosen} | {event.target for event in chosen})
    names = {lane: f"L{number}" for number, lane in enumerate(lanes)}
    for lane in lanes:
        yield f"    participant {names[lane]} as {_clean(label(lane))}"
    before = chosen[0].sent if chosen else 0.0
    for event in chosen:
        if event.sent - before >= 1.0:
            yield f"    Note over {names[lanes[0]]},{names[lanes[-1]]}: {seconds(event.sent - before)} later"
        before = event.sent
        yield f"    {_line(event, names)}"
    if left:
        yield f"    Note over {names[lanes[0]]},{names[lanes[-1]]}: {left} more are left out"


def _line(event: Event, names: dict[str, str]) -> str:
    took = event.end - event.sent
    text = _clean(f"{event.verb} {event.about}".rstrip()) + (f" ({seconds(took)})" if took >= 1e-4 else "")
    if event.failed:
        text += _clean(f" {event.outcome} {event.reason}".rstrip())
    if event.source == event.target:
        return f"Note over {names[event.target]}: {text}"
    arrow = "-x" if event.failed else "-->>" if event.verb == "response" else "->>"
    return f"{names[event.source]}{arrow}{names[event.target]}: {text}"


def _clean(text: str) -> str:
    return text.translate(_REPLACED)
