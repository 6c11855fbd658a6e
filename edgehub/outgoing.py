"""The messages for the cloud, from their acceptance until the cloud has them. Pure: no link, clock or disk."""

import itertools
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from msgspec.structs import replace

from beehive import Message
from edgehub.classes import Entry, MessageClass
from edgehub.lanes import Lanes
from edgehub.settings import Limits

WINDOW_FRAMES = 256
"""Largest number of unconfirmed frames."""

WINDOW_BYTES = 256 * 1024
"""Largest number of unconfirmed bytes; a single larger frame may be alone. A keepalive waits behind them, and the cloud
ends a session 30 s after the last one: 256 KiB leave it in time over a link of 10 kB/s."""

EVENT_WINDOW_BYTES = 16 * 1024
"""Largest number of unconfirmed bytes of events; a single larger event may be sent alone. A status that comes after
them waits for 1.6 s over a link of 10 kB/s, and not for 26 s.
"""


_EVENT, _REQUEST, _ANSWER = MessageClass.EVENT, MessageClass.REQUEST, MessageClass.ANSWER
"""Looked up once: a member of an enum costs as much as a call."""


class OfferResult(Enum):
    """Answer of `Outgoing.offer` for an entry."""

    QUEUED = "queued"
    SUPERSEDED_OLDER = "took the place of an older state"
    NO_ROOM = "no room"


class Offered(NamedTuple):
    """Result of `Outgoing.offer`."""

    result: OfferResult
    dropped: tuple[Entry, ...] = ()
    """Older entries dropped to make room."""


class OutboxChanges(NamedTuple):
    """Changes that the outbox has yet to write."""

    put: tuple[Entry, ...]
    gone: tuple[int, ...]
    """Serials of rows to remove, oldest departure first."""


