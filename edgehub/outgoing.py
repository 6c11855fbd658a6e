"""What waits to leave for the cloud, and what left but may not have arrived. Decisions only; no link, no clock.

This is the seam for the durable outbox: what replaces it keeps these few methods and stores what `offer` takes until
`confirmed` lets it go. In memory, it outlives restarts of the module because it is handed in.

What is kept, and how long:

- *Requests* (somebody waits) never wait for a link: while there is none, they are answered with an error, and when a
  link ends before their arrival is known, they are too. Whoever asked knows best whether to ask again.
- *States* are only kept in their newest form, by resource and operation. For patches this is sound because edged makes
  them against what the cloud last confirmed, and nothing was confirmed that nobody waited for. The update of an event
  is the whole event.
- *Answers*, acknowledgements above all, go before the rest: an acknowledgement that comes late makes the cloud send
  the object again.
- Everything else stays in order.

What has left stays in memory until the peer is known to have read it. When a link ends first, it leaves again, before
all else, on the next one: at least once, with the same message id.
"""

import itertools
from collections import OrderedDict, deque
from collections.abc import Hashable
from enum import Enum

import msgspec

from beehive import Message, Operation, ResourceType
from beehive.resource import Side, type_of

WINDOW_FRAMES = 256
"""Frames that may be on their way unconfirmed."""

WINDOW_BYTES = 4 * 1024 * 1024
"""Bytes that may be on their way unconfirmed; one larger frame may be alone."""

_STATES = frozenset(
    {
        ResourceType.PODPATCH,
        ResourceType.NODEPATCH,
        ResourceType.NODESTATUS,
        ResourceType.PODSTATUS,
        ResourceType.LEASE,
        ResourceType.EVENT,
    }
)
_STATE_OPERATIONS = frozenset({Operation.UPDATE, Operation.PATCH})
_ANSWER_OPERATIONS = frozenset({Operation.RESPONSE, Operation.ERROR})


class Class(Enum):
    """How a message is kept; see the module's docstring."""

    REQUEST = "request"
    STATE = "state"
    ANSWER = "answer"
    EVENT = "event"
    KEEPALIVE = "keepalive"
    """Never kept: it only means something now."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A message, and the frame it leaves as."""

    message: Message
    frame: bytes
    kind: Class


class Verdict(Enum):
    """What became of an offer."""

    QUEUED = "queued"
    SUPERSEDED_OLDER = "took the place of an older state"
    NO_ROOM = "no room"


def classify(message: Message) -> Class:
    """How a message to the cloud is kept."""
    route = message.route
    if message.header.sync:
        return Class.REQUEST
    if message.parent_id and route.operation in _ANSWER_OPERATIONS:
        return Class.ANSWER
    if route.operation in _STATE_OPERATIONS and type_of(route.resource, Side.EDGE) in _STATES:
        return Class.STATE
    return Class.EVENT


class Outgoing:
    """See the module's docstring.

    Args:
        messages: how many may wait.
        size: how many bytes may wait.
    """

    def __init__(self, messages: int, size: int) -> None:
        self._messages = messages
        self._size = size
        self._bytes = 0
        self._answers: deque[Entry] = deque()
        self._rest: OrderedDict[Hashable, Entry] = OrderedDict()
        self._unconfirmed: deque[Entry] = deque()
        self._unconfirmed_bytes = 0
        self._serial = itertools.count()

    def __len__(self) -> int:
        return len(self._answers) + len(self._rest)

    def offer(self, entry: Entry) -> Verdict:
        """Let an entry wait for its turn; a newer state takes the place of an older one."""
        key = self._key(entry)
        older = self._rest.get(key)
        if older is not None:
            self._bytes += len(entry.frame) - len(older.frame)
            self._rest[key] = entry
            return Verdict.SUPERSEDED_OLDER
        if not self._fits(entry):
            return Verdict.NO_ROOM
        self._bytes += len(entry.frame)
        if entry.kind is Class.ANSWER:
            self._answers.append(entry)
        else:
            self._rest[key] = entry
        return Verdict.QUEUED

    def peek(self) -> Entry | None:
        """The next to leave; None when nothing waits or too much is on its way."""
        entry = self._answers[0] if self._answers else next(iter(self._rest.values()), None)
        return entry if entry is not None and self._window_admits(entry) else None

    def take(self) -> Entry:
        """Take what `peek` showed: from here on it is on its way."""
        entry = self._answers.popleft() if self._answers else self._rest.popitem(last=False)[1]
        self._bytes -= len(entry.frame)
        self.on_its_way(entry)
        return entry

    def on_its_way(self, entry: Entry) -> None:
        """Note a frame that was given to the link without having waited here."""
        self._unconfirmed.append(entry)
        self._unconfirmed_bytes += len(entry.frame)

    def confirmed(self, frames: int) -> None:
        """The oldest `frames` on their way have arrived."""
        for _ in range(min(frames, len(self._unconfirmed))):
            self._unconfirmed_bytes -= len(self._unconfirmed.popleft().frame)

    def lost(self) -> list[Entry]:
        """The link has ended: what was on its way waits again, before all else. Returns the requests, now forgotten."""
        requests = [entry for entry in self._unconfirmed if entry.kind is Class.REQUEST]
        for entry in reversed(self._unconfirmed):
            self._give_back(entry)
        self._unconfirmed.clear()
        self._unconfirmed_bytes = 0
        requests += self._drop_requests()
        return requests

    def _give_back(self, entry: Entry) -> None:
        if entry.kind is Class.ANSWER:
            self._answers.appendleft(entry)
            self._bytes += len(entry.frame)
        elif entry.kind in (Class.STATE, Class.EVENT):
            key = self._key(entry)
            if key not in self._rest:
                self._rest[key] = entry
                self._bytes += len(entry.frame)
            self._rest.move_to_end(key, last=False)

    def _drop_requests(self) -> list[Entry]:
        waiting = [(key, entry) for key, entry in self._rest.items() if entry.kind is Class.REQUEST]
        for key, entry in waiting:
            del self._rest[key]
            self._bytes -= len(entry.frame)
        return [entry for _, entry in waiting]

    def _key(self, entry: Entry) -> Hashable:
        route = entry.message.route
        return (route.resource, route.operation) if entry.kind is Class.STATE else next(self._serial)

    def _fits(self, entry: Entry) -> bool:
        return not len(self) or (len(self) < self._messages and self._bytes + len(entry.frame) <= self._size)

    def _window_admits(self, entry: Entry) -> bool:
        if not self._unconfirmed:
            return True
        room = self._unconfirmed_bytes + len(entry.frame) <= WINDOW_BYTES
        return room and len(self._unconfirmed) < WINDOW_FRAMES
