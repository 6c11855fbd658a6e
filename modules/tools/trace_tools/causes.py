"""The causes of events: as the bus recorded them, or guessed.

The bus records the span of each event's cause. A capture of other programs has no spans: there the cause of an answer
is its request, and the cause of a message's hop is its hop before.
"""

from collections.abc import Sequence

from modules.tools.trace_tools.event import Event

NO_CAUSE = -1


def causes_of(events: Sequence[Event]) -> list[int]:
    """Return the index of each event's cause, or NO_CAUSE; `events` are in the order that they were sent."""
    by_span = {event.span: index for index, event in enumerate(events) if event.span}
    seen: dict[str, int] = {}
    found = []
    for index, event in enumerate(events):
        cause = by_span.get(event.cause, NO_CAUSE) if event.cause else NO_CAUSE
        if cause in (NO_CAUSE, index):
            cause = seen.get(event.id, NO_CAUSE) if event.id else NO_CAUSE
        if cause == NO_CAUSE and event.parent:
            cause = seen.get(event.parent, NO_CAUSE)
        found.append(cause)
        if event.id:
            seen[event.id] = index
    return found
