"""What waits to leave for the cloud, and what left but may not have arrived. Decisions only: no link, clock or disk.

A message passes four places, and is in one of them at a time: it *waits*; it is *on its way* until the peer has
answered a ping that was sent behind it; if it is of a class that is kept (`edgehub.classes`), it *settles* for a
keepalive period, because a cloud that has read it may still die before it has done anything with it; then it is gone.
When the link ends before that, it waits again, before all else: at least once, with the same message id. It is gone as
well when it has arrived a second time, or a link that flaps would never let anything settle.

A request that has arrived is remembered until it is answered: a cloud may read it and die, and then who asked is told
when the link ends, instead of waiting for an answer that nobody will give.

What waits leaves by lanes (`edgehub.lanes`): answers first, then the node, its pods, and events last.

Where there is a store, what is kept may not leave before it is written: the `ledger` says what the store has to be
told.

It outlives restarts of the module because it is handed in.
"""

import itertools
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from beehive import Message
from edgehub.classes import Class, Entry
from edgehub.lanes import Lanes
from edgehub.outbox.ledger import Ledger
from edgehub.settings import Limits

WINDOW_FRAMES = 256
"""Frames that may be on their way unconfirmed."""

WINDOW_BYTES = 256 * 1024
"""Bytes that may be on their way unconfirmed; one larger frame may be alone. A keepalive stands behind them, and the
cloud ends a session 30 s after the last one: over a link of 10 kB/s it has to be there in time."""


class Verdict(Enum):
    """What became of an offer."""

    QUEUED = "queued"
    SUPERSEDED_OLDER = "took the place of an older state"
    NO_ROOM = "no room"


class Offered(NamedTuple):
    """What became of an offer."""

    verdict: Verdict
    dropped: tuple[Entry, ...] = ()
    """Older entries that gave way."""


