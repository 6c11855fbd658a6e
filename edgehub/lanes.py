"""The order of messages that wait for the cloud. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from enum import IntEnum
from itertools import islice
from typing import Final

from beehive import Message, ResourceType
from edgehub.classes import Entry, MessageClass

SHARE: Final = 8
"""Messages of other lanes after which a waiting lane is served."""

LOOKED_AT: Final = 64
"""Number of entries at the head of a lane among which the next one is searched. While a slow disk writes the outbox,
thousands of entries may wait for it; a search through all of them for each new entry would take ever longer."""

_NODE = frozenset({ResourceType.NODE, ResourceType.NODEPATCH, ResourceType.NODESTATUS, ResourceType.LEASE})
_PODS = frozenset({ResourceType.POD, ResourceType.PODPATCH, ResourceType.PODSTATUS})


class Lane(IntEnum):
    """Priority of a message.

    | lane | contents | reason |
    |---|---|---|
    | NODE | the node, its status, its lease | without them the cloud takes the node for dead |
    | PODS | pods, their statuses, and requests with a waiting sender | the cloud knows a pod by its status |
    | UPLOADS | messages without a waiting sender | |
    | EVENTS | Kubernetes events | they are many, and report the past; they wait until nothing else does |
    """

    NODE = 0
    PODS = 1
    UPLOADS = 2
    EVENTS = 3


_EVENTS: Final = Lane.EVENTS
_SHARED: Final = (Lane.PODS, Lane.UPLOADS)
"""Looked up once: a member of an enum costs as much as a call."""


def lane_of(message: Message, kind: MessageClass) -> Lane:
    """Return the lane of a message. All messages about nodes share one lane; so do those about pods, and events."""
    about = message.subject.type
    if about in _NODE:
        return Lane.NODE
    if about in _PODS:
        return Lane.PODS
    if about == ResourceType.EVENT:
        return Lane.EVENTS
    return Lane.PODS if kind is MessageClass.REQUEST else Lane.UPLOADS


class Lanes:
    """The waiting messages, by key. The first lane that is not empty is served first.

    A lane that has waited while `SHARE` messages of others left is next, so that no lane starves except events, which
    never come before a status. Messages about one object leave in the order of their arrival.
    """

    def __init__(self) -> None:
        self._lanes: dict[Lane, OrderedDict[Hashable, Entry]] = {lane: OrderedDict() for lane in Lane}
        self._lane_of: dict[Hashable, Lane] = {}
        self._about: dict[tuple[Lane, str], int] = {}
        """Number of messages in a lane about a resource."""
        self._passed: dict[Lane, int] = {}
        """Number of messages of other lanes that left while a lane was waiting."""

    def __len__(self) -> int:
        return len(self._lane_of)

    def __contains__(self, key: object) -> bool:
        return key in self._lane_of

    def get(self, key: Hashable) -> Entry | None:
        """Return the entry with this key; None for an unknown key."""
        lane = self._lane_of.get(key)
        return None if lane is None else self._lanes[lane][key]

    def put(self, key: Hashable, entry: Entry, *, first: bool = False) -> None:
        """Append an entry to its lane (with `first`: prepend it), or replace the entry that has its key."""
        lane = self._lane_of.get(key)
        if lane is not None:
            self._lanes[lane][key] = entry
        else:
            lane = self._choose(entry)
            self._lane_of[key] = lane
            self._lanes[lane][key] = entry
            about = lane, entry.message.route.resource
            self._about[about] = self._about.get(about, 0) + 1
        if first:
            self._lanes[lane].move_to_end(key, last=False)

    def pop(self, key: Hashable) -> Entry | None:
        """Remove and return the entry with this key; None for an unknown key."""
        lane = self._lane_of.pop(key, None)
        if lane is None:
            return None
        entry = self._lanes[lane].pop(key)
        about = lane, entry.message.route.resource
        self._about[about] -= 1
        if not self._about[about]:
            del self._about[about]
        if not self._lanes[lane]:
            self._passed.pop(lane, None)
        return entry

    def entries(self) -> Iterator[Entry]:
        """Yield all entries, lane by lane, each lane in its order."""
        for lane in self._lanes.values():
            yield from lane.values()

    def keys_where(self, wanted: Callable[[Entry], bool]) -> Iterator[Hashable]:
        """Yield the keys of the entries that `wanted` selects, in the order of `entries`."""
        return (key for lane in self._lanes.values() for key, entry in lane.items() if wanted(entry))

    def drain(self) -> list[Entry]:
        """Remove and return all entries."""
        found = list(self.entries())
        for key in list(self._lane_of):
            self.pop(key)
        return found

    def next(self, may_leave: Callable[[Entry], bool]) -> Hashable | None:
        """Return the key of the next entry to leave, among the entries that `may_leave`; None if no head of a lane
        may.
        """
        found: Hashable | None = None
        for lane, waiting in self._lanes.items():
            if waiting and (key := self._first(waiting, may_leave)) is not None:
                if lane is not _EVENTS and self._passed.get(lane, 0) >= SHARE:
                    return key
                found = key if found is None else found
        return found

    def remove(self, key: Hashable) -> Entry:
        """Remove and return an entry that leaves; raise KeyError for an unknown key."""
        left = self._lane_of[key]
        for lane, waiting in self._lanes.items():
            if waiting:
                self._passed[lane] = self._passed.get(lane, 0) + 1
        entry = self._lanes[left][key]
        self.pop(key)
        self._passed.pop(left, None)
        return entry

    @staticmethod
    def _first(waiting: OrderedDict[Hashable, Entry], may_leave: Callable[[Entry], bool]) -> Hashable | None:
        for key, entry in islice(waiting.items(), LOOKED_AT):
            if may_leave(entry):
                return key
        return None

    def _choose(self, entry: Entry) -> Lane:
        """Return the lane where messages about the same object wait already, else the entry's own."""
        resource = entry.message.route.resource
        for lane in _SHARED:
            if (lane, resource) in self._about:
                return lane
        return lane_of(entry.message, entry.kind)
