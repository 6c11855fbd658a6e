"""Few events of many occurrences: client-go's EventCorrelator, its rules and its numbers.

1. *Aggregation*: what differs from others only by its message, ten times within ten minutes, becomes one event whose
   message begins with `(combined from similar events)`.
2. *Counting*: what is the same as before is the same event with a higher count and a new last time.
3. *Spam filter*: about one object 25 events at once, then one every five minutes; what is more is dropped.

Memory is bounded by forgetting what was seen longest ago. Pure: time is handed in.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from beehive.rate import TokenBucket
from edged.api import Event, EventSource, ObjectMeta, ObjectReference, Time, format_time
from edged.events.model import Occurrence

SIMILAR = 10
"""Different messages of one kind from which on they are combined (client-go's defaultAggregateMaxEvents)."""
SIMILAR_SECONDS = 600.0
"""Quiet after which that begins anew."""
SPAM_BURST = 25
"""Events about one object at once (client-go's defaultSpamBurst)."""
SPAM_RATE = 1 / 300
"""Events about one object a second after that."""
REMEMBERED = 1024
"""Entries of each memory. client-go has 4096 for every component of a cluster; this is one node."""
COMBINED = "(combined from similar events): "
NODE_NAMESPACE = "default"
"""Where events about the node are: it is in no namespace itself (client-go)."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Correlated(NamedTuple):
    """An event as it is now."""

    event: Event
    is_new: bool
    """Whether nothing was said of it before."""


class _Latest(Generic[K, V]):
    """A memory of limited size."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """What is remembered."""
        return self._items.get(key)

    def put(self, key: K, value: V) -> V:
        """Remember; what was put longest ago may be forgotten for it."""
        self._items[key] = value
        self._items.move_to_end(key)
        if len(self._items) > self._size:
            self._items.popitem(last=False)
        return value


class _Group(msgspec.Struct):
    """Occurrences that differ only by their message."""

    seen: float
    messages: dict[str, None] = {}


class _Record(NamedTuple):
    """What was last said of an event."""

    name: str
    first: Time
    times: int


class Correlator:
    """See the module's docstring.

    Args:
        source: who records.
        remembered: entries of each memory.
    """

    def __init__(self, source: EventSource, remembered: int = REMEMBERED) -> None:
        self._source = source
        self._groups: _Latest[Hashable, _Group] = _Latest(remembered)
        self._records: _Latest[Hashable, _Record] = _Latest(remembered)
        self._buckets: _Latest[Hashable, TokenBucket] = _Latest(remembered)
        self._last_number = 0
        self.dropped = 0
        """How many occurrences the spam filter has kept back."""

    def correlate(self, occurrence: Occurrence, now: float) -> Correlated | None:
        """The event that this occurrence makes or changes; None when it is too much. `now` is monotonic seconds."""
        key, message = self._aggregated(occurrence, now)
        known = self._records.get(key)
        seen = format_time(occurrence.at)
        if known is not None:
            record = known._replace(times=known.times + 1)
        else:
            record = _Record(self._name(occurrence), seen, 1)
        self._records.put(key, record)
        if self._is_spam(occurrence.about, now):
            self.dropped += 1
            return None
        return Correlated(self._event(occurrence, record, message, seen), known is None)

    def _aggregated(self, occurrence: Occurrence, now: float) -> tuple[Hashable, str]:
        """What identifies the event, and its message."""
        what = (_identity(occurrence.about), occurrence.type, occurrence.reason)
        group = self._groups.get(what)
        if group is None or now - group.seen > SIMILAR_SECONDS:
            group = _Group(now)
        group.seen = now
        group.messages[occurrence.message] = None
        self._groups.put(what, group)
        if len(group.messages) < SIMILAR:
            return (what, occurrence.about.field_path, occurrence.message), occurrence.message
        del group.messages[next(iter(group.messages))]
        return what, COMBINED + occurrence.message

    def _is_spam(self, about: ObjectReference, now: float) -> bool:
        key = _identity(about)
        bucket = self._buckets.put(key, self._buckets.get(key) or TokenBucket(SPAM_RATE, SPAM_BURST))
        return bucket.take(now) > 0

    def _name(self, occurrence: Occurrence) -> str:
        """client-go's: the object's name and the time in nanoseconds, which is moved on where it would come twice."""
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


def _identity(about: ObjectReference) -> Hashable:
    return about.kind, about.namespace, about.name, about.uid