class Outgoing:
    """See the module's docstring.

    Args:
        limits: of each class.
        settle: seconds for which what is kept stays after its arrival.
    """

    def __init__(self, limits: Limits, settle: float = 0.0) -> None:
        self._limits = limits
        self._settle = settle
        self._answers: deque[Entry] = deque()
        self._rest = Lanes()
        self._unconfirmed: deque[Entry] = deque()
        self._unconfirmed_bytes = 0
        self._settling: deque[tuple[float, Entry]] = deque()
        self._counts: Counter[Class] = Counter()
        self._sizes: Counter[Class] = Counter()
        self._keys = itertools.count()
        self._done: set[str] = set()
        """Ids of messages that were answered and are on their way still."""
        self._repeated: set[str] = set()
        """Ids of messages that have arrived once and wait again, or are on their way again."""
        self._asked: OrderedDict[str, Message] = OrderedDict()
        """Requests that have left and were not answered, by id, without their contents."""
        self.ledger = Ledger()

    def __len__(self) -> int:
        return len(self._answers) + len(self._rest)

    def holds(self, kind: Class) -> tuple[int, int]:
        """How many messages of a class there are, in whatever place, and their bytes."""
        return self._counts[kind], self._sizes[kind]

    def depths(self) -> dict[str, tuple[int, int]]:
        """Likewise of each class, by its name; any thread."""
        return {kind.value: self.holds(kind) for kind in Class if kind is not Class.KEEPALIVE}

    def offer(self, entry: Entry) -> Offered:
        """Let an entry wait for its turn; a newer state takes the place of an older one that waits."""
        key = self._key(entry)
        older = self._rest.get(key)
        if older is not None:
            self._rest.put(key, self._admit(entry))
            self._release(older)
            return Offered(Verdict.SUPERSEDED_OLDER)
        fits, dropped = self._make_room(entry)
        if not fits:
            return Offered(Verdict.NO_ROOM, dropped)
        admitted = self._admit(entry)
        if entry.kind is Class.ANSWER:
            self._answers.append(admitted)
        else:
            self._rest.put(key, admitted)
        return Offered(Verdict.QUEUED, dropped)

    def peek(self) -> Entry | None:
        """The next to leave; None when nothing may: nothing waits, it is not written yet, too much is on its way."""
        entry = self._next()
        return entry if entry is not None and self._window_admits(entry) else None

    def take(self) -> Entry:
        """Take what `peek` showed: from here on it is on its way."""
        if self._answers:
            entry = self._answers.popleft()
        else:
            key = self._rest.next(self.ledger.admits)
            if key is None:
                raise LookupError("nothing may leave")
            entry = self._rest.take(key)
        self._leaves(entry)
        return entry

    def on_its_way(self, entry: Entry) -> None:
        """Note a frame that was given to the link without having waited here."""
        self._leaves(self._admit(entry))

    def confirmed(self, frames: int, now: float) -> None:
        """The oldest `frames` on their way have arrived."""
        for _ in range(min(frames, len(self._unconfirmed))):
            entry = self._unconfirmed.popleft()
            self._unconfirmed_bytes -= len(entry.frame)
            if entry.kind.kept and entry.message.id not in self._done and entry.message.id not in self._repeated:
                self._settling.append((now, entry))
            else:
                self._release(entry)
        self._let_settle(now)

    def settled(self, now: float) -> float | None:
        """Let go of what has arrived long enough ago; returns when there will be more of it, None for never."""
        self._let_settle(now)
        return self._settling[0][0] + self._settle if self._settling else None

    def answered(self, message_id: str) -> None:
        """The cloud has answered a message, so it need not be kept any longer, nor what was older of the same state."""
        if self._asked.pop(message_id, None) is not None:
            return
        places = [entry for _, entry in self._settling] + list(self._unconfirmed)
        found = next((entry for entry in places if entry.message.id == message_id and entry.kind.kept), None)
        if found is None:
            return
        done = {found.message.id}
        if found.state is not None:
            done.update(e.message.id for e in places if e.state == found.state and e.serial <= found.serial)
        self._done |= done
        settling, self._settling = self._settling, deque()
        for when, entry in settling:
            if entry.message.id in done:
                self._release(entry)
            else:
                self._settling.append((when, entry))

    def lost(self) -> list[Message]:
        """The link has ended: what has not settled waits again, before all else. Returns the requests that will not be
        answered any more, without their contents.
        """
        self._repeated.update(entry.message.id for _, entry in self._settling)
        for entry in reversed([*(entry for _, entry in self._settling), *self._unconfirmed]):
            self._give_back(entry)
        self._settling.clear()
        self._unconfirmed.clear()
        self._unconfirmed_bytes = 0
        waiting = self._drop(self._rest.keys_where(lambda one: one.kind is Class.REQUEST))
        requests = [*self._asked.values(), *(entry.message for entry in waiting)]
        self._asked.clear()
        return requests

    def expire(self, now: float) -> list[Entry]:
        """Drop what has waited for longer than its class may; returns it."""
        return self._drop(
            self._rest.keys_where(lambda one: one.kind.kept and 0 < self._limits.of(one.kind).age < now - one.accepted)
        )

    def trust(self) -> None:
        """What is known to have arrived is gone: the link is closed in good order."""
        while self._settling:
            self._release(self._settling.popleft()[1])

    def attach(self, stored: Iterable[Entry], last: int = 0) -> None:
        """There is a store, and this is in it, oldest first; `last` is the highest serial that it has used.

        In the first life it waits again, before what has come meanwhile. In a later one all that is true is known
        here: what the store lacks is put, what it has beside that is removed.
        """
        found = list(stored)
        if self.ledger.is_open:
            self.ledger.compare(self.everything(), found)
            return
        self.ledger.open(max([last, *(one.serial for one in found)]))
        waiting = self._rest.drain()
        for entry in found:
            self._account(entry, 1)
            self._place(entry)
        for entry in waiting:
            self._account(entry, -1)
            self._place(self._admit(entry))

    def everything(self) -> Iterator[Entry]:
        """All entries but answers that wait, in whatever place."""
        yield from self._rest.entries()
        yield from self._unconfirmed
        yield from (entry for _, entry in self._settling)

    def _next(self) -> Entry | None:
        if self._answers:
            return self._answers[0]
        key = self._rest.next(self.ledger.admits)
        return None if key is None else self._rest.get(key)

    def _key(self, entry: Entry) -> Hashable:
        return next(self._keys) if entry.state is None else entry.state

    def _admit(self, entry: Entry) -> Entry:
        """Count it, and let the store have it if it is kept."""
        self._account(entry, 1)
        return self.ledger.admit(entry)

    def _place(self, entry: Entry) -> None:
        key = self._key(entry)
        older = self._rest.pop(key)
        self._rest.put(key, entry)
        if older is not None:
            self._release(older)

    def _leaves(self, entry: Entry) -> None:
        self._unconfirmed.append(entry)
        self._unconfirmed_bytes += len(entry.frame)
        if entry.kind is Class.REQUEST:
            self._asked[entry.message.id] = entry.message.with_content(None)
            if len(self._asked) > self._limits.volatile.messages:
                self._asked.popitem(last=False)

    def _release(self, entry: Entry) -> None:
        """It is gone."""
        self._account(entry, -1)
        self._done.discard(entry.message.id)
        self._repeated.discard(entry.message.id)
        self.ledger.release(entry)

    def _account(self, entry: Entry, sign: int) -> None:
        self._counts[entry.kind] += sign
        self._sizes[entry.kind] += sign * len(entry.frame)

    def _let_settle(self, now: float) -> None:
        while self._settling and self._settling[0][0] + self._settle <= now:
            self._release(self._settling.popleft()[1])

    def _give_back(self, entry: Entry) -> None:
        if entry.kind is Class.ANSWER:
            self._answers.appendleft(entry)
            return
        key = self._key(entry)
        if not entry.kind.kept or entry.message.id in self._done or key in self._rest:
            self._release(entry)
        else:
            self._rest.put(key, entry)
        waiting = self._rest.get(key)
        if waiting is not None:
            self._rest.put(key, waiting, first=True)

    def _drop(self, keys: Iterable[Hashable]) -> list[Entry]:
        entries = [entry for key in list(keys) if (entry := self._rest.pop(key)) is not None]
        for entry in entries:
            self._release(entry)
        return entries

    def _make_room(self, entry: Entry) -> tuple[bool, tuple[Entry, ...]]:
        """First goes what has arrived already, then, of events, the oldest that waits."""
        dropped: list[Entry] = []
        while not self._fits(entry):
            settling = next((one for one in self._settling if one[1].kind is entry.kind), None)
            if settling is not None:
                self._settling.remove(settling)
                self._release(settling[1])
                continue
            oldest = next(self._rest.keys_where(lambda one: one.kind is Class.EVENT), None)
            if entry.kind is not Class.EVENT or oldest is None:
                return False, tuple(dropped)
            dropped += self._drop([oldest])
        return True, tuple(dropped)

    def _fits(self, entry: Entry) -> bool:
        limit, count = self._limits.of(entry.kind), self._counts[entry.kind]
        return not count or (count < limit.messages and self._sizes[entry.kind] + len(entry.frame) <= limit.size)

    def _window_admits(self, entry: Entry) -> bool:
        if not self._unconfirmed:
            return True
        room = self._unconfirmed_bytes + len(entry.frame) <= WINDOW_BYTES
        return room and len(self._unconfirmed) < WINDOW_FRAMES
