"""Links over which the cloud sends its recorded frames at their times.

A recorded answer names the recorded request, which has another id in the replay. It is found by its role, and an answer
recorded earlier than the replay's request waits for it. Frames of the node are confirmed at the recorded times, or at
once if the trace has none.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final

import msgspec

from beehive import Message, Runtime, decode, encode
from beehive.names import ModuleName
from beehive.trace import Delivered, Direction, LinkFrame, Note
from edgehub.errors import ClosedHereError, LinkError, LinkLostError, OutboxError
from edgehub.link import Link, LinkEvents
from edgehub.outbox.manager import WRITTEN
from edgehub.outbox.recording import FAILED
from edgehub.outbox.store import OpenOutbox, StoredMessage
from edgehub.recording import CONFIRMED
from edgehub.subject import subject
from modules.lab.replay.outputs import handled_from, message_of, sent_at
from modules.lab.replay.recorded import Recorded

_STEP: Final = 1e-9
"""Seconds between the handling of a message and of what came behind it."""


class RecordedConnection(msgspec.Struct):
    """One recorded connection, or an attempt at one."""

    up: float | None = None
    down: float = float("inf")
    why: str = ""
    frames: list[LinkFrame] = []
    confirmed: list[tuple[float, int]] = []
    """Time, and how many more frames the cloud had read then."""


class RecordedCloud:
    """The maker of a replay's links, which sends the cloud's recorded frames over them.

    Args:
        actors: the replay's runtime.
        recorded: the run.
        acted: when answers were acted on, by their spans; see `acted_at`.
        alone: whether edgehub is replayed alone, and gets each message when its handler began.
    """

    def __init__(self, actors: Runtime, recorded: Recorded, acted: Mapping[int, float], *, alone: bool = False) -> None:
        self.actors = actors
        self.given = 0
        """Number of frames sent so far."""
        self._connections = deque(connections_of(recorded))
        if alone:
            self._put_behind([one for one in recorded.delivered() if one.module == ModuleName.EDGEHUB])
        self._acted = {one.cause: acted[one.span] for one in recorded.delivered() if one.span in acted}
        """The same by the spans of frames."""
        self.confirms = not recorded.notes(CONFIRMED)
        """Whether frames of the node are confirmed immediately."""
        self._roles: dict[str, Hashable] = {}
        """Roles of recorded requests by their ids."""
        self._ids: dict[Hashable, str] = {}
        """Ids of this run's messages by their roles."""
        self._recorded_number: dict[tuple[str, str], int] = defaultdict(int)
        self._number: dict[tuple[str, str], int] = defaultdict(int)
        self._held: dict[Hashable, list[Callable[[str], None]]] = {}
        for frame in recorded.frames():
            message = message_of(frame.frame) if frame.direction is Direction.OUT else None
            if message is not None and not message.parent_id and message.id not in self._roles:
                step = (message.operation, subject(message.message()))
                self._recorded_number[step] += 1
                self._roles[message.id] = (*step, self._recorded_number[step])

    def _put_behind(self, deliveries: list[Delivered]) -> None:
        """Let edgehub learn that a link is up or down after what had come before that, and was handled after it."""

        def behind(time: float) -> float:
            handled = (handled_from(one) for one in deliveries if sent_at(one) < time < handled_from(one))
            return max((each + _STEP for each in handled), default=time)

        for connection in self._connections:
            connection.up = None if connection.up is None else behind(connection.up)
            connection.down = behind(connection.down)

    def make_link(self) -> Link:
        """Return the next link."""
        connection = self._connections.popleft() if self._connections else RecordedConnection()
        return RecordedLink(self, connection)

    def due(self, frame: LinkFrame) -> float:
        """Return when to send a recorded frame: an answer when it was acted on."""
        return self._acted.get(frame.span, frame.time)

    def send(self, link: "RecordedLink", frame: LinkFrame) -> None:
        """Send a recorded frame, or keep it until its request has been made."""
        recorded = message_of(frame.frame)
        role = self._roles.get(recorded.parent_id) if recorded is not None else None
        if recorded is None or role is None:
            link.deliver(frame.frame)
            return
        message = recorded.message()
        key = self._ids.get(role)
        if key is not None:
            link.deliver(encode(message.with_header(parent_msg_id=key)))
        else:
            self._held.setdefault(role, []).append(
                lambda key: link.deliver(encode(message.with_header(parent_msg_id=key)))
            )

    def receive(self, frame: bytes) -> None:
        """Learn the id of a frame that the node sent, and send the answers that waited for it."""
        message: Message = decode(frame)
        if message.parent_id or message.id in self._roles:
            self._learn(self._roles.get(message.id), message.id)
            return
        step = (message.route.operation, subject(message))
        self._number[step] += 1
        self._learn((*step, self._number[step]), message.id)

    def _learn(self, role: Hashable, key: str) -> None:
        if role is not None:
            self._ids[role] = key
            for held in self._held.pop(role, []):
                held(key)


