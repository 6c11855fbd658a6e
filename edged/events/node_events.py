"""Events of the node that modules other than edged record."""

from beehive import ModuleContext
from edged.events.model import EventType
from edged.events.reasons import Reason
from edged.events.recorder import EventRecorder
from edged.events.reporter import EventReporter
from metamanager.client import AsyncMetaClient

_RATE = (0.2, 20)
"""Events per second, and in a burst."""


class NodeEventRecorder:
    """The recorder of events of the node, on a module's thread.

    Args:
        context: of the module that records them.
        node: name of the node; without one nothing is recorded.
        meta: takes the events.
    """

    def __init__(self, context: ModuleContext, node: str, meta: AsyncMetaClient) -> None:
        self._context = context
        self._node = node
        self._meta = meta
        self._reporter: EventReporter | None = None

    def record(self, event_type: EventType, reason: Reason, message: str) -> None:
        """Record an event; see `EventRecorder.record`."""
        if not self._node:
            return
        if self._reporter is None:
            self._reporter = EventReporter(self._meta, self._context, self._node, *_RATE)
        EventRecorder(self._context.clock, self._node, self._reporter.report).record_node(event_type, reason, message)

    def close(self) -> None:
        """Send the waiting events."""
        if self._reporter is not None:
            self._reporter.close()
