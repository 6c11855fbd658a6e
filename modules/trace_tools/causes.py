"""What caused what, where the bus recorded it, and the best guess where it did not.

The bus numbers what happens and names the number of its cause. A capture from elsewhere has no numbers: there an answer
is taken to come from what it answers, and a message's next hop from its hop before.
"""

from collections.abc import Sequence

from modules.trace_tools.event import Event

NOBODY = -1


def causes_of(events: Sequence[Event]) -> list[int]:
    """For each event the index of its cause, or NOBODY. `events` are in the order in which they were sent."""
    by_span = {event.span: index for index, event in enumerate(events) if event.span}
    seen: dict[str, int] = {}
    found = []
    for index, event in enumerate(events):
        cause = by_span.get(event.cause, NOBODY) if event.cause else NOBODY
        if cause in (NOBODY, index):
            cause = seen.get(event.id, NOBODY) if event.id else NOBODY
        if cause == NOBODY and event.parent:
            cause = seen.get(event.parent, NOBODY)
        found.append(cause)
        if event.id:
            seen[event.id] = index
    return found