class RecordedLink(Link):
    """One link to the recorded cloud."""

    def __init__(self, cloud: RecordedCloud, connection: RecordedConnection) -> None:
        self._cloud = cloud
        self._connection = connection
        self._queue: Any = cloud.actors.queue()
        self._ended = False
        self._sent = 0
        self._read = 0
        """Number of frames that the recorded cloud has read until now."""
        self._confirmed = 0

    def run(self, events: LinkEvents) -> LinkError:
        """Connect and serve at the recorded times (`Link.run`)."""
        connection, clock = self._connection, self._cloud.actors.clock
        lost = LinkLostError(connection.why)
        self._at(connection.up if connection.up is not None else connection.down, None)
        if self._queue.get() is not None or connection.up is None:
            return lost
        events.opened()
        for frame in connection.frames:
            self._at(self._cloud.due(frame), frame)
        for time, frames in connection.confirmed:
            self._at(time, frames)
        if connection.down != float("inf"):
            clock.after(connection.down - clock.monotonic(), lambda: self._queue.put(lost))
        while not isinstance(item := self._queue.get(), LinkError):
            if isinstance(item, int):
                self._confirm(events, item)
            elif isinstance(item, LinkFrame):
                self._cloud.send(self, item)
            else:
                self._cloud.given += 1
                events.received(item)
        self._ended = True
        return item

    def send(self, frame: bytes) -> None:
        """Pass a frame to the cloud."""
        if not self._ended:
            self._cloud.receive(frame)
            self._sent += 1
            if self._cloud.confirms:
                self._queue.put(1)
            elif self._read > self._confirmed:
                self._queue.put(0)

    def close(self) -> None:
        """End the connection."""
        self._queue.put(ClosedHereError())

    def deliver(self, frame: bytes) -> None:
        """Deliver a frame to the node now."""
        self._queue.put(frame)

    def _confirm(self, events: LinkEvents, frames: int) -> None:
        """Confirm frames that the cloud has read; one that the node sends later than it did waits for nothing."""
        self._read += frames
        number = min(self._read, self._sent) - self._confirmed
        if number > 0:
            self._confirmed += number
            events.confirmed(number)

    def _at(self, time: float, item: object) -> None:
        clock = self._cloud.actors.clock
        if time != float("inf"):
            clock.after(time - clock.monotonic(), lambda: self._queue.put(item))


def connections_of(recorded: Recorded) -> list[RecordedConnection]:
    """Return the recorded connections and attempts in their order. A capture has only frames, with the numbers of their
    connections.
    """
    found: dict[int, RecordedConnection] = {}
    for note in recorded.notes("link"):
        connection = found.setdefault(note.data, RecordedConnection(frames=[], confirmed=[]))
        if note.text == "up":
            connection.up = note.time
        else:
            connection.down, connection.why = note.time, note.text.removeprefix("down: ")
    for note in recorded.notes(CONFIRMED):
        number, frames = note.data
        found[number].confirmed.append((note.time, frames))
    for frame in recorded.frames():
        connection = found.setdefault(frame.connection, RecordedConnection(up=frame.time, frames=[], confirmed=[]))
        if frame.direction is Direction.IN:
            connection.frames.append(frame)
    return [found[number] for number in sorted(found)]


class RecordedOutbox:
    """An outbox in memory that starts with the recorded rows (`edgehub.outbox.store.OutboxStore`).

    Args:
        found: rows of an earlier run.
        actors: runtime of the replay.
        writes: end of each recorded write, in seconds of the trace, with its error, if any; None if that is not known:
            then writes take no time.
    """

    def __init__(
        self, found: list[StoredMessage], actors: Runtime, writes: Iterable[tuple[float, str]] | None = None
    ) -> None:
        self._rows = {one.serial: one for one in found}
        self._actors = actors
        self._writes = None if writes is None else deque(writes)

    def load(self) -> list[StoredMessage]:
        """Return the rows in the order of their serials."""
        return [self._rows[serial] for serial in sorted(self._rows)]

    def change(self, put: Iterable[StoredMessage], gone: Iterable[int]) -> None:
        """Add and remove rows when the recorded outbox had; a write that did not end there does not end.

        Raises:
            OutboxError: the recorded write failed.
        """
        error = "" if self._writes is None else self._end_of(self._writes)
        if error:
            raise OutboxError("write the outbox", "", error)
        self._rows.update((one.serial, one) for one in put)
        for serial in gone:
            self._rows.pop(serial, None)

    def close(self) -> None:
        """Do nothing."""

    def _end_of(self, writes: deque[tuple[float, str]]) -> str:
        """Wait until the recorded end of the write that begins now, and return its error; empty without one."""
        clock, over = self._actors.clock, self._actors.future()
        now = clock.monotonic()
        while writes and writes[0][0] < now - _STEP:
            writes.popleft()
        if not writes:
            over.get()
        ended, error = writes.popleft()
        clock.after(ended - now, over.set)
        over.get()
        return error


def outbox_of(notes: list[Note], actors: Runtime) -> OpenOutbox | None:
    """Return a function that opens the recorded outbox; None without one, as when messages waited only in memory.

    Args:
        notes: about the outbox.
        actors: runtime of the replay.
    """
    opened = next((note for note in notes if isinstance(note.data, list)), None)
    if opened is None:
        return None
    store = RecordedOutbox([StoredMessage(*row) for row in opened.data], actors, _writes(notes))
    return lambda: store


def _writes(notes: list[Note]) -> list[tuple[float, str]] | None:
    """Return the end of each write with its error, which is noted before; None if there are no such notes."""
    found: list[tuple[float, str]] = []
    error = ""
    for note in notes:
        if note.text == WRITTEN:
            found.append((note.time, error))
            error = ""
        elif note.text.startswith(FAILED):
            error = note.text
    return found or None
