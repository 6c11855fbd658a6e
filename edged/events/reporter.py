"""Sends events to metamanager."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from beehive import ModuleContext, Timer
from beehive.rate import TokenBucket
from edged.events.model import Occurrence
from metamanager.client import AsyncMetaClient
from modules.apimachinery.types import Event, EventSource, ObjectMeta, ObjectReference, Time, encode, format_time

SIMILAR = 10
"""Number of different messages of one kind that are combined (client-go's defaultAggregateMaxEvents)."""
SIMILAR_SECONDS = 600.0
"""Seconds without another one after which the count restarts."""
SPAM_BURST = 25
"""Events about one object in a burst (client-go's defaultSpamBurst)."""
SPAM_RATE = 1 / 300
"""Events per second about one object after that."""
RECORD_SECONDS = 3600.0
"""Seconds after the last one in which an equal occurrence counts: kube-apiserver keeps an Event no longer
(`--event-ttl`).
"""
REMEMBERED = 1024
"""Entries of each cache. client-go has 4096 for a component of a whole cluster; this is one node."""
COMBINED = "(combined from similar events): "
NODE_NAMESPACE = "default"
"""Namespace of events about the node, which has no namespace (client-go)."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_log = logging.getLogger(__name__)

GATHER_SECONDS = 1.0
"""Seconds that events are gathered before they are sent."""
MOST_WAITING = 1000
"""Events that may wait to be sent (client-go's maxQueuedEvents); the oldest are dropped for newer ones."""
COMPONENT = "kubelet"
"""The event source that tools expect (KubeEdge's edge runs a kubelet, and uses this name)."""


class CorrelatedEvent(msgspec.Struct, frozen=True):
    """An event after its latest occurrence."""

    event: Event
    is_new: bool
    """Whether this is its first occurrence."""


class _Latest(Generic[K, V]):
    """A cache of limited size, without values that are as good as none.

    Args:
        size: how many values it has.
        is_over: whether a value is as good as none, at a moment in monotonic seconds.
    """

    def __init__(self, size: int, is_over: Callable[[V, float], bool]) -> None:
        self._size = size
        self._is_over = is_over
        self._items: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value of the key, if it is still cached."""
        return self._items.get(key)

    def put(self, key: K, value: V, now: float) -> V:
        """Add a value; those at the other end may be dropped."""
        self._items[key] = value
        self._items.move_to_end(key)
        while len(self._items) > self._size or self._is_over(next(iter(self._items.values())), now):
            self._items.popitem(last=False)
        return value


class _Group(msgspec.Struct, frozen=True, gc=False):
    """Occurrences that differ only by their message."""

    seen: float
    messages: tuple[str, ...]


class _Record(msgspec.Struct, frozen=True, gc=False):
    """An event as last recorded."""

    name: str
    first: Time
    times: int
    seen: float


class EventCorrelator:
    """The correlator of occurrences, which combines them into events, by client-go's rules and numbers:

    1. *Aggregation*: ten occurrences within ten minutes that differ only by their message become one event, whose
    message begins with `(combined from similar events)`.

    2. *Counting*: equal occurrences are one event with a higher count and a new last time.

    3. *Spam filter*: bursts of 25 events about one object, then one every five minutes; others are dropped.

    Memory is bounded: the oldest entries are forgotten.

    Args:
        source: the recording component.
        remembered: entries of each cache.
    """

    def __init__(self, source: EventSource, remembered: int = REMEMBERED) -> None:
        self._source = source
        self._groups: _Latest[Hashable, _Group] = _Latest(remembered, _is_quiet)
        self._records: _Latest[Hashable, _Record] = _Latest(remembered, _is_forgotten)
        self._buckets: _Latest[Hashable, TokenBucket] = _Latest(remembered, TokenBucket.is_full)
        self._last_number = 0
        self.dropped = 0
        """Number of occurrences that the spam filter has dropped."""

    def correlate(self, occurrence: Occurrence, now: float) -> CorrelatedEvent | None:
        """Return the event that this occurrence creates or changes; None when the spam filter drops it. `now` is in
        monotonic seconds.
        """
        key, message = self._aggregated(occurrence, now)
        known = self._records.get(key)
        if known is not None and _is_forgotten(known, now):
            known = None
        seen = format_time(occurrence.at)
        if known is not None:
            record = msgspec.structs.replace(known, times=known.times + 1, seen=now)
        else:
            record = _Record(self._name(occurrence), seen, 1, now)
        self._records.put(key, record, now)
        if self._is_spam(occurrence.about, now):
            self.dropped += 1
            return None
        return CorrelatedEvent(self._event(occurrence, record, message, seen), known is None)

    def _aggregated(self, occurrence: Occurrence, now: float) -> tuple[Hashable, str]:
        """Return the event's key, and its message."""
        what, message = (_identity(occurrence.about), occurrence.type, occurrence.reason), occurrence.message
        group = self._groups.get(what)
        known = () if group is None or _is_quiet(group, now) else group.messages
        messages = known if message in known else (*known, message)
        is_combined = len(messages) >= SIMILAR
        self._groups.put(what, _Group(now, messages[1:] if is_combined else messages), now)
        if is_combined:
            return what, COMBINED + message
        return (what, occurrence.about.field_path, message), message

    def _is_spam(self, about: ObjectReference, now: float) -> bool:
        key = _identity(about)
        bucket = self._buckets.get(key) or TokenBucket(SPAM_RATE, SPAM_BURST)
        is_spam = bucket.reserve(now) > 0
        self._buckets.put(key, bucket, now)
        return is_spam

    def _name(self, occurrence: Occurrence) -> str:
        """Return client-go's name of an event: the object's name and the time in nanoseconds, increased where it would
        repeat.
        """
        self._last_number = max(int(occurrence.at), self._last_number + 1)
        return f"{occurrence.about.name}.{self._last_number:x}"

    def _event(self, occurrence: Occurrence, record: _Record, message: str, seen: Time) -> Event:
        about, source = occurrence.about, self._source
        return Event(
            kind="Event",
            api_version="v1",
            metadata=ObjectMeta(
                name=record.name, namespace=about.namespace or NODE_NAMESPACE, creation_timestamp=record.first
            ),
            involved_object=about,
            reason=occurrence.reason,
            message=message,
            source=source,
            first_timestamp=record.first,
            last_timestamp=seen,
            count=record.times,
            type=occurrence.type,
            reporting_component=source.component,
            reporting_instance=source.host,
        )


def _is_quiet(group: _Group, now: float) -> bool:
    return now - group.seen > SIMILAR_SECONDS


def _is_forgotten(record: _Record, now: float) -> bool:
    return now - record.seen > RECORD_SECONDS


def _identity(about: ObjectReference) -> Hashable:
    return about.kind, about.namespace, about.name, about.uid


class EventReporter:
    """The reporter of events to metamanager, at a limited rate and only the newest state of each, on the edged module's
    thread.

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
                _log.warning("more Events than the rate limit allows: %d dropped", self._dropped)

    def _flush(self) -> None:
        self._timer = None
        while self._waiting:
            wait = self._bucket.reserve(self._context.clock.monotonic())
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