class Ledger:
    """The numbers of the kept entries, and the changes that the outbox has to write.

    Until `open`, no entry is stored and all may leave. Events always may, and one that the cloud has read before it is
    written needs no row: nobody relies on it. Rows are removed in the order of their departure, so that a crash never
    leaves a state without the newer ones made after it.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._serial = 0
        self._written = 0
        self._put: dict[int, Entry] = {}
        self._held = 0
        """Those of `_put` that may not leave before they are written."""
        self._gone: list[int] = []

    @property
    def last(self) -> int:
        """Serial of the last entry."""
        return self._serial

    @property
    def unwritten(self) -> bool:
        """Whether entries wait to be written."""
        return bool(self._put)

    @property
    def holds_back(self) -> bool:
        """Whether entries may not leave before they are written."""
        return self._held > 0

    @property
    def removals(self) -> int:
        """Number of obsolete rows."""
        return len(self._gone)

    def open(self, last: int) -> None:
        """Begin to number entries after `last`, the highest serial in the outbox."""
        self.is_open = True
        self._serial = self._written = last

    def compare(self, known: Iterable[Entry], found: Iterable[Entry]) -> None:
        """Compare the entries with the rows found in a reopened outbox; put the missing ones, remove the others."""
        numbered = {entry.serial: entry for entry in known if entry.serial}
        there = [entry.serial for entry in found]
        self._gone = [serial for serial in there if serial not in numbered]
        self._put = {serial: numbered[serial] for serial in sorted(numbered.keys() - set(there))}
        self._held = _held(self._put.values())

    def admit(self, entry: Entry) -> Entry:
        """Return the entry with its serial, if its class is kept."""
        if not self.is_open or not entry.kind.kept:
            return entry
        self._serial += 1
        numbered = replace(entry, serial=self._serial)
        self._put[self._serial] = numbered
        self._held += entry.kind is not _EVENT
        return numbered

    def read(self, entry: Entry) -> Entry:
        """Return an entry that the cloud has read, without a serial if it is an event that is not written yet."""
        if entry.kind is not _EVENT or self._put.pop(entry.serial, None) is None:
            return entry
        return replace(entry, serial=0)

    def release(self, entry: Entry) -> None:
        """Stop keeping an entry."""
        if not entry.serial:
            return
        if self._put.pop(entry.serial, None) is None:
            self._gone.append(entry.serial)
        else:
            self._held -= entry.kind is not _EVENT

    def drain(self) -> OutboxChanges:
        """Return the pending changes and clear them."""
        changes = OutboxChanges(tuple(self._put.values()), tuple(self._gone))
        self._put, self._held, self._gone = {}, 0, []
        return changes

    def wrote(self, changes: OutboxChanges) -> None:
        """Note that changes are written: their entries may leave."""
        self._written = max([self._written, *(entry.serial for entry in changes.put)])

    def refused(self, changes: OutboxChanges, known: Iterable[Entry]) -> None:
        """Note that changes were not written: their entries may leave, and the `known` ones are pending again. Entries
        that have left meanwhile have no row to remove, or the removals would pile up while the disk is broken.
        """
        alive = {entry.serial for entry in known}
        without_row = {one.serial for one in changes.put} - alive
        self._put = {one.serial: one for one in changes.put if one.serial in alive} | self._put
        self._held = _held(self._put.values())
        self._gone = [serial for serial in (*changes.gone, *self._gone) if serial not in without_row]
        self.wrote(changes)

    def admits(self, entry: Entry) -> bool:
        """Return whether an entry may leave: it is written, or not kept, or an event."""
        return entry.serial <= self._written or entry.kind is _EVENT


def _held(entries: Iterable[Entry]) -> int:
    """Return how many entries may not leave before they are written."""
    return sum(entry.kind is not _EVENT for entry in entries)


class Outgoing:
    """The queue of messages for the cloud, which delivers the kept ones at least once, with unchanged ids.

    An entry is in one of three states, and then released:

    - *waiting*: it leaves by lanes (`edgehub.lanes`), answers first; with an outbox a kept entry other than an event
      leaves only after it is written (`Ledger`);
    - *unconfirmed*: sent, until the peer answers a ping sent after it;
    - *settling*, if its class is kept: confirmed, for another keepalive period, because a cloud may read a message and
      die before it handles it.

    When the link ends, unconfirmed and settling entries wait again, before all others. An entry confirmed twice is
    released immediately, or nothing would ever settle on a link that flaps. A confirmed request is remembered until its
    answer, so that its sender receives an error when the link ends.

    The process creates the object, so that it outlives restarts of the module.

    Args:
        limits: of each class.
        settle: seconds that a kept entry settles.
    """

    def __init__(self, limits: Limits, settle: float = 0.0) -> None:
        self._limits = {kind: limits.of(kind) for kind in MessageClass}
        self._settle = settle
        self._answers: deque[Entry] = deque()
        self._lanes = Lanes()
        self._unconfirmed: deque[Entry] = deque()
        self._unconfirmed_bytes = 0
        self._unconfirmed_events = 0
        """Bytes of events among them."""
        self._settling: deque[tuple[float, Entry]] = deque()
        self._counts: Counter[MessageClass] = Counter()
        self._sizes: Counter[MessageClass] = Counter()
        self._keys = itertools.count()
        self._answered_ids: set[str] = set()
        """Ids of unconfirmed messages that the cloud has answered."""
        self._read_before: set[str] = set()
        """Ids of messages that the cloud has read once and that wait, or are unconfirmed, again."""
        self._open_requests: OrderedDict[str, Message] = OrderedDict()
        """Sent requests without an answer, by id, without their contents."""
        self.ledger = Ledger()

    def __len__(self) -> int:
        return len(self._answers) + len(self._lanes)

    def usage(self, kind: MessageClass) -> tuple[int, int]:
        """Return number and bytes of the entries of a class, in any state."""
        return self._counts[kind], self._sizes[kind]

    def usage_by_class(self) -> dict[str, tuple[int, int]]:
        """Return the usage of each class by its name; any thread."""
        return {kind.value: self.usage(kind) for kind in MessageClass if kind is not MessageClass.KEEPALIVE}

    def offer(self, entry: Entry) -> Offered:
        """Queue an entry; a state replaces an older, waiting state of its object."""
        key = self._key(entry)
        older = self._lanes.get(key)
        if older is not None:
            self._lanes.put(key, self._admit(entry))
            self._release(older)
            return Offered(OfferResult.SUPERSEDED_OLDER)
        fits, dropped = self._make_room(entry)
        if not fits:
            return Offered(OfferResult.NO_ROOM, dropped)
        admitted = self._admit(entry)
        if entry.kind is _ANSWER:
            self._answers.append(admitted)
        else:
            self._lanes.put(key, admitted)
        return Offered(OfferResult.QUEUED, dropped)

    def peek(self) -> Entry | None:
        """Return the next entry to leave; None when nothing waits, is written, or fits into the window."""
        entry = self._next()
        return entry if entry is not None and self._window_admits(entry) else None

    def pop(self) -> Entry:
        """Move the entry of `peek` from the queue to the unconfirmed ones; raise LookupError without one."""
        if self._answers:
            entry = self._answers.popleft()
        else:
            key = self._lanes.next(self.ledger.admits)
            if key is None:
                raise LookupError("nothing may be sent")
            entry = self._lanes.remove(key)
        self._add_unconfirmed(entry)
        return entry

    def record_sent(self, entry: Entry) -> None:
        """Note an entry that was sent without having waited here."""
        self._add_unconfirmed(self._admit(entry))

    def confirmed(self, frames: int, now: float) -> None:
        """Confirm the oldest `frames` unconfirmed entries."""
        for _ in range(min(frames, len(self._unconfirmed))):
            entry = self._unconfirmed.popleft()
            self._unconfirmed_bytes -= len(entry.frame)
            self._unconfirmed_events -= len(entry.frame) if entry.kind is _EVENT else 0
            if (
                entry.kind.kept
                and entry.message.id not in self._answered_ids
                and entry.message.id not in self._read_before
            ):
                self._settling.append((now, self.ledger.read(entry)))
            else:
                self._release(entry)
        self._let_settle(now)

    def settled(self, now: float) -> float | None:
        """Release settled entries; return when the next will have settled (monotonic seconds), None for never."""
        self._let_settle(now)
        return self._settling[0][0] + self._settle if self._settling else None

    def answered(self, message_id: str) -> None:
        """Release a message that the cloud has answered, and older states of the same object."""
        if self._open_requests.pop(message_id, None) is not None:
            return
        places = [entry for _, entry in self._settling] + list(self._unconfirmed)
        found = next((entry for entry in places if entry.message.id == message_id and entry.kind.kept), None)
        if found is None:
            return
        done = {found.message.id}
        if found.state is not None:
            done.update(entry.message.id for entry in places[: places.index(found)] if entry.state == found.state)
        self._answered_ids |= done
        settling, self._settling = self._settling, deque()
        for when, entry in settling:
            if entry.message.id in done:
                self._release(entry)
            else:
                self._settling.append((when, entry))

    def link_lost(self) -> list[Message]:
        """Queue unconfirmed and settling entries again, before all others, after the link has ended.

        Returns:
            The requests that will get no answer, without their contents.
        """
        self._read_before.update(entry.message.id for _, entry in self._settling)
        for entry in reversed([*(entry for _, entry in self._settling), *self._unconfirmed]):
            self._requeue(entry)
        self._settling.clear()
        self._unconfirmed.clear()
        self._unconfirmed_bytes = self._unconfirmed_events = 0
        self._drop(self._lanes.keys_where(lambda one: one.kind is MessageClass.RESPONSE))
        waiting = self._drop(self._lanes.keys_where(lambda one: one.kind is _REQUEST))
        requests = [*self._open_requests.values(), *(entry.message for entry in waiting)]
        self._open_requests.clear()
        return requests

    def remove_largest(self, over: int) -> Entry | None:
        """Forget and return the largest unconfirmed entry of more than so many bytes; call it before `link_lost`."""
        entry = max(self._unconfirmed, key=lambda one: len(one.frame), default=None)
        if entry is None or len(entry.frame) <= over:
            return None
        self._unconfirmed.remove(entry)
        self._release(entry)
        return entry

    def expire(self, now: float) -> list[Entry]:
        """Drop and return the entries that have waited longer than the limit of their class."""
        return self._drop(
            self._lanes.keys_where(lambda one: one.kind.kept and 0 < self._limits[one.kind].age < now - one.accepted)
        )

    def release_settling(self) -> None:
        """Release all settling entries: the link is closed in good order, so the cloud has them."""
        while self._settling:
            self._release(self._settling.popleft()[1])

    def attach(self, stored: Iterable[Entry], last: int = 0) -> None:
        """Take the entries found in the outbox, oldest first.

        The first time they are queued, before entries accepted meanwhile. When the outbox is opened again, this object
        is right: rows that the outbox lacks are put, others are removed.

        Args:
            stored: the entries.
            last: the highest serial used in the outbox.
        """
        found = list(stored)
        if self.ledger.is_open:
            self.ledger.compare(self.all_entries(), found)
            return
        self.ledger.open(max([last, *(one.serial for one in found)]))
        waiting = self._lanes.drain()
        for entry in found:
            self._account(entry, 1)
            self._place(entry)
        for entry in waiting:
            self._account(entry, -1)
            self._place(self._admit(entry))

    def all_entries(self) -> Iterator[Entry]:
        """Yield all entries, in any state, except waiting answers."""
        yield from self._lanes.entries()
        yield from self._unconfirmed
        yield from (entry for _, entry in self._settling)

    def _next(self) -> Entry | None:
        if self._answers:
            return self._answers[0]
        key = self._lanes.next(self.ledger.admits)
        return None if key is None else self._lanes.get(key)

    def _key(self, entry: Entry) -> Hashable:
        return next(self._keys) if entry.state is None else entry.state

    def _admit(self, entry: Entry) -> Entry:
        """Count an entry, and number it if it is kept."""
        self._account(entry, 1)
        return self.ledger.admit(entry)

    def _place(self, entry: Entry) -> None:
        key = self._key(entry)
        older = self._lanes.pop(key)
        self._lanes.put(key, entry)
        if older is not None:
            self._release(older)

    def _add_unconfirmed(self, entry: Entry) -> None:
        self._unconfirmed.append(entry)
        self._unconfirmed_bytes += len(entry.frame)
        self._unconfirmed_events += len(entry.frame) if entry.kind is _EVENT else 0
        if entry.kind is _REQUEST:
            self._open_requests[entry.message.id] = entry.message.with_content(None)
            if len(self._open_requests) > self._limits[_REQUEST].messages:
                self._open_requests.popitem(last=False)

    def _release(self, entry: Entry) -> None:
        """Forget an entry."""
        self._account(entry, -1)
        self._answered_ids.discard(entry.message.id)
        self._read_before.discard(entry.message.id)
        self.ledger.release(entry)

    def _account(self, entry: Entry, sign: int) -> None:
        self._counts[entry.kind] += sign
        self._sizes[entry.kind] += sign * len(entry.frame)

    def _let_settle(self, now: float) -> None:
        while self._settling and self._settling[0][0] + self._settle <= now:
            self._release(self._settling.popleft()[1])

    def _requeue(self, entry: Entry) -> None:
        if entry.kind is _ANSWER:
            self._answers.appendleft(entry)
            return
        key = self._key(entry)
        if not entry.kind.kept or entry.message.id in self._answered_ids or key in self._lanes:
            self._release(entry)
        else:
            self._lanes.put(key, entry if entry.serial else self.ledger.admit(entry))
        waiting = self._lanes.get(key)
        if waiting is not None:
            self._lanes.put(key, waiting, first=True)

    def _drop(self, keys: Iterable[Hashable]) -> list[Entry]:
        entries = [entry for key in list(keys) if (entry := self._lanes.pop(key)) is not None]
        for entry in entries:
            self._release(entry)
        return entries

    def _make_room(self, entry: Entry) -> tuple[bool, tuple[Entry, ...]]:
        """Make room for an entry: release settling entries of its class; for an event, also drop the oldest event."""
        dropped: list[Entry] = []
        while not self._fits(entry):
            if not entry.kind.kept:
                return False, ()
            settling = next((one for one in self._settling if one[1].kind is entry.kind), None)
            if settling is not None:
                self._settling.remove(settling)
                self._release(settling[1])
                continue
            if entry.kind is not _EVENT:
                return False, tuple(dropped)
            oldest = next(self._lanes.keys_where(lambda one: one.kind is _EVENT), None)
            if oldest is None:
                return False, tuple(dropped)
            dropped += self._drop([oldest])
        return True, tuple(dropped)

    def _fits(self, entry: Entry) -> bool:
        limit, count = self._limits[entry.kind], self._counts[entry.kind]
        return not count or (count < limit.messages and self._sizes[entry.kind] + len(entry.frame) <= limit.size)

    def _window_admits(self, entry: Entry) -> bool:
        if not self._unconfirmed:
            return True
        events = self._unconfirmed_events
        if entry.kind is _EVENT and events and events + len(entry.frame) > EVENT_WINDOW_BYTES:
            return False
        room = self._unconfirmed_bytes + len(entry.frame) <= WINDOW_BYTES
        return room and len(self._unconfirmed) < WINDOW_FRAMES
