"""One message on its way into one module, and the record of it that observers get."""

from collections.abc import Callable
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pykka

from beehive.causes import current
from beehive.message import Message

if TYPE_CHECKING:
    from beehive.turn import TurnTimer


class Way(StrEnum):
    """How a message came to a module."""

    SEND = "send"
    REQUEST = "request"
    BROADCAST = "broadcast"
    RESPONSE = "response"


class Kind(Enum):
    """What may happen to a message when its module's inbox is full."""

    COMMAND = "command"
    """Waits for room up to a deadline, then goes to the dead letters. Commands and events."""
    STATE = "state"
    """Only the newest for each object is kept, in the place of the first. Statuses, heartbeats."""
    TELEMETRY = "telemetry"
    """The oldest is dropped."""


class Outcome(StrEnum):
    """What became of a delivery."""

    HANDLED = "handled"
    FAILED = "failed"
    COALESCED = "coalesced"
    DROPPED = "dropped"
    DEAD = "dead"


class DropReason(StrEnum):
    """Why a message was not handled. Closed, because metrics count by it."""

    INBOX_FULL = "inbox full"
    NO_MODULE = "no such module"
    NO_GROUP = "no such group"
    NO_HANDLER = "no handler"
    POISON = "handler failed repeatedly"
    STOPPED = "module stopped"
    NOT_SENT = "could not leave the process"
    SUPERSEDED = "superseded by a newer state"
    OLDEST_TELEMETRY = "oldest telemetry dropped"
    LATE_ANSWER = "answer after the deadline"
    DOUBLE_ANSWER = "second answer"
    UNKNOWN_ANSWER = "answer to no known request"
    FOREIGN_ANSWER = "answer of one that was not asked"


class Record(msgspec.Struct, frozen=True, gc=False):
    """What a tap is told of one delivery."""

    time: float
    """When it ended, monotonic seconds of the hive's clock."""
    module: str
    """To whom. Of an answer: the actor that asked, or empty when nobody did."""
    message: Message
    """What; `message.route.source` says from whom."""
    way: Way
    outcome: Outcome
    reason: DropReason | None
    depth: int
    """Deliveries waiting in the module's inbox when this one was put there."""
    waited: float
    """Seconds in the inbox."""
    handled: float
    """Seconds in the handler."""
    sender: str = ""
    """Actor in whose turn it was sent; empty outside of any."""
    span: int = 0
    """Its number in the hive, see `beehive.causes`."""
    cause: int = 0
    """Span in whose course it was sent; 0 for none."""
    trace: int = 0
    """First span of the chain."""


class Fired(msgspec.Struct, frozen=True, gc=False):
    """What a watcher is told of one timer of a module that ran."""

    time: float
    """When its function returned, monotonic seconds."""
    module: str
    name: str
    """Qualified name of the function."""
    seconds: float
    """What the timer was set to."""
    periodic: bool
    handled: float
    """Seconds in the function."""
    span: int
    cause: int
    """Span in whose course it was set; 0 for a periodic one, which begins a trace each time."""
    trace: int


class ModuleFailed(msgspec.Struct, frozen=True):
    """What a watcher is told when a module has failed."""

    time: float
    module: str
    error: BaseException


Happened = Fired | ModuleFailed
"""What the bus tells watchers."""


class Tap(Protocol):
    """An observer of every delivery. It is called on the module's own thread and must not block or raise."""

    def delivered(self, record: Record) -> None:
        """Take notice of one delivery that has come to an end."""


class Delivery(msgspec.Struct, eq=False):
    """A message in an inbox, with the handler that was chosen for it.

    It stands where pykka has an envelope: a module's loop tells them apart by class.
    """

    message: Message
    handler: Callable[[Any, Message], None]
    way: Way
    attempts: int = 0
    depth: int = 0
    enqueued: float = -1.0
    """When it was put into the inbox, by the monotonic clock; negative when there was no tap to ask for it."""
    sender: str = ""
    span: int = 0
    cause: int = 0
    trace: int = 0
    """These four as in `Record`; empty when there was no tap."""


class Continuation:
    """The rest of a handler that waited for an answer or a timer: runs on its module, in its turn.

    `owner` is the module's life that waits for it. The inbox outlives it, and the next life must not run what belongs
    to the one before. It runs in the course of that in which it was made.
    """

    __slots__ = ("call", "owner", "span", "timer", "trace")

    def __init__(self, owner: object, call: Callable[[], None], timer: "TurnTimer | None" = None) -> None:
        self.owner = owner
        self.call = call
        self.timer = timer
        turn = current()
        self.span = turn.span
        self.trace = turn.trace


Item = Delivery | Continuation | pykka._envelope.Envelope[Any]
"""What an inbox holds."""
