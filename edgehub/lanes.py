"""In which order messages leave that wait for the cloud. Decisions only.

Four lanes, the first that has something goes first:

| lane | what is in it | why |
|---|---|---|
| NODE | the node, its status, its lease | without them the cloud takes the node for dead |
| PODS | pods, their statuses, every request that somebody waits with | the cloud sees a pod as its status says |
| UPLOADS | what nobody waits with | |
| EVENTS | Kubernetes events | there are many, and they tell of what is past |

A lane that has waited while `SHARE` messages of others left is next, so that none starves. What is about one object
leaves in the order in which it came.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from enum import IntEnum
from typing import Final

from beehive import Message, ResourceType
from beehive.resource import Side, type_of
from edgehub.classes import Class, Entry

SHARE: Final = 8
"""Messages of other lanes that leave before one of a lane that waits."""

_NODE = frozenset({ResourceType.NODE, ResourceType.NODEPATCH, ResourceType.NODESTATUS, ResourceType.LEASE})
_PODS = frozenset({ResourceType.POD, ResourceType.PODPATCH, ResourceType.PODSTATUS})


class Lane(IntEnum):
    """See the module's docstring; the first goes first."""

    NODE = 0
    PODS = 1
    UPLOADS = 2
    EVENTS = 3


def lane_of(message: Message, kind: Class) -> Lane:
    """The lane of a message of a class. All that is about a node, a pod or an event is in one lane."""
    about = type_of(message.route.resource, Side.EDGE)
    if about in _NODE:
        return Lane.NODE
    if about in _PODS:
        return Lane.PODS
    if about == ResourceType.EVENT:
        return Lane.EVENTS
    return Lane.PODS if kind is Class.REQUEST else Lane.UPLOADS


class Lanes:
    """What waits, by key; see the module's docstring."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, OrderedDict[Hashable, Entry]] = {lane: OrderedDict() for lane in Lane}
        self._lane_of: dict[Hashable, Lane] = {}
        self._about: Counter[tuple[Lane, str]] = Counter()
        """How many in a lane are about a resource."""
        self._passed: Counter[Lane] = Counter()
        """How many of others have left since a lane's last, while it had something."""

    def __len__(self) -> int:
        return len(self._lane_of)

    def __contains__(self, key: object) -> bool:
        return key in self._lane_of

    def get(self, key: Hashable) -> Entry | None:
        """The entry with this key."""
        lane = self._lane_of.get(key)
        return None if lane is None else self._lanes[lane][key]

    def put(self, key: Hashable, entry: Entry, *, first: bool = False) -> None:
        """Let an entry wait as the last of its lane (or the first), or in the place of the one that has its key."""
        lane = self._lane_of.get(key)
        if lane is not None:
            self._lanes[lane][key] = entry
        else:
            lane = self._choose(entry)
            self._lane_of[key] = lane
            self._lanes[lane][key] = entry
            self._about[lane, entry.message.route.resource] += 1
        if first:
            self._lanes[lane].move_to_end(key, last=False)

    def pop(self, key: Hashable) -> Entry | None:
        """Let the entry with this key wait no longer."""
        lane = self._lane_of.pop(key, None)
        if lane is None:
            return None
        entry = self._lanes[lane].pop(key)
        about = lane, entry.message.route.resource
        self._about[about] -= 1
        if not self._about[about]:
            del self._about[about]
        if not self._lanes[lane]:
            del self._passed[lane]
        return entry

    def entries(self) -> Iterator[Entry]:
        """All that waits, by lane, each in its order."""
        for lane in self._lanes.values():
            yield from lane.values()

    def keys_where(self, wanted: Callable[[Entry], bool]) -> Iterator[Hashable]:
        """The keys of the entries that are wanted, likewise."""
        return (key for lane in self._lanes.values() for key, entry in lane.items() if wanted(entry))

    def drain(self) -> list[Entry]:
        """Let all of it wait no longer."""
        found = list(self.entries())
        for key in list(self._lane_of):
            self.pop(key)
        return found

    def next(self, may_leave: Callable[[Entry], bool]) -> Hashable | None:
        """The key of what leaves next."""
        found = {lane: key for lane in Lane if (key := self._first(lane, may_leave)) is not None}
        starved = next((lane for lane in found if self._passed[lane] >= SHARE), None)
        lane = starved if starved is not None else next(iter(found), None)
        return None if lane is None else found[lane]

    def take(self, key: Hashable) -> Entry:
        """Let an entry leave. Raises KeyError when there is none with this key."""
        left = self._lane_of[key]
        for lane, waiting in self._lanes.items():
            self._passed[lane] += bool(waiting)
        entry = self._lanes[left][key]
        self.pop(key)
        self._passed.pop(left, None)
        return entry

    def _first(self, lane: Lane, may_leave: Callable[[Entry], bool]) -> Hashable | None:
        return next((key for key, entry in self._lanes[lane].items() if may_leave(entry)), None)

    def _choose(self, entry: Entry) -> Lane:
        """Its own lane, or the one in which something waits already about the same object."""
        resource, own = entry.message.route.resource, lane_of(entry.message, entry.kind)
        return next((lane for lane in (Lane.PODS, Lane.UPLOADS) if self._about[lane, resource]), own)
