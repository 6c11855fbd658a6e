"""Sends events to metamanager."""

import logging

from beehive import ModuleContext, Timer
from beehive.rate import TokenBucket
from edged.api import Event, EventSource, encode
from edged.events.correlate import CorrelatedEvent, EventCorrelator
from edged.events.model import Occurrence
from metamanager.client import AsyncMetaClient

_log = logging.getLogger(__name__)

GATHER_SECONDS = 1.0
"""Seconds that events are gathered before they are sent."""
MOST_WAITING = 1000
"""Events that may wait to be sent (client-go's maxQueuedEvents); the oldest are dropped for newer ones."""
COMPONENT = "kubelet"
"""The event source that tools expect (KubeEdge's edge runs a kubelet, and uses this name)."""


class EventReporter:
    """Sends events to metamanager, at a limited rate and only the newest state of each, on the edged module's thread.

    metamanager stores the newest few hundred and passes them on to the cloud unless `modules.edged.reportEvent` is
    false. As in client-go, a lost event is not repeated. Events of one second are sent together, so that starting a pod
    costs one commit of the store and not five.

    Args:
        meta: takes the events.
        context: the module.
        node: name of this node.
        rate: events per second (`eventRecordQPS`); 0: no limit, as in a kubelet.
        burst: events in a burst (`eventBurst`).
    """

    def __init__(self, meta: AsyncMetaClient, context: ModuleContext, node: str, rate: float, burst: int) -> None:
        self._meta = meta
        self._context = context
        self._correlator = EventCorrelator(EventSource(component=COMPONENT, host=node))
        self._bucket = TokenBucket(rate, burst)
        self._waiting: dict[str, CorrelatedEvent] = {}
        self._timer: Timer | None = None
        self._dropped = 0

    def report(self, occurrence: Occurrence) -> None:
        """Add an occurrence."""
        _log.debug("%s %s %s: %s", occurrence.about.kind, occurrence.about.name, occurrence.reason, occurrence.message)
        correlated = self._correlator.correlate(occurrence, self._context.clock.monotonic())
        if correlated is None:
            return
        self._put(correlated)
        if self._timer is None:
            self._timer = self._context.after(GATHER_SECONDS, self._flush)

    def close(self) -> None:
        """Send all waiting events."""
        if self._timer is not None:
            self._timer.cancel()
        for correlated in self._waiting.values():
            self._send(correlated)
        self._waiting.clear()

    def _put(self, correlated: CorrelatedEvent) -> None:
        key = _address(correlated.event)
        before = self._waiting.pop(key, None)
        is_new = correlated.is_new or (before is not None and before.is_new)
        self._waiting[key] = CorrelatedEvent(correlated.event, is_new)
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
            self._dropped += 1
            if self._dropped.bit_count() == 1:
                _log.warning("events happen faster than they may leave: %d dropped", self._dropped)

    def _flush(self) -> None:
        self._timer = None
        while self._waiting:
            wait = self._bucket.take(self._context.clock.monotonic())
            if wait > 0:
                self._timer = self._context.after(max(wait, GATHER_SECONDS), self._flush)
                return
            self._send(self._waiting.pop(next(iter(self._waiting))))

    def _send(self, correlated: CorrelatedEvent) -> None:
        event = correlated.event
        meta = event.metadata
        self._meta.record_event(meta.namespace, meta.name, encode(event), is_new=correlated.is_new)


def _address(event: Event) -> str:
    return f"{event.metadata.namespace}/{event.metadata.name}"
