"""Deliveries of messages to modules, and the records of them that observers receive."""

from collections.abc import Callable
from enum import Enum, StrEnum
from typing import Any, Final, Protocol

import msgspec

from beehive.message import Message


class DeliveryMode(StrEnum):
    """Way in which a message was sent to a module."""

    SEND = "send"
    REQUEST = "request"
    BROADCAST = "broadcast"
    RESPONSE = "response"


class OverflowPolicy(Enum):
    """The treatment of a message when its module's inbox is full."""

    COMMAND = "command"
    """It waits for room up to a deadline, then becomes a dead letter. For commands and events."""
    STATE = "state"
    """It replaces an older message about the same object, at that one's place. For statuses and heartbeats."""
    TELEMETRY = "telemetry"
    """It displaces the oldest."""


class Outcome(StrEnum):
    """End of a delivery."""

    HANDLED = "handled"
    FAILED = "failed"
    COALESCED = "coalesced"
    DROPPED = "dropped"
    DEAD = "dead"


class DropReason(StrEnum):
    """Why a message was not handled. A closed set, because it is a label of metrics."""

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


class DeliveryRecord(msgspec.Struct, frozen=True, gc=False):
    """A delivery that has ended, as taps receive it."""

    time: float
    """When it ended, in monotonic seconds of the hive's clock."""
    module: str
    """The receiving module. For an answer: the actor that asked, or empty without one."""
    message: Message
    """The message; its sender is in `message.route.source`."""
    mode: DeliveryMode
    outcome: Outcome
    reason: DropReason | None
    depth: int
    """Items that waited in the module's inbox when this delivery was put there."""
    waited: float
    """Seconds in the inbox."""
    handled: float
    """Seconds in the handler."""
    sender: str = ""
    """Name of the actor that sent it; empty outside of an actor."""
    span: int = 0
    """Its number in the hive, see `beehive.trace_context`."""
    cause: int = 0
    """The span that caused it; 0 without one."""
    trace: int = 0
    """The first span of the chain of causes."""


class TimerRun(msgspec.Struct, frozen=True, gc=False):
    """A timer of a module that fired, as watchers receive it."""

    time: float
    """When its function returned, in monotonic seconds."""
    module: str
    name: str
    """Qualified name of the function."""
    seconds: float
    """The delay or the period that the timer was set to."""
    periodic: bool
    handled: float
    """Seconds in the function."""
    span: int
    cause: int
    """The span that set the timer; 0 for a periodic timer, because each run begins a trace."""
    trace: int
    waited: float = 0.0
    """Seconds from when it was set until the function began; 0 for a periodic timer."""


class ModuleFailed(msgspec.Struct, frozen=True):
    """A failure of a module, as watchers receive it."""

    time: float
    module: str
    error: BaseException


ANSWER: Final = "answer"
"""Name of the turn in which a module takes the answer to its request, or the error."""


class TurnTaken(msgspec.Struct, frozen=True, gc=False):
    """A module's turn that was no message and no timer, as watchers receive it: it took an answer, or a named call of
    another thread (`Module.call_soon`).
    """

    time: float
    """When it began, in monotonic seconds."""
    module: str
    name: str
    since: float | None
    """When the work began whose result it took, in monotonic seconds, if the caller states it."""
    span: int
    """Its number among the spans, for its place among records of the same moment; causes name `cause` instead."""
    cause: int
    """The span in which it was put into the inbox: of an answer, the answer's own."""
    trace: int


HiveEvent = TimerRun | TurnTaken | ModuleFailed
"""The events of the hive itself that watchers receive."""


class Tap(Protocol):
    """An observer of every delivery. It is called on the module's thread and must not block or raise."""

    def delivered(self, record: DeliveryRecord) -> None:
        """Observe a delivery that has ended."""


class Delivery(msgspec.Struct, eq=False):
    """A message in an inbox, with the handler that was chosen for it.

    It takes the place of pykka's envelope; a module's loop tells the two apart by class.
    """

    message: Message
    handler: Callable[[Any, Message], None]
    mode: DeliveryMode
    attempts: int = 0
    depth: int = 0
    enqueued: float = -1.0
    """When it was put into the inbox, in monotonic seconds; negative if the hive had no tap."""
    sender: str = ""
    span: int = 0
    cause: int = 0
    trace: int = 0
    """These four as in `DeliveryRecord`; empty if the hive had no tap."""
