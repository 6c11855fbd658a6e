"""Trace entries of pods that changed (`beehive.trace.entries.Entry`).

The PLEG's calls and the runtime's events are recorded by `edged.cri.recording`; these entries have the resulting facts.
"""

from collections.abc import Callable

import msgspec

from beehive.trace.format import SYNCED, CriEvent
from beehive.trace.redact import Redactor
from beehive.trace_context import current_context
from edged.pleg.messages import PodInspection
from edged.pods.model import PodFacts

CHANGED = "changed"
GONE = "gone"


class PodChanged(msgspec.Struct, frozen=True, gc=False):
    """The facts of a pod that changed since its last inspection."""

    time: float
    span: int
    cause: int
    trace: int
    facts: PodFacts

    @property
    def size(self) -> int:
        """Rough size in memory, in bytes."""
        return 500 + 600 * (len(self.facts.sandboxes) + len(self.facts.containers))

    def record(self, time: float, redactor: Redactor) -> CriEvent:
        """Return the entry as written to the trace."""
        kind = CHANGED if self.facts.sandboxes or self.facts.containers else GONE
        detail = redactor.json(msgspec.json.encode(self.facts))
        return CriEvent(time, self.span, self.cause, self.trace, kind, str(self.facts.ref.uid), detail)


class PodSynced(msgspec.Struct, frozen=True, gc=False):
    """edged took the result of a worker's job; a replay takes it at the same time, before or after the PLEG's news."""

    time: float
    span: int
    cause: int
    trace: int
    uid: str

    @property
    def size(self) -> int:
        """Rough size in memory, in bytes."""
        return 200

    def record(self, time: float, redactor: Redactor) -> CriEvent:  # noqa: ARG002 - it has no secrets
        """Return the entry as written to the trace."""
        return CriEvent(time, self.span, self.cause, self.trace, SYNCED, self.uid, b"null")


def pod_synced(facts: PodFacts, now: float, next_span: Callable[[], int]) -> PodSynced:
    """Return the entry of a job's result, caused by the present span."""
    context, span = current_context(), next_span()
    return PodSynced(now, span, context.span, context.trace or span, str(facts.ref.uid))


def pod_changed(inspection: PodInspection, now: float, next_span: Callable[[], int]) -> PodChanged:
    """Return the entry of an inspection, caused by the present span."""
    context, span = current_context(), next_span()
    return PodChanged(now, span, context.span, context.trace or span, inspection.facts)
