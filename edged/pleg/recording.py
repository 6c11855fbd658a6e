"""What a look at the runtime found, as a recorder keeps it (`beehive.trace.entries.Entry`).

The calls that the PLEG makes are recorded where they are made, and so are the runtime's events; this says what edged
learnt from them: which pod looks otherwise than before, and how.
"""

from collections.abc import Callable

import msgspec

from beehive.causes import current
from beehive.trace.format import CriEvent
from beehive.trace.redact import Redactor
from edged.pleg.messages import Seen
from edged.pods.model import PodFacts

CHANGED = "changed"
GONE = "gone"


class PodChanged(msgspec.Struct, frozen=True, gc=False):
    """A pod looks otherwise than when it was looked at before."""

    time: float
    span: int
    cause: int
    trace: int
    facts: PodFacts

    @property
    def size(self) -> int:
        """Bytes of memory that it keeps, roughly."""
        return 500 + 600 * (len(self.facts.sandboxes) + len(self.facts.containers))

    def record(self, time: float, redactor: Redactor) -> CriEvent:
        """As it is written."""
        kind = CHANGED if self.facts.sandboxes or self.facts.containers else GONE
        detail = redactor.json(msgspec.json.encode(self.facts))
        return CriEvent(time, self.span, self.cause, self.trace, kind, str(self.facts.ref.uid), detail)


def pod_changed(seen: Seen, now: float, next_span: Callable[[], int]) -> PodChanged:
    """What was seen, in the course of what is done now."""
    turn, span = current(), next_span()
    return PodChanged(now, span, turn.span, turn.trace or span, seen.facts)
