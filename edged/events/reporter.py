"""Has events stored and sent: at most so many a second, and only the newest form of each.

An event is handed to metamanager, which keeps the newest few hundred and passes them to the cloud if it is to have
them (`modules.edged.reportEvent`). Nobody waits for an answer: as with client-go, an event that is lost is lost. What
happens within a second leaves together, so that a pod that comes up costs one commit of the store and not five.

Lives on the edged module's thread.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from beehive import Clock, Timer
from beehive.rate import TokenBucket
from edged.api import Event, EventSource, encode
from edged.events.correlate import Correlated, Correlator
from edged.events.model import Occurrence
from metamanager.client import MetaTurnClient

_log = logging.getLogger(__name__)

GATHER_SECONDS = 1.0
"""How long events are gathered before they leave."""
MOST_WAITING = 1000
"""Events that may wait to leave (client-go's maxQueuedEvents); the oldest are dropped for newer ones."""
COMPONENT = "kubelet"
"""The source that tools expect (KubeEdge's edge runs a kubelet, and says so)."""


class TimerOwner(Protocol):
    """The module on whose thread this lives."""

    @property
    def clock(self) -> Clock:
        """Time."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call in the module's own turn."""


class EventReporter:
    """See the module's docstring.

    Args:
        meta: takes the events.
        owner: the module.
        node: name of this node.
        rate: events a second (`eventRecordQPS`); 0: no limit, as a kubelet's.
        burst: events at once (`eventBurst`).
    """

    def __init__(self, meta: MetaTurnClient, owner: TimerOwner, node: str, rate: float, burst: int) -> None:
        self._meta = meta
        self._owner = owner
        self._correlator = Correlator(EventSource(component=COMPONENT, host=node))
        self._bucket = TokenBucket(rate, burst)
        self._waiting: dict[str, Correlated] = {}
        self._timer: Timer | None = None
        self._dropped = 0

    def take(self, occurrence: Occurrence) -> None:
        """Something happened."""
        _log.debug("%s %s %s: %s", occurrence.about.kind, occurrence.about.name, occurrence.reason, occurrence.message)
        correlated = self._correlator.correlate(occurrence, self._owner.clock.monotonic())
        if correlated is None:
            return
        self._put(correlated)
        if self._timer is None:
            self._timer = self._owner.after(GATHER_SECONDS, self._flush)

    def close(self) -> None:
        """Let everything leave: the module stops."""
        if self._timer is not None:
            self._timer.cancel()
        for correlated in self._waiting.values():
            self._send(correlated)
        self._waiting.clear()

    def _put(self, correlated: Correlated) -> None:
        key = _address(correlated.event)
        before = self._waiting.pop(key, None)
        is_new = correlated.is_new or (before is not None and before.is_new)
        self._waiting[key] = Correlated(correlated.event, is_new)
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
            self._dropped += 1
            if self._dropped.bit_count() == 1:
                _log.warning("events happen faster than they may leave: %d dropped", self._dropped)

    def _flush(self) -> None:
        self._timer = None
        while self._waiting:
            wait = self._bucket.take(self._owner.clock.monotonic())
            if wait > 0:
                self._timer = self._owner.after(max(wait, GATHER_SECONDS), self._flush)
                return
            self._send(self._waiting.pop(next(iter(self._waiting))))

    def _send(self, correlated: Correlated) -> None:
        event = correlated.event
        meta = event.metadata
        self._meta.record_event(meta.namespace, meta.name, encode(event), is_new=correlated.is_new)


def _address(event: Event) -> str:
    return f"{event.metadata.namespace}/{event.metadata.name}"
